"""Micro-batches of an instant are as few as its commit's time, their size and the view of the source allow."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from bucketingest.spec.model import BucketIngest
from bucketingest.stream.pacing import Batch, Limits, Pace, next_start
from bucketingest.stream.pipeline import Pipeline
from bucketingest.write.instants.source_range import SourceRange

LIMITS = Limits(interval=30.0, trigger=2.0, offsets_max=1_000_000)
LIGHT = Batch(since=8.0, started=10.0, ended=10.2, offsets=2_000)
"""A tenth of the time is needed to write what comes in."""


def test_light_input_waits_for_a_third_of_the_interval() -> None:
    assert next_start(LIGHT, due=40.0, limits=LIMITS) == 20.0


def test_the_last_micro_batch_of_an_instant_ends_when_its_commit_is_due() -> None:
    start = next_start(LIGHT, due=15.0, limits=LIMITS)

    assert start + 0.1 * (start - LIGHT.started) == pytest.approx(15.0)


def test_a_micro_batch_is_expected_to_take_at_most_a_tenth_of_the_interval() -> None:
    busy = replace(LIGHT, ended=11.0)

    assert next_start(busy, due=40.0, limits=LIMITS) == busy.started + 3.0 / 0.5


def test_a_micro_batch_may_take_as_long_as_the_trigger() -> None:
    busy = replace(LIGHT, ended=11.0)

    assert next_start(busy, due=400.0, limits=replace(LIMITS, trigger=5.0)) == busy.started + 10.0


def test_a_micro_batch_fills_at_most_half() -> None:
    large = replace(LIGHT, offsets=200_000)  # 100,000 a second

    assert next_start(large, due=40.0, limits=LIMITS) == large.started + 5.0


def test_input_that_is_left_behind_does_not_wait() -> None:
    full = replace(LIGHT, offsets=950_000)

    assert next_start(full, due=40.0, limits=LIMITS) <= full.ended


def test_a_commit_that_is_overdue_does_not_wait() -> None:
    assert next_start(LIGHT, due=9.0, limits=LIMITS) <= LIGHT.ended


@dataclass(slots=True)
class Stream:
    """An instant after the other, by a clock that only the waits and the work move."""

    rate: int
    seconds_per_row: float
    fixed_seconds: float
    now: float = 1000.0
    opened: float | None = None
    read: int = 0
    per_instant: list[int] = field(default_factory=list)
    late: list[float] = field(default_factory=list)
    batches: int = 0

    def due(self) -> float | None:
        return None if self.opened is None else self.opened + LIMITS.interval

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.commit_if_due()

    def commit_if_due(self) -> None:
        due = self.due()
        if due is not None and self.now >= due:
            self.per_instant.append(self.batches)
            self.late.append(self.now - due)
            self.opened, self.batches = None, 0

    def run(self, seconds: float) -> None:
        pace = Pace(LIMITS, self.due, clock=lambda: self.now, sleep=self.sleep)
        end = self.now + seconds
        while self.now < end:
            started = self.now
            pace.batch_started()
            self.opened = self.opened or self.now
            until = min(int((self.now - 998.0) * self.rate), self.read + LIMITS.offsets_max)
            took, read = self.fixed_seconds + (until - self.read) * self.seconds_per_row, self.read
            self.read, self.batches = until, self.batches + 1
            self.now += took
            self.commit_if_due()
            pace.pause(offsets(read, until), gives_way=lambda: False, waits=lambda: None)
            self.now = max(self.now, started + LIMITS.trigger)


def offsets(start: int, end: int) -> SourceRange:
    return SourceRange("kafka", json.dumps({"t": {"0": start}}), json.dumps({"t": {"0": end}}), "query", 1)


@pytest.mark.parametrize(
    ("rate", "batches_max"),
    [
        pytest.param(1_000, 4, id="light"),
        pytest.param(30_000, 4, id="a tenth of the time is needed"),
        pytest.param(150_000, 11, id="half of it"),
        pytest.param(270_000, 16, id="nine tenths: as many as without a pause"),
    ],
)
def test_a_steady_stream_has_few_micro_batches_and_commits_in_time(rate: int, batches_max: int) -> None:
    stream = Stream(rate=rate, seconds_per_row=1 / 300_000, fixed_seconds=0.2)

    stream.run(600)

    assert max(stream.per_instant[1:]) <= batches_max
    assert max(stream.late[1:]) <= 3.5, "a commit waits for one micro-batch at most"
    assert len(stream.per_instant) >= 16


def test_a_stream_that_waited_is_caught_up_without_pauses() -> None:
    stream = Stream(rate=100_000, seconds_per_row=1 / 300_000, fixed_seconds=0.2, read=-8_000_000)

    stream.run(40)

    assert stream.read >= 3_000_000


def test_after_a_quiet_hour_the_rate_is_that_of_the_last_look() -> None:
    clock = Hands()
    pace = Pace(LIMITS, lambda: 9000.0, clock=clock, sleep=clock.sleep)
    pace.batch_started()
    pace.pause(offsets(0, 10), gives_way=lambda: False, waits=lambda: None)
    clock.now += 3600
    pace.batch_started()
    clock.now += 1.0
    pace.pause(offsets(10, 200_010), gives_way=lambda: False, waits=lambda: None)

    assert clock.now == pytest.approx(4605.0), "200,000 offsets in 2 s: after 5 s there are half as many as allowed"


@dataclass(slots=True)
class Hands:
    """A clock that only waiting moves."""

    now: float = 1000.0
    then: Callable[[], None] = lambda: None

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.then()


def second_batch(pace: Pace, clock: Hands, **how: Callable[[], bool]) -> float:
    """How long the pause after a second micro-batch of half a second was."""
    pace.batch_started()
    pace.pause(offsets(0, 10), gives_way=lambda: False, waits=lambda: None)
    clock.now += 2.0
    pace.batch_started()
    clock.now += 0.2
    ended = clock.now
    pace.pause(offsets(10, 20), gives_way=how.get("gives_way", lambda: False), waits=lambda: None)
    return clock.now - ended


def test_a_query_that_ends_does_not_wait() -> None:
    clock = Hands()
    pace = Pace(LIMITS, lambda: 9000.0, clock=clock, sleep=clock.sleep)

    assert second_batch(pace, clock, gives_way=lambda: clock.now > 1004) == pytest.approx(1.9, abs=0.11)


def test_a_commit_ends_the_pause() -> None:
    clock = Hands()
    pace = Pace(LIMITS, lambda: None if clock.now > 1004 else 1030.0, clock=clock, sleep=clock.sleep)

    assert second_batch(pace, clock) == pytest.approx(1.9, abs=0.11)


def test_nothing_is_known_of_a_new_querys_first_micro_batch() -> None:
    clock = Hands()
    pace = Pace(LIMITS, lambda: 9000.0, clock=clock, sleep=clock.sleep)
    assert second_batch(pace, clock) > 5
    pace.begin()
    before = clock.now

    pace.batch_started()
    pace.pause(offsets(20, 30), gives_way=lambda: False, waits=lambda: None)

    assert clock.now == before


def test_a_position_that_is_not_kafkas_is_not_waited_for() -> None:
    clock = Hands()
    pace = Pace(LIMITS, lambda: 9000.0, clock=clock, sleep=clock.sleep)
    second_batch(pace, clock)
    before = clock.now

    pace.batch_started()
    files = SourceRange("checkpoint", None, '{"logOffset": 3}', "query", 3)
    pace.pause(files, gives_way=lambda: False, waits=lambda: None)

    assert clock.now == before


KAFKA = {"kafka": {"bootstrapServers": "broker:9092", "topics": ["orders"]}}


@pytest.mark.parametrize(
    ("source", "commit", "table", "paced"),
    [
        pytest.param(KAFKA, {}, {}, True, id="an instant spans micro-batches of Kafka"),
        pytest.param(KAFKA, {"mode": "checkpoint"}, {}, False, id="a micro-batch is an instant"),
        pytest.param(KAFKA, {"trigger": "once"}, {}, False, id="once"),
        pytest.param(KAFKA, {}, {"index": {"type": "state"}}, False, id="new keys are in base files"),
        pytest.param({"files": {"path": "/in", "format": "parquet"}}, {}, {}, False, id="another source"),
    ],
)
def test_what_is_paced(source: Any, commit: dict[str, Any], table: dict[str, Any], *, paced: bool) -> None:
    document = {
        "apiVersion": "bucketingest.dev/v1alpha1",
        "kind": "BucketIngest",
        "metadata": {"name": "orders"},
        "spec": {
            "source": source,
            "format": {"type": "json", "schema": "id STRING"} if "kafka" in source else None,
            "table": {"path": "/lake/orders", "recordKey": ["id"], "index": {"buckets": 4}, **table},
            "commit": commit,
        },
    }

    assert (Pace.of(Pipeline.of(BucketIngest.from_document(document)), lambda: None) is not None) == paced
