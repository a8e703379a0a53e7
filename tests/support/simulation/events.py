"""Rare events around which a schedule is built, at most one each: what it needs to happen at all is arranged.

Most of them need time: hours must pass while one process, or one request, stands still.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Final, Literal, get_args

from bucketingest.services.archive.choose import ArchiveRules
from bucketingest.services.clean.choose import Retention
from support.simulation.features import Features, draw_features, with_services
from support.simulation.job.local_faults import LOCAL_FAULTS, LocalFault
from support.simulation.job.services import ServiceRules
from support.simulation.outlasting import Late
from support.simulation.spec import Edit

Event = Literal[
    "pause",
    "partitions",
    "readers",
    "local fault",
    "late rollback",
    "late plan",
    "properties",
    "clock ahead",
    "rename",
    "slow clock",
    "rewrite",
    "partition clean",
]
EVENTS: Final[tuple[Event, ...]] = get_args(Event)
_ALL: Final = 1000
"""So many schedules have, between them, all that features can bring."""
_EACH: Final = 6
"""One of so many schedules has one of these."""
_DEEP: Final = 500
"""Instants further back than any look at the table would go by default."""
_IS_DEEP: Final = 0.03
_FORGOTTEN_AFTER: Final = 12
_AHEAD: Final = (timedelta(minutes=40), timedelta(days=3))
_PAUSES: Final = (timedelta(minutes=20), timedelta(hours=2), timedelta(hours=30))


@dataclass(frozen=True, slots=True)
class Arranged:
    """What an event makes of a schedule."""

    rows: int = 0
    """How many the source has; 0: as many as without an event."""
    partitions: bool = False
    """New partitions of the topic appear."""
    reads: bool = False
    """Incremental readers and such that travel back in time come."""
    local: LocalFault | None = None
    """What fails where services run."""
    ahead: timedelta | None = None
    """By how much the clock of one process is wrong."""
    late: Late | None = None
    """What comes between one change of the pipeline and its effect."""
    visits: int = 0
    """How often writers come who are late."""
    late_rollbacks: Late | None = None
    late_plans: Late | None = None
    late_cleans: Late | None = None
    days: int = 0
    """How many days the pipeline lives on with few rows."""
    deletes: bool = True
    """Whether rows delete keys."""
    leaps: tuple[timedelta, ...] = ()
    """How long the pipeline may be idle after a micro-batch."""
    many_instants: bool = False
    """Whether each row is an instant."""


def event_of(seed: int, *, wanted: Event | None = None) -> Event | None:
    """The event of a schedule; `wanted`: this one."""
    if wanted is not None or seed % _EACH:
        return wanted
    return EVENTS[seed // _EACH % len(EVENTS)]


def arrange(features: Features, event: Event | None, seed: int) -> tuple[Features, Arranged]:
    """The schedule's features as the event needs them, and what else it is made of."""
    if event is None:
        return features, Arranged()
    rng = random.Random(f"event {seed}")
    # Other writers come only where they are part of the event, and so do wrong clocks.
    calm = replace(features, topic_made_anew=False, clocks_are_set=False, outlived=0.0, services=(), visits=0,
                   schedules_without_lock=False)  # fmt: skip
    return _EVENTS[event](features, calm, rng)


def features_of(seed: int) -> Features:
    """The features of a schedule's seed."""
    return arrange(with_services(draw_features(random.Random(seed)), seed), event_of(seed), seed)[0]


def varied_seeds(times: int) -> list[int]:
    """The first seeds without an event such that all that features can bring is in `times` of their schedules."""
    found, had = [], Counter[str]()
    for seed in range(_ALL):
        has = () if event_of(seed) else _has(features_of(seed))
        if any(had[each] < times for each in has):
            found.append(seed)
            had.update(has)
    return found


def _has(features: Features) -> frozenset[str]:
    given = (field.name for field in fields(features) if getattr(features, field.name))
    aim = ("aim",) if features.serves is not None and features.serves.aim else ()
    return frozenset((*given, *aim, *features.services, *(f"edit {each}" for each in features.edits)))


def _partitions(drawn: Features, _: Features, rng: random.Random) -> tuple[Features, Arranged]:
    services = tuple(each for each in drawn.services if each != "archive")
    features = replace(drawn, topic_made_anew=False, services=services, visits=drawn.visits * bool(services))
    late = Late(rng.randint(2, 3))
    return features, Arranged(rng.randint(24, 48), partitions=True, visits=8, late_rollbacks=late)


def _late_rollback(_: Features, calm: Features, rng: random.Random) -> tuple[Features, Arranged]:
    late, rows = _deep(rng)
    arranged = Arranged(rows, visits=6, late_rollbacks=late, leaps=_PAUSES[:1], many_instants=rows > _DEEP)
    return _without(calm, "name", "sql", "deletes"), arranged


