"""The judge of the simulation finds each kind of error: each test breaks the writer in one place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import pytest

from bucketingest.hudi.rollback import late_files, rollback
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.storage import Storage
from bucketingest.write import coordinator
from bucketingest.write.coordinator_api import CoordinatorSettings
from bucketingest.write.dead_letters.instant_letters import InstantLetters
from bucketingest.write.instant_look import Look
from bucketingest.write.instants import taken_out
from bucketingest.write.instants.journal import Journal
from bucketingest.write.instants.lifecycle import InstantWriter
from bucketingest.write.instants.records import decision_bytes
from bucketingest.write.instants.shared_table import SharedTable
from bucketingest.write.recovery import execute, facts, start
from bucketingest.write.rows import adoption, append_handle, bucket_writer
from support.simulation.events import features_of
from support.simulation.features import Features
from support.simulation.job import process
from support.simulation.outlasting import Outlasting
from support.simulation.runs import run_quietly

SCHEDULES_MAX = 100


def found(*signs: str, seeds: Iterable[int] = range(SCHEDULES_MAX)) -> bool:
    """Whether one of the first schedules is judged wrong for one of these reasons."""
    verdicts = map(run_quietly, seeds)
    return any(sign in violation for verdict in verdicts for violation in verdict.violations for sign in signs)


def seeds_where(wanted: Callable[[Features], bool], most: int = SCHEDULES_MAX) -> Iterable[int]:
    """The first schedules with the events that a test needs."""
    return islice((seed for seed in range(20_000) if wanted(features_of(seed))), most)


def test_a_decision_that_can_be_made_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def decide(self: Journal, instant: str, wanted: Any) -> Any:
        self._storage.put(self._path(instant, "decision"), decision_bytes(wanted))
        return wanted

    monkeypatch.setattr(Journal, "decide", decide)
    assert found("a decision was overwritten", "is completed twice", "in the files 2 times")


def test_rows_that_are_left_out_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    original = append_handle.AppendHandle.append

    def append(self: append_handle.AppendHandle, rows: Any, size_bytes: int) -> None:
        original(self, rows.slice(1) if rows.num_rows > 1 else rows, size_bytes)

    monkeypatch.setattr(append_handle.AppendHandle, "append", append)
    assert found("lost")


def test_files_named_by_the_attempt_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    original = adoption.create_or_adopt
    calls = iter(range(10**6))

    def create(storage: Storage, path: str, content: Any) -> int | None:
        return original(storage, path.replace("_0-0-0", f"_0-0-{next(calls)}"), content)

    monkeypatch.setattr(bucket_writer, "create_or_adopt", create)
    assert found("in the files 2 times", "names")


def test_a_position_that_is_not_read_from_the_table_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    original = start.settle

    def settle(*arguments: Any) -> Any:
        settled = original(*arguments)
        if settled.start.position is not None and settled.open_instant is None:
            object.__setattr__(settled.start, "position", None)
        return settled

    monkeypatch.setattr(coordinator, "settle", settle)
    assert found("in the files 2 times", "several commits name")


def test_files_that_a_rollback_leaves_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollback, "files_of_instant", lambda *_: [])
    monkeypatch.setattr(late_files, "list_data", lambda *_: iter(()))  # the second line of defence
    monkeypatch.setattr(late_files, "files_of_instant", lambda *_: [])
    assert found("an orphan")


def test_an_instant_that_is_never_finished_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "_recover", lambda *_: None)
    assert found("still pending")


def _resumes_an_edited_query(features: Features) -> bool:
    return features.edits[:1] in {("sql",), ("deletes",)} and features.kills > 2 and not features.visits


def test_rows_of_another_query_that_stay_in_a_resumed_micro_batch_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "CoordinatorSettings", lambda *a, **k: CoordinatorSettings(*a, **(k | {"work": ""})))
    monkeypatch.setattr(InstantWriter, "check_files", lambda *_: None)  # the second line of defence
    edited = seeds_where(_resumes_an_edited_query, most=300)
    assert found("there but should not be", "in the files 2 times", seeds=edited)


def test_a_commit_that_is_completed_after_a_compaction_was_planned_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execute, "overtaken_by", lambda *_: None)
    monkeypatch.setattr(facts, "overtaken_by", lambda *_: None)
    monkeypatch.setattr(execute, "came_too_late", lambda *_: None)
    monkeypatch.setattr(taken_out, "left_out", lambda *_: iter(()))
    assert found("lost", seeds=seeds_where(lambda features: features.compacts))


def test_a_column_of_another_writer_that_is_not_learnt_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SharedTable, "_learn_columns", lambda *_, **__: None)
    assert found("wrong", seeds=seeds_where(lambda features: features.needs_lock))


def test_dead_letters_of_an_archived_instant_that_are_not_published_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    original = InstantLetters.publish

    def publish(self: InstantLetters, instant: str, entries: Any) -> bool:
        return Timeline.load(self._journal._storage).find(instant) is None or original(self, instant, entries)

    monkeypatch.setattr(InstantLetters, "publish", publish)
    seeds = seeds_where(lambda each: each.services == ("archive",) and each.serves is None and each.visits > 6)
    assert found("dead letters of offsets", seeds=seeds)


def test_dead_letters_that_come_again_next_to_the_first_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InstantLetters, "withdraw", lambda *_: None)
    seeds = seeds_where(lambda each: each.checkpoints_are_lost and each.schedules_without_lock)
    assert found("dead letters of offsets", seeds=seeds)


def test_a_commit_on_a_look_of_hours_ago_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver stands still before the request of its decision, until nobody remembers the instant."""
    draw = Outlasting.draw

    def after_closing(self: Outlasting) -> None:
        """The request before a decision closes the instant: it creates the name of the next intent."""
        draw(self)
        self.next_place, self.sort = "after", re.compile(r".*/instants/\d+/intent/\d+")
        self.left = min(self.left, 12)

    monkeypatch.setattr(Outlasting, "draw", after_closing)
    monkeypatch.setattr(Look, "is_fresh", property(lambda _: True))
    verdicts = (run_quietly(seed, event="pause") for seed in range(30))
    assert any("is completed twice" in violation for verdict in verdicts for violation in verdict.violations)
