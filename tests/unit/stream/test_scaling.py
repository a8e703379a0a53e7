"""The number of executors follows the load, by simulated hours: a steady load, a day, a burst, an outage."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import pairwise

import pytest

from bucketingest.hudi.table.table import TableDefinition
from bucketingest.stream.pipeline import Pipeline
from bucketingest.stream.report.board import ProgressBoard
from bucketingest.stream.scaling import CATCH_UP, ExecutorScaling, Limits, Scale, Seen
from bucketingest.write.instants.source_range import SourceRange

SPEED = 20_000.0
"""Offsets a second of one executor."""
FIXED = 0.4
"""Seconds of each micro-batch, however small."""
STARTS = 25.0
"""Seconds until an executor works."""
MOST_OFFSETS = 2_000_000
DEFINITION = TableDefinition("orders", ("id",), (), None)
LIMITS = Limits(least=1, most=10, patience=10.0)


@dataclass
class World:
    """A source, and executors that work as they do on a cluster. Times in seconds."""

    load: Callable[[float], float]
    rng: random.Random
    trigger: float = 2.0
    now: float = 0.0
    scale: Scale = field(default_factory=lambda: Scale(LIMITS.least))
    ready: list[float] = field(default_factory=lambda: [0.0])
    waiting: float = 0.0
    changes: list[tuple[float, int]] = field(default_factory=list)
    backlog: list[tuple[float, float]] = field(default_factory=list)

    def run(self, until: float, *, read: bool = True) -> None:
        while self.now < until:
            began = self.now
            if read and self.waiting >= 1:
                self._micro_batch()
            self._pass(max(0.0, began + self.trigger - self.now))

    def _pass(self, seconds: float) -> None:
        self.waiting += self.load(self.now) * seconds * self.rng.uniform(0.9, 1.1)
        self.now += seconds

    def _micro_batch(self) -> None:
        executors = sum(at <= self.now for at in self.ready)
        planned = self.waiting
        offsets = int(min(planned, MOST_OFFSETS))
        self.waiting -= offsets
        busy = FIXED + offsets / (SPEED * executors * self.rng.uniform(0.9, 1.1))
        self._pass(busy)
        self.backlog.append((self.now, self.waiting))
        before = self.scale.wanted
        # of what came since, Spark knows nothing yet
        look = Seen(self.now, busy, offsets, int(planned - offsets), executors)
        self.scale = self.scale.after(look, LIMITS)
        if self.scale.wanted != before:
            self.changes.append((self.now, self.scale.wanted))
            self.ready = self.ready[: self.scale.wanted]
            self.ready += [self.now + STARTS] * (self.scale.wanted - len(self.ready))

    def normal_after(self, since: float) -> float:
        """When, from then on, input no longer waits longer than the patience."""
        return next(at for at, waiting in self.backlog if at > since and waiting <= LIMITS.patience * self.load(at))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("rate", [10, 3_000, 19_000, 21_000, 70_000, 95_000, 150_000])
def test_a_steady_load_changes_nothing_more_than_once_in_five_minutes(rate: float, seed: int) -> None:
    world = World(lambda _: rate, random.Random(seed))
    world.run(2 * 3600)
    times = [at for at, _ in world.changes if at > 600]
    assert all(later - earlier >= 300 for earlier, later in pairwise(times))
    assert len(times) <= 2, world.changes
    assert world.scale.wanted <= max(1, math.ceil(rate * 1.5 / SPEED)) + 1
    assert world.waiting < rate * 2 * LIMITS.patience + 1


@pytest.mark.parametrize("seed", range(2))
def test_a_burst_is_met_and_its_executors_are_given_back(seed: int) -> None:
    world = World(lambda at: 75_000 if 3600 <= at < 7200 else 15_000, random.Random(seed))
    world.run(3600)
    assert world.scale.wanted <= 2
    world.run(7200)
    assert world.normal_after(3700) < 3600 + 400
    assert world.scale.wanted >= 4
    world.run(7200 + 1800)
    assert world.scale.wanted <= 2, world.changes


def day(at: float) -> float:
    """Offsets a second: 5,000 at midnight, 95,000 at noon."""
    return 50_000 - 45_000 * math.cos(at / 86_400 * 2 * math.pi)


def ideal_seconds(world: World) -> float:
    """Until no input waits too long, if as many executors as are allowed had worked from now on."""
    at, waiting = world.now, world.waiting
    while waiting > LIMITS.patience * world.load(at):
        waiting += world.load(at) - SPEED * LIMITS.most
        at += 1
    return at - world.now


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("load", "began", "outage"),
    [
        (60_000.0, 1800.0, 300.0),
        (60_000.0, 1800.0, 3600.0),
        (15_000.0, 1800.0, 3600.0),
        (120_000.0, 1800.0, 900.0),
        (day, 6 * 3600.0, 1200.0),
        (day, 11 * 3600.0, 3600.0),
        (day, 20 * 3600.0, 2 * 3600.0),
    ],
)
def test_after_an_outage_the_backlog_is_gone_within_twice_the_ideal_time(
    load: Callable[[float], float] | float, began: float, outage: float, seed: int
) -> None:
    world = World(load if callable(load) else lambda _: load, random.Random(seed))
    world.run(began)
    world.run(began + outage, read=False)
    back, ideal = world.now, ideal_seconds(world)
    world.run(back + 4 * ideal)
    assert world.normal_after(back) - back <= 2 * ideal
    world.run(back + 4 * ideal + 1800)
    busiest = max(world.load(at) for at in (world.now - 1800, world.now))
    assert world.scale.wanted <= math.ceil(busiest * 1.25 / SPEED) + 1, "given back"


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("outage", [30.0, 60.0, 300.0])
def test_a_short_outage_costs_two_micro_batches_and_the_minute_that_the_rule_aims_at(outage: float, seed: int) -> None:
    world = World(lambda _: 15_000, random.Random(seed))
    world.run(1800)
    world.run(1800 + outage, read=False)
    back = world.now
    # The first shows the speed of the one executor; while those that it asks for start, one more runs.
    before_they_help = 2 * min(world.waiting, MOST_OFFSETS) / SPEED
    world.run(back + 1800)
    assert world.normal_after(back) - back <= before_they_help + STARTS + CATCH_UP


def test_a_day_is_followed() -> None:
    world = World(day, random.Random(1), trigger=10.0)
    sizes: dict[int, int] = {}
    for hour in range(37):
        world.run(3600.0 * (hour + 1))
        sizes[hour] = world.scale.wanted
    assert sizes[24] <= 3
    assert sizes[36] >= 5
    assert max(waiting for _, waiting in world.backlog) < 95_000 * 60
    assert len(world.changes) < 60
    assert all(LIMITS.least <= size <= LIMITS.most for _, size in world.changes)


def test_executors_that_do_not_come_are_not_asked_for_again_and_again() -> None:
    scale, asked = Scale(1), set()
    for at in range(0, 3600, 10):
        scale = scale.after(Seen(float(at), 10.0, 200_000, 50_000_000, 1), LIMITS)
        asked.add(scale.wanted)
    assert scale.wanted == LIMITS.most
    assert asked == {1, LIMITS.most}


def test_a_backlog_that_no_longer_grows_is_worked_off_by_more() -> None:
    scale, behind = Scale(1), 20_000_000
    for at in range(0, 60, 10):
        behind -= 200_000
        scale = scale.after(Seen(float(at), 10.0, 200_000, behind, 1), LIMITS)
    assert scale.wanted == LIMITS.most


def test_executors_of_a_slow_hour_are_given_back() -> None:
    """While input waited, a busy machine or a slow store made each of them slow; later micro-batches show more."""
    scale = Scale(1)
    for at in range(0, 300, 15):
        scale = scale.after(Seen(float(at), 30.0, 3_600, 10_000, scale.wanted), LIMITS)
    slow, many = scale.speed, scale.wanted
    for at in range(300, 1500, 5):
        scale = scale.after(Seen(float(at), 1.5, 600, 0, scale.wanted), LIMITS)
    assert many > 1
    assert scale.wanted < many, (slow, scale.speed)


def test_the_first_micro_batch_says_nothing_of_speed() -> None:
    scale = Scale(1).after(Seen(0.0, 0.0, 0, 0, 1), LIMITS).after(Seen(60.0, 60.0, 100, 10_000, 1), LIMITS)
    assert (scale.wanted, scale.speed) == (1, None)


@dataclass
class Asked:
    """Executors that come at once."""

    counts: list[int] = field(default_factory=lambda: [1])

    def registered(self) -> int:
        return self.counts[-1]

    def ask_for(self, count: int) -> None:
        self.counts.append(count)


@dataclass
class Topic:
    """One partition that had 100,000 offsets more than it has now, and time."""

    end: int = 100_000
    read: int = 0
    now: float = 0.0

    def ends(self) -> dict[tuple[str, int], tuple[int, int]]:
        return {("orders", 0): (0, self.end)}

    def micro_batch(self, scaling: ExecutorScaling, offsets: int, seconds: float) -> None:
        began, start = self.now, self.read
        self.now += seconds
        self.read += offsets
        ranges = [json.dumps({"orders": {"0": each}}) for each in (start, self.read)]
        scaling.batch_ended(began, SourceRange("kafka", ranges[0], ranges[1], "query", 1))


def test_it_asks_between_micro_batches_and_gives_back_while_the_source_is_idle() -> None:
    executors, topic = Asked(), Topic()
    scaling = ExecutorScaling(LIMITS, executors, topic.ends, lambda: topic.now)
    while topic.read < topic.end:
        topic.micro_batch(scaling, 5_000, 10.0 / executors.registered())
    assert executors.counts == [1, 3]
    assert scaling.wanted == 3
    asked = list(executors.counts)
    for _ in range(3 * 400):
        topic.now += 0.5
        scaling.idle()
    assert executors.counts == [*asked, 1]


def test_of_which_pipelines_the_number_of_executors_changes() -> None:
    fixed = Pipeline("orders", "/lake/orders", DEFINITION, "/lake/checkpoint")
    ranged = replace(fixed, executors=(1, 4))
    board = ProgressBoard()
    assert ExecutorScaling.of(fixed, Asked(), board) is None
    assert ExecutorScaling.of(ranged, None, board) is None, "a local session has none"
    assert ExecutorScaling.of(replace(ranged, trigger="once"), Asked(), board) is None
    chosen = ExecutorScaling.of(replace(ranged, commit_interval=timedelta(seconds=30)), Asked(), board)
    assert chosen is not None
    assert chosen.limits == Limits(1, 4, 32.0)
