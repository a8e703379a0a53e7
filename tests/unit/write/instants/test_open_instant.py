"""How old an open instant is: by a clock that only runs forward, whatever its name says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from bucketingest.hudi.timeline.instant_time import format_time
from bucketingest.write.instants.open_instant import OpenInstant, resumed_at
from bucketingest.write.instants.records import LedgerEntry
from bucketingest.write.instants.source_range import SourceRange

NOW = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
FORWARD = 5000.0
INTERVAL = timedelta(seconds=30)
RANGE = SourceRange("checkpoint", None, "0", query_id="q", batch_id=0)


def instant(named: datetime = NOW, *, whole: bool = True) -> OpenInstant:
    entries = [LedgerEntry(RANGE, ())] if whole else []
    return OpenInstant(format_time(named), FORWARD, entries, started=None if whole else RANGE)


@pytest.mark.parametrize("off", [timedelta(), timedelta(minutes=10), timedelta(minutes=-10)])
def test_its_interval_passes_whatever_its_name_and_the_wall_clock_say(off: timedelta) -> None:
    ahead = instant(NOW + off)
    assert not ahead.is_due(FORWARD + 29.9, INTERVAL, 10)
    assert ahead.is_due(FORWARD + 30, INTERVAL, 10)
    assert ahead.age(FORWARD + 12.5) == timedelta(seconds=12.5)


def test_an_instant_without_a_whole_micro_batch_is_never_due() -> None:
    assert not instant(whole=False).is_due(FORWARD + 3600, INTERVAL, 10)
    assert not instant(whole=False).is_due(FORWARD + 3600, None, 10)


def test_without_an_interval_and_with_enough_files_it_is_due_immediately() -> None:
    assert instant().is_due(FORWARD, None, 10)
    assert instant().is_due(FORWARD, INTERVAL, 0)
    assert not instant().is_due(FORWARD, INTERVAL, 1)


@pytest.mark.parametrize(
    ("named", "age"),
    [
        (NOW - timedelta(seconds=12), 12.0),
        (NOW, 0.0),
        (NOW + timedelta(minutes=10), 0.0),  # the table's clock was ahead, or our clock stepped back
        (NOW - timedelta(hours=5), 30.0),  # due immediately, and no older
    ],
)
def test_a_resumed_instant_is_as_old_as_its_name_says_within_reason(named: datetime, age: float) -> None:
    assert resumed_at(format_time(named), NOW, FORWARD, INTERVAL) == FORWARD - age


def test_without_an_interval_a_resumed_instant_is_as_old_as_its_name_says() -> None:
    assert resumed_at(format_time(NOW - timedelta(minutes=5)), NOW, FORWARD, None) == FORWARD - 300
