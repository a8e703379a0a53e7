"""The judge of the simulation finds what table services do wrong: each test takes a defence out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from bucketingest.services.archive import choose as archive_choice
from bucketingest.services.clean import facts as clean_facts
from bucketingest.services.clean import guard
from bucketingest.services.compaction import decide, facts, holder
from bucketingest.services.compaction.records import CompactionJournal
from support.simulation.events import features_of
from support.simulation.features import Features
from support.simulation.runs import run_quietly

SCHEDULES_MAX = 50


def found(sign: str, wanted: Callable[[Features], bool] = lambda _: True) -> bool:
    """Whether one of the first schedules with table services, and what is wanted, is judged wrong for this reason."""
    serving = (seed for seed in range(10_000) if features_of(seed).serves and wanted(features_of(seed)))
    seeds: Iterable[int] = islice(serving, SCHEDULES_MAX)
    return any(sign in violation for seed in seeds for violation in run_quietly(seed).violations)


def test_a_second_pending_operation_of_a_file_group_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    original = CompactionJournal.put_go

    def put_go(self: CompactionJournal, number: int, *, start: bool) -> bool:
        return original(self, number, start=True)

    monkeypatch.setattr(CompactionJournal, "put_go", put_go)
    assert found("in two pending compactions")


def test_a_rollback_that_is_not_finished_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    original = facts.read_facts
    monkeypatch.setattr(holder, "read_facts", lambda *each: replace(original(*each), unfinished=False))
    assert found(
        "is committed beside its rollback",
        lambda features: features.schedules_without_lock and "schedule" in features.services,
    )


def test_files_of_a_savepoint_that_are_cleaned_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clean_facts, "savepointed_files", lambda *_: {})
    monkeypatch.setattr(guard.Guard, "_of_savepoint", lambda *_: iter(()))  # the second line of defence
    assert found("is deleted, which savepoint")


def test_an_instant_that_is_archived_before_its_log_files_are_cleaned_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_files(*_: Any) -> Iterable[Any]:
        return iter(())

    monkeypatch.setattr(archive_choice, "_pins_of_files", no_files)
    assert found("is in a slice")


def test_a_compaction_that_nobody_finishes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    original = decide.decide

    def without_end(found: decide.Facts) -> decide.Choice:
        choice = original(found)
        return decide.Choice(decide.Step.WAIT, "") if choice.step is decide.Step.COMMIT else choice

    monkeypatch.setattr(holder, "decide", without_end)
    assert found("compactions are still pending")
