"""When a job counts as alive: its query's thread answers, or does work itself that has a time limit."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from bucketingest.stream.foreach_batch import MicroBatchFunction
from bucketingest.stream.report.board import ProgressBoard
from bucketingest.stream.report.progress import (
    ANSWERS_WITHIN_SECONDS,
    COMMITS_WITHIN_SECONDS,
    Phase,
    Progress,
    is_alive,
)
from bucketingest.write.coordinator_api import Commit
from bucketingest.write.errors import PositionLost

UNUSED = cast(Any, None)
LONG = ANSWERS_WITHIN_SECONDS + 1
WHOLE = Commit("20261121090000000", "20261121090000000", 1, 10, 1, 100, open_seconds=2.0, commit_seconds=0.5)


@pytest.mark.parametrize("phase", [Phase.RUNNING, Phase.IDLE, Phase.STOPPING])
def test_a_query_that_does_not_answer_is_not_alive(phase: Phase) -> None:
    assert is_alive(Progress(LONG, phase), LONG - 2)
    assert not is_alive(Progress(LONG, phase), LONG)


def test_nothing_answers_while_it_starts() -> None:
    assert is_alive(Progress(LONG, Phase.STARTING), LONG)


@pytest.mark.parametrize("phase", [Phase.COMMITTING, Phase.STOPPING])
def test_a_commit_may_last_longer_but_not_for_ever(phase: Phase) -> None:
    assert is_alive(Progress(LONG, phase, committing_for=LONG), LONG)
    for silent in (0.0, LONG):
        assert not is_alive(Progress(LONG, phase, committing_for=COMMITS_WITHIN_SECONDS + 1), silent)


class Coordinator:
    """A commit between micro-batches that waits for storage until the test lets it end."""

    inflight = "20261121090000000"

    def __init__(self, end: Commit | PositionLost | None) -> None:
        self._end = end
        self.waiting, self.storage_is_back = threading.Event(), threading.Event()

    def commit_open(self) -> Commit | None:
        self.waiting.set()
        assert self.storage_is_back.wait(60)
        if isinstance(self._end, PositionLost):
            raise self._end
        return self._end

    commit_if_due = commit_open


@pytest.mark.parametrize("now", [True, False])
@pytest.mark.parametrize("end", [WHOLE, None, PositionLost("rolled back")], ids=["committed", "nothing", "lost"])
def test_a_commit_between_micro_batches_shows_from_its_beginning_to_its_end(
    end: Commit | PositionLost | None, *, now: bool
) -> None:
    board, coordinator = ProgressBoard(), Coordinator(end)
    board.started(None, 1)
    function = MicroBatchFunction(UNUSED, UNUSED, UNUSED, cast(Any, coordinator), board, tasks=1)
    raised: list[PositionLost] = []

    def commit() -> None:
        try:
            function.commit(now=now)
        except PositionLost as error:
            raised.append(error)

    thread = threading.Thread(target=commit, daemon=True)
    thread.start()
    assert coordinator.waiting.wait(60)
    during = board.snapshot()
    coordinator.storage_is_back.set()
    thread.join(60)

    assert during.phase is Phase.COMMITTING
    assert is_alive(during, LONG)
    after = board.snapshot()
    assert (after.phase, after.committing_for) == (Phase.RUNNING, None)
    assert len(raised) == (end is not None and end is not WHOLE)
