"""Which events a schedule has beyond crashes, zombies and faulty storage."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from bucketingest.services.archive.choose import ArchiveRules
from bucketingest.services.clean.choose import Retention
from support.simulation.job.services import ServiceRules
from support.simulation.spec import EDITS, Edit
from support.simulation.writers.table_services import Service

_THEMES: Final = ("none", "none", "compaction", "compaction", "services", "archive", "edits", "edits", "time", "both")
_SERVES: Final = 0.6
"""How often the pipeline has table services of its own."""
_BESIDE: Final[tuple[tuple[Service, ...], ...]] = (
    (),
    ("undo", "undo", "compact", "commit"),
    ("schedule", "schedule", "compact", "undo", "commit"),
    ("clean", "archive", "commit", "compact"),
    ("savepoint", "savepoint", "delete savepoint", "commit", "undo"),
    ("savepoint", "savepoint", "restore", "restore", "undo", "clean"),
    ("commit", "commit", "schedule", "undo", "clean", "archive", "savepoint", "restore"),
)
"""What others do beside services of the pipeline's own; some of it more often."""
_OUTLIVED_EACH: Final = 5
"""One of so many schedules with services has changes that come when their instant has been archived."""
_RARE_EDITS: Final[tuple[Edit, ...]] = ("name",)


@dataclass(frozen=True, slots=True)
class Features:
    """Drawn once for a schedule."""

    services: tuple[Service, ...] = ()
    """What other writers do; several of them in one visit."""
    visits: int = 0
    """How often they come."""
    schedules_without_lock: bool = False
    edits: tuple[Edit, ...] = ()
    """What a person changes in the spec, in this order."""
    sql_uses_time: bool = False
    checkpoints_are_lost: bool = False
    kills: int = 0
    """How often a person stops the pipeline at a bad moment and starts it again."""
    clocks_are_set: bool = False
    topic_made_anew: bool = False
    serves: ServiceRules | None = None
    """What the pipeline's own table services keep; None: it has none."""
    service_faults: int = 0
    """How many changes by table services are hit by a fault."""
    outlived: float = 0.0
    """How often a change of the timeline comes only when its instant, or a newer one, has been archived."""

    @property
    def compacts(self) -> bool:
        """Whether base files come to be, and deletions are forgotten."""
        return "compact" in self.services or self.serves is not None

    @property
    def archives(self) -> bool:
        """Whether instants leave the timeline."""
        return "archive" in self.services

    @property
    def needs_lock(self) -> bool:
        """Whether the pipeline must hold the table's lock as well: else a column is lost between its look and its
        commit.
        """
        return "add column" in self.services

    @property
    def is_fixed(self) -> bool:
        """Whether every attempt writes the same rows."""
        return not self.edits and not self.sql_uses_time


def draw_features(rng: random.Random) -> Features:
    """The features of a seed."""
    theme = rng.choice(_THEMES)
    compacts = theme in {"compaction", "services", "both"}
    services: list[Service] = ["schedule", "compact"] if compacts else []
    if compacts and rng.random() < 0.5:
        services.append("clean")
    if theme == "archive" or (theme == "services" and rng.random() < 0.4):
        services.append("archive")
    if theme == "services" and rng.random() < 0.5:
        services += ["fill partition", "delete partition"]
    if theme == "services" and rng.random() < 0.5:
        services.append("add column")
    edits = _draw_edits(rng) if theme in {"edits", "both"} else ()
    if compacts and {"sql", "deletes"} & set(edits):
        # A compaction forgets what the former name deleted, and its rows come again elsewhere.
        edits = tuple(edit for edit in edits if edit != "name")
    return Features(
        services=tuple(services),
        visits=rng.choice((3, 6, 10)) if services else 0,
        # If such a scheduler leaves out rows of a renamed pipeline, only the old name would notice.
        schedules_without_lock=compacts and rng.random() < 0.4 and "name" not in edits,
        edits=edits,
        sql_uses_time=theme == "time" or (theme == "both" and rng.random() < 0.3),
        checkpoints_are_lost=rng.random() < 0.5,
        kills=len(edits) + (rng.choice((1, 3, 5)) if theme in {"archive", "edits", "time"} else 0),
        clocks_are_set=rng.random() < 0.3,
        topic_made_anew=rng.random() < 0.15,
    )


def with_services(features: Features, seed: int) -> Features:
    """The features, perhaps with table services of the pipeline's own. They have random numbers of their own."""
    # What a former name of the pipeline deleted is forgotten by a compaction, and its rows come again elsewhere.
    rng = random.Random(f"services {seed}")
    if "name" in features.edits or rng.random() >= _SERVES:
        return features
    rules = ServiceRules(
        Retention(versions=1) if rng.random() < 0.2 else Retention(timedelta(milliseconds=rng.choice((0, 50, 300)))),
        ArchiveRules(
            keep_min=rng.choice((1, 1, 2, 4)),
            min_age=timedelta(milliseconds=rng.choice((0, 0, 100))),
            instants_max=rng.choice((1, 3, 100)),
        ),
        aim=rng.choice((0.0, 0.03, 0.08, 0.2)),
    )
    features = replace(features, serves=rules, service_faults=rng.choice((2, 6, 12)))
    if seed % _OUTLIVED_EACH == 0:
        rules = ServiceRules(Retention(timedelta()), ArchiveRules(keep_min=1, min_age=timedelta(), instants_max=100))
        features = replace(features, serves=rules, service_faults=rng.choice((2, 6)), outlived=0.1)
    # Others take its compactions for dead, and do beside it what it does itself.
    if not (beside := rng.choice(_BESIDE)):
        return features
    without_lock = features.schedules_without_lock or (not features.needs_lock and rng.random() < 0.5)
    return replace(
        features,
        services=(*features.services, *beside),
        visits=max(features.visits, rng.choice((6, 12, 24))),
        schedules_without_lock=without_lock,
    )


def of_mirror(features: Features, seed: int) -> Features:
    """The features, perhaps with table services of the pipeline's own, where nobody else writes, and keys stay."""
    edits = tuple(edit for edit in features.edits if edit not in {"sql", "deletes", "name"})
    calm = replace(features, edits=edits, sql_uses_time=False, topic_made_anew=False)
    return replace(with_services(calm, seed), services=(), visits=0, schedules_without_lock=False)


def _draw_edits(rng: random.Random) -> tuple[Edit, ...]:
    edits = [rng.choice(EDITS) for _ in range(rng.choice((1, 1, 2, 4)))]
    renames = [edit for edit in edits if edit in _RARE_EDITS]
    return tuple(edit for edit in edits if edit not in _RARE_EDITS) + tuple(renames[:1])
