"""An archival that dies, or is fenced out, between any two steps; and what readers see there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bucketingest.hudi.history.archived import archived_instants
from bucketingest.hudi.history.manifest import load_manifest
from bucketingest.hudi.history.writer import publish, write_history_file
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.services.archive import execute
from support.storage.crashing_storage import Crash, CrashingStorage
from support.storage.passing_storage import PassingStorage
from support.storage.swapping_storage import Swapping
from support.tables.services.archivals import (
    SERVICES,
    WRITES,
    all_instants,
    first_archived,
    history_column,
    run,
    table,
    unchecked,
)
from support.tables.services.old_timelines import at, finish, history_files_of, timeline_files


class FencedOut(Exception):
    """The lease is lost."""


class Conditional(Swapping, CrashingStorage):
    """Dies, too, at a swap."""


@pytest.mark.parametrize("kind", [CrashingStorage, Conditional])
@pytest.mark.parametrize("later", [[], [at(140), at(130)]], ids=["same", "more"])
def test_a_crash_at_any_change_loses_no_instant_and_a_second_run_ends_it(
    kind: type[CrashingStorage], later: list[str]
) -> None:
    """`later`: instants that complete between the crash and the second run, so that it chooses others."""
    counted = kind(first_archived(), -1)
    run(counted)
    assert counted.changes > 20
    for dies_at in range(counted.changes):
        storage = first_archived()
        before = all_instants(storage)
        with pytest.raises(Crash):
            run(kind(storage, dies_at))
        assert all_instants(storage) == before, f"after a crash at change {dies_at}"
        assert Timeline.load(storage).pending == (), "a completed file went before its pending ones"
        for time in later:
            finish(storage, time, schema='{"type": "record"}')
        run(storage)
        run(storage)
        expected = sorted([*WRITES, *later])
        left = {instant.request_time for instant in Timeline.load(storage).instants}
        assert left == set(expected[-2:]), f"after a crash at change {dies_at}"
        assert {name[:17] for name in timeline_files(storage)} == left
        rows = [
            row
            for entry in load_manifest(storage).entries
            for row in history_column(storage, entry.name, "instantTime")
        ]
        assert len(rows) == len(set(rows)), "no row was written twice"
        assert {instant.request_time for instant in all_instants(storage)} >= set(expected)


def test_readers_find_every_instant_between_any_two_steps() -> None:
    storage = first_archived()
    before = all_instants(storage)

    class Watched(PassingStorage):
        def _change(self, path: str, act: Callable[[], None]) -> None:
            act()
            assert all_instants(storage) == before, path
            completed = [each.request_time for each in Timeline.load(storage).completed]
            assert [time for time in WRITES if time in completed] == WRITES[
                -len([t for t in WRITES if t in completed]) :
            ]

    run(Watched(storage))
    assert len(Timeline.load(storage).instants) == 2


def test_the_horizon_is_there_before_the_first_deletion_and_completed_files_go_last_and_singly() -> None:
    storage = table()
    steps: list[str] = []

    class Recorded(PassingStorage):
        def delete(self, path: str) -> None:
            steps.append(f"delete {path}")
            super().delete(path)

        def delete_many(self, paths: object) -> None:
            for path in list(paths):  # type: ignore[call-overload]
                steps.append(f"delete many {path}")
                self._inner.delete(path)

        def _change(self, path: str, act: Callable[[], None]) -> None:
            act()
            if "/services/" in path or "/history/" in path:
                steps.append(f"put {path}")

    run(Recorded(storage))
    kinds = [step for step in steps if "crc" not in step]
    assert [kind.rpartition("/")[2] for kind in kinds[:4]] == [
        f"{WRITES[0]}_{WRITES[3]}_0.parquet", "manifest_1", "_version_", "000000000001",
    ]  # fmt: skip
    deleted = kinds[4:]
    completed = [step for step in deleted if "_" in step.rpartition("/")[2]]
    assert deleted[-len(completed) :] == completed == sorted(completed)
    assert all(step.startswith("delete .") for step in completed)
    pending = deleted[: -len(completed)]
    assert [step.endswith("requested") for step in pending] == [True] * 6 + [False] * 6


def test_a_lost_lease_stops_it_before_the_next_step() -> None:
    for allowed in range(6):
        storage = first_archived()
        before = all_instants(storage)
        steps = 0

        def check(allowed: int = allowed) -> None:
            nonlocal steps
            steps += 1
            if steps > allowed:
                raise FencedOut

        with pytest.raises(FencedOut):
            run(storage, check=check)
        assert all_instants(storage) == before
        assert timeline_files(storage) == timeline_files(first_archived()), "nothing was deleted"
        manifest = load_manifest(storage)
        assert (manifest.highest, manifest.published) == [(1, 1), (1, 1), (1, 1), (2, 1), (2, 2), (2, 2)][allowed]
    run(storage)
    assert len(Timeline.load(storage).instants) == 2


def test_rows_that_hudi_archived_before_it_died_are_not_written_again() -> None:
    storage = table()
    timeline = Timeline.load(storage)
    look = execute._Look.at(storage)
    rows = execute._rows(storage, look, timeline.completed[:3])
    publish(storage, write_history_file(storage, rows), (), unchecked)
    run(storage)
    names = history_files_of(storage)
    assert f"{WRITES[0]}_{SERVICES[0][0]}_0.parquet" in names
    assert len(load_manifest(storage).entries) == 2
    assert len(archived_instants(storage)) == 6