def _late_plan(_: Features, calm: Features, rng: random.Random) -> tuple[Features, Arranged]:
    late, rows = _deep(rng)
    features = replace(
        _without(calm, "name", "sql", "deletes"),
        services=("schedule", "schedule", "compact"),
        visits=8,
        schedules_without_lock=True,
    )
    return features, Arranged(rows, visits=1, late_plans=late, leaps=_PAUSES[:1], many_instants=rows > _DEEP)


def _readers(_: Features, calm: Features, rng: random.Random) -> tuple[Features, Arranged]:
    archive = ArchiveRules(keep_min=100, min_age=timedelta(0), instants_max=100)
    rules = ServiceRules(Retention(timedelta(days=9)), archive, aim=rng.choice((0.0, 0.05)))
    features = _without(calm, "name", "sql", "deletes", "dead letters")
    features = replace(features, sql_uses_time=False, serves=rules, service_faults=2)
    return features, Arranged(rng.randint(24, 60), reads=True)


def _local_fault(_: Features, calm: Features, rng: random.Random) -> tuple[Features, Arranged]:
    features = replace(calm, serves=_short(rng), service_faults=0)
    return features, Arranged(rng.randint(24, 48), local=rng.choice(LOCAL_FAULTS))


def _properties(_: Features, calm: Features, rng: random.Random) -> tuple[Features, Arranged]:
    features = replace(calm, services=("configure", "configure", "commit"), visits=12)
    return features, Arranged(rng.randint(12, 40))


def _clock_ahead(_: Features, calm: Features, rng: random.Random) -> tuple[Features, Arranged]:
    return calm, Arranged(rng.randint(12, 40), ahead=rng.choice(_AHEAD))


def _rename(_: Features, calm: Features, rng: random.Random) -> tuple[Features, Arranged]:
    # What the former name deleted would be forgotten by a compaction, and its rows come again: nothing is deleted.
    features = replace(calm, edits=("name",), kills=rng.randint(1, 3), sql_uses_time=False, serves=_short(rng))
    return replace(features, service_faults=0), Arranged(rng.randint(16, 40), days=5, deletes=False)


def _slow_clock(_: Features, calm: Features, rng: random.Random) -> tuple[Features, Arranged]:
    # Another writer without a lock chooses a completion time, and completes later: a round adds its log file.
    archive = ArchiveRules(keep_min=1, min_age=timedelta(0), instants_max=100)
    rules = ServiceRules(Retention(timedelta(hours=36)), archive)
    features = replace(_without(calm, "name"), services=("commit",), visits=12, schedules_without_lock=True)
    return replace(features, serves=rules, service_faults=0), Arranged(rng.randint(16, 40), days=7)


def _rewrite(_: Features, calm: Features, rng: random.Random) -> tuple[Features, Arranged]:
    features = replace(_without(calm, "name"), services=("rewrite",), visits=12, serves=_short(rng), service_faults=0)
    return features, Arranged(rng.randint(16, 40), days=5, leaps=_PAUSES[:2])


def _partition_clean(_: Features, calm: Features, rng: random.Random) -> tuple[Features, Arranged]:
    features = replace(_without(calm, "name"), services=("clean partition",), visits=30)
    return features, Arranged(rng.randint(16, 40), late_cleans=Late(rng.randint(1, 4)))


def _pause(_: Features, calm: Features, rng: random.Random) -> tuple[Features, Arranged]:
    features = replace(_without(calm, "name"), serves=_short(rng), service_faults=0)
    return features, Arranged(70, late=Late(_FORGOTTEN_AFTER, rng.choice(_PAUSES)), leaps=_PAUSES[:2])


_EVENTS: Final[Mapping[Event, Callable[[Features, Features, random.Random], tuple[Features, Arranged]]]] = {
    "pause": _pause,
    "partitions": _partitions,
    "readers": _readers,
    "local fault": _local_fault,
    "late rollback": _late_rollback,
    "late plan": _late_plan,
    "properties": _properties,
    "clock ahead": _clock_ahead,
    "rename": _rename,
    "slow clock": _slow_clock,
    "rewrite": _rewrite,
    "partition clean": _partition_clean,
}


def _without(features: Features, *edits: Edit) -> Features:
    return replace(features, edits=tuple(edit for edit in features.edits if edit not in edits))


def _deep(rng: random.Random) -> tuple[Late, int]:
    """How late another writer is, and how many rows the source has then."""
    if rng.random() < _IS_DEEP:
        return Late(_DEEP), _DEEP + 60
    return Late(_FORGOTTEN_AFTER, _PAUSES[0]), 70


def _short(rng: random.Random) -> ServiceRules:
    """Services that keep as little as they may."""
    retain = timedelta(0) if rng.random() < 0.7 else timedelta(minutes=30)
    return ServiceRules(Retention(retain), ArchiveRules(keep_min=1, min_age=timedelta(0), instants_max=100))
