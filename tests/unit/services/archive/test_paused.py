"""An archival that is paused at any step, loses the lock, and goes on after another process made a whole run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest

from bucketingest.hudi.errors import TimelineError
from bucketingest.hudi.history.manifest import load_manifest
from bucketingest.storage import Storage
from support.storage.passing_storage import PassingStorage
from support.storage.swapping_storage import Swapping
from support.tables.services.archivals import RULES, WRITES, all_instants, first_archived, run
from support.tables.services.old_timelines import timeline_files


class Paused(PassingStorage):
    """The process is paused before its n-th change, while another one makes a whole run."""

    def __init__(self, inner: Storage, before: int, other: Callable[[], object]) -> None:
        super().__init__(inner)
        self.changes = 0
        self._before = before
        self._other = other

    def _change(self, path: str, act: Callable[[], None]) -> None:
        self.changes += 1
        if self.changes == self._before:
            self._other()
        act()


class PausedAtSwaps(Swapping, Paused):
    """The same, of a storage that compares and swaps."""


@pytest.mark.parametrize("kind", [Paused, PausedAtSwaps])
@pytest.mark.parametrize(("ours", "others"), [(9, 9), (9, 3), (3, 9)], ids=["the same", "fewer", "more"])
def test_a_process_that_is_paused_at_any_change_does_no_harm_to_another(
    kind: type[Paused], ours: int, others: int
) -> None:
    """As if it had lost the lock and not noticed. `ours`, `others`: instants that each archives at most."""
    before, changes = 0, 1
    while before < changes:
        before += 1
        storage = first_archived()
        instants_before = all_instants(storage)
        paused = kind(storage, before, partial(run, storage, rules=replace(RULES, instants_max=others)))
        with suppress(TimelineError):
            run(paused, rules=replace(RULES, instants_max=ours))
        changes = paused.changes
        assert all_instants(storage) == instants_before, f"paused before change {before}"
        run(storage)
        assert all_instants(storage) == instants_before
        manifest = load_manifest(storage)
        assert manifest.published == manifest.highest
        assert {name[:17] for name in timeline_files(storage)} == set(WRITES[-2:])
    assert before > 12
