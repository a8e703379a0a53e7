"""Schedules that are built around a rare event; `make simulate EVENT="late plan"` runs many more of one kind."""

from __future__ import annotations

import pytest

from support.simulation.events import EVENTS, Event, event_of
from support.simulation.runs import run_quietly

SEEDS = 1


def test_each_event_is_in_some_schedule() -> None:
    assert {event_of(seed) for seed in range(1000)} == {None, *EVENTS}


@pytest.mark.parametrize(("number", "event"), list(enumerate(EVENTS)))
def test_nothing_is_lost_doubled_or_left_around_an_event_in_a_table_with_a_state(number: int, event: Event) -> None:
    """In every second one a key is in one partition only."""
    verdict = run_quietly(1, state=True, is_global=bool(number % 2), event=event)
    assert not verdict.violations, verdict.report


@pytest.mark.parametrize("event", EVENTS)
def test_nothing_is_lost_doubled_or_left_around_an_event(event: Event) -> None:
    wrong = [verdict.report for seed in range(1, 1 + SEEDS) if (verdict := run_quietly(seed, event=event)).violations]
    assert not wrong, "\n\n".join(wrong)
