"""A board whose clock a test moves, and an empty checkpoint root."""

from __future__ import annotations

import pytest

from bucketingest.storage import Storage, open_storage
from bucketingest.stream.report.board import ProgressBoard
from support.jobs.boards import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def board(clock: Clock) -> ProgressBoard:
    return ProgressBoard(clock=clock.now, forward=clock.forward)


@pytest.fixture
def root(request: pytest.FixtureRequest) -> Storage:
    name = "".join(char if char.isalnum() else "-" for char in request.node.name)
    return open_storage(f"memory://checkpoint-{name}")
