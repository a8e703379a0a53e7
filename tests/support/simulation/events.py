"""Rare events around which a schedule is built, at most one each: what it needs to happen at all is arranged.

Most of them need time: hours must pass while one process, or one request, stands still.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, Literal, get_args

from bucketingest.services.archive.choose import ArchiveRules
from bucketingest.services.clean.choose import Retention
from support.simulation.features import Features
from support.simulation.job.local_faults import LOCAL_FAULTS, LocalFault
from support.simulation.job.services import ServiceRules
from support.simulation.outlasting import Late
from support.simulation.writers.table_services import Service

Event = Literal["pause", "partitions", "readers", "local fault", "late rollback", "late plan"]
EVENTS: Final[tuple[Event, ...]] = get_args(Event)
STANDING: Final[tuple[Event, ...]] = ()
"""Those that happen without being asked for."""
_EACH: Final = 4
"""One of so many schedules has one of these."""
_DEEP: Final = 205
"""Instants further back than any look at the table would go by default."""
_IS_DEEP: Final = 0.1
_FORGOTTEN_AFTER: Final = 12
_PAUSES: Final = (timedelta(minutes=20), timedelta(hours=2), timedelta(hours=30))


@dataclass(frozen=True, slots=True)
class Arranged:
    """What an event makes of a schedule."""

    event: Event
    rows: int = 70
    """How many the source has."""
    partitions: bool = False
    """New partitions of the topic appear."""
    reads: bool = False
    """Incremental readers and such that travel back in time come."""
    local: LocalFault | None = None
    """What fails where services run."""
    visits: int = 0
    """How often writers come who are late."""
    late_rollbacks: Late | None = None
    late_plans: Late | None = None
    leaps: tuple[timedelta, ...] = ()
    """How long the pipeline may be idle after a micro-batch."""
    pauses: tuple[timedelta, ...] = ()
    """How long one change of the pipeline may stand still before its effect."""


def event_of(seed: int, *, wanted: Event | None = None) -> Event | None:
    """The event of a schedule; `wanted`: this one."""
    if wanted is not None or not STANDING or seed % _EACH:
        return wanted
    return STANDING[seed // _EACH % len(STANDING)]


def arrange(features: Features, event: Event, seed: int) -> tuple[Features, Arranged]:
    """The schedule's features as the event needs them, and what else it is made of."""
    rng = random.Random(f"event {seed}")
    calm = replace(features, topic_made_anew=False, clocks_are_set=False, outlived=0.0, services=(), visits=0,
                   schedules_without_lock=False)  # fmt: skip
    match event:
        case "partitions":
            others = tuple(each for each in features.services if each != "archive")
            kept = replace(features, topic_made_anew=False, services=others, visits=features.visits * bool(others))
            return kept, Arranged(event, rows=rng.randint(24, 48), partitions=True, visits=8,
                                  late_rollbacks=Late(rng.randint(2, 3)))  # fmt: skip
        case "late rollback" | "late plan":
            late, rows = (
                (Late(_DEEP), _DEEP + 60) if rng.random() < _IS_DEEP else (Late(_FORGOTTEN_AFTER, _PAUSES[0]), 70)
            )
            edits = tuple(edit for edit in features.edits if edit not in ("name", "sql", "deletes"))
            if event == "late rollback":
                return replace(calm, edits=edits), Arranged(
                    event, rows, visits=6, late_rollbacks=late, leaps=_PAUSES[:1]
                )
            services: tuple[Service, ...] = ("schedule", "schedule", "compact")
            kept = replace(calm, edits=edits, services=services, visits=8, schedules_without_lock=True)
            return kept, Arranged(event, rows, visits=1, late_plans=late, leaps=_PAUSES[:1])
        case "readers":
            rules = ServiceRules(
                Retention(timedelta(days=9)), ArchiveRules(100, timedelta(0), 100), aim=rng.choice((0.0, 0.05))
            )
            edits = tuple(edit for edit in features.edits if edit in ("log block", "memory"))
            kept = replace(calm, edits=edits, sql_uses_time=False, serves=rules, service_faults=2)
            return kept, Arranged(event, rows=rng.randint(24, 60), reads=True)
        case "local fault":
            kept = replace(calm, serves=_short(rng), service_faults=0)
            return kept, Arranged(event, rows=rng.randint(24, 48), local=rng.choice(LOCAL_FAULTS))
        case "pause":
            edits = tuple(edit for edit in features.edits if edit != "name")
            kept = replace(calm, edits=edits, serves=_short(rng), service_faults=0)
            return kept, Arranged(event, leaps=_PAUSES[:2], pauses=(rng.choice(_PAUSES),))


def _short(rng: random.Random) -> ServiceRules:
    """Services that keep as little as they may."""
    retain = timedelta(0) if rng.random() < 0.7 else timedelta(minutes=30)
    return ServiceRules(Retention(retain), ArchiveRules(keep_min=1, min_age=timedelta(0), instants_max=100))
