"""Whose turn of table services it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from bucketingest.stream.tables.turns import PATIENCE_SECONDS, REST_SHARE, ServiceTurns


@dataclass
class Table:
    topic: str
    services_due: bool = True
    service_pid: int | None = None
    board: Any = field(default_factory=lambda: SimpleNamespace(snapshot=lambda: SimpleNamespace(commits=0)))


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def turns(clock: Clock) -> ServiceTurns:
    made = ServiceTurns(clock)
    clock.now += 10
    return made


def chosen(turns: ServiceTurns, *tables: Table) -> str | None:
    found = turns.next(tables)  # type: ignore[arg-type]
    return None if found is None else found.topic


def test_a_table_that_hangs_before_its_step_loses_its_turn(turns: ServiceTurns, clock: Clock) -> None:
    hangs, other = Table("hangs"), Table("other")
    assert chosen(turns, hangs, other) == "hangs"
    clock.now += PATIENCE_SECONDS - 1
    assert chosen(turns, hangs, other) == "hangs"
    clock.now += 1
    assert chosen(turns, hangs, other) is None
    assert not turns.takes("hangs"), "it may go on at any time"
    clock.now += REST_SHARE * PATIENCE_SECONDS
    assert chosen(turns, hangs, other) == "other"


def test_a_table_whose_services_work_keeps_its_turn(turns: ServiceTurns, clock: Clock) -> None:
    works, other = Table("works"), Table("other")
    assert chosen(turns, works, other) == "works"
    assert turns.takes("works")
    clock.now += 2 * PATIENCE_SECONDS
    chosen(turns, works, other)
    assert turns.is_of("works"), "its step is under way"
    works.services_due, works.service_pid = False, 7
    turns.stepped(works)  # type: ignore[arg-type]
    clock.now += 2 * PATIENCE_SECONDS
    assert chosen(turns, works, other) is None
    works.service_pid = None
    turns.stepped(works)  # type: ignore[arg-type]
    assert not turns.is_of("works")
