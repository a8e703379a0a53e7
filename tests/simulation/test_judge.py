"""The judge of the simulation finds what it is there for: each test breaks the writer in one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bucketingest.hudi import rollback
from bucketingest.storage import Storage
from bucketingest.write import append_handle, bucket_writer, coordination, coordinator, publishing, settling
from bucketingest.write.coordination import Coordination
from support.simulation.runs import run_quietly

SCHEDULES_MAX = 60


def found(*signs: str) -> bool:
    """Whether one of the first schedules is judged wrong for one of these reasons."""
    verdicts = map(run_quietly, range(SCHEDULES_MAX))
    return any(sign in violation for verdict in verdicts for violation in verdict.violations for sign in signs)


def test_a_decision_that_can_be_made_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def decide(self: Coordination, instant: str, wanted: Any) -> Any:
        self._storage.put(self._path(instant, "decision"), coordination._decision_bytes(wanted))
        return wanted

    monkeypatch.setattr(Coordination, "decide", decide)
    assert found("a decision was overwritten", "is completed twice", "in the files 2 times")


def test_rows_that_are_left_out_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    original = append_handle.AppendHandle.append

    def append(self: append_handle.AppendHandle, rows: Any, size_bytes: int) -> None:
        original(self, rows.slice(1) if rows.num_rows > 3 else rows, size_bytes)

    monkeypatch.setattr(append_handle.AppendHandle, "append", append)
    assert found("lost")


def test_files_named_by_the_attempt_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    original = publishing.create_or_adopt
    calls = iter(range(10**6))

    def create(storage: Storage, path: str, content: Any, same_rows: Callable[[bytes, bytes], bool]) -> bool:
        return original(storage, path.replace("_0-0-0", f"_0-0-{next(calls)}"), content, same_rows)

    monkeypatch.setattr(bucket_writer, "create_or_adopt", create)
    assert found("in the files 2 times", "names")


def test_a_position_that_is_not_read_from_the_table_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    original = settling.settle

    def settle(*arguments: Any) -> Any:
        settled = original(*arguments)
        if settled.start.position is not None and settled.open_instant is None:
            object.__setattr__(settled.start, "position", None)
        return settled

    monkeypatch.setattr(coordinator, "settle", settle)
    assert found("in the files 2 times", "several commits name")


def test_files_that_a_rollback_leaves_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollback, "files_of_instant", lambda *_: [])
    assert found("an orphan")


def test_an_instant_that_is_never_finished_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "_recover", lambda *_: None)
    assert found("still pending")
