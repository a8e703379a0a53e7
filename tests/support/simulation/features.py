"""Which events a schedule has beyond crashes, zombies and faulty storage."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Final

from support.simulation.spec import EDITS, Edit
from support.simulation.writers.table_services import Service

_THEMES: Final = ("none", "none", "compaction", "compaction", "services", "archive", "edits", "edits", "time", "both")
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
    serves: bool = False
    """Whether the pipeline compacts the table itself."""

    @property
    def compacts(self) -> bool:
        """Whether base files come to be, and deletions are forgotten."""
        return "compact" in self.services or self.serves

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


def features_of(seed: int) -> Features:
    """The features of a schedule's seed."""
    return with_services(draw_features(random.Random(seed)), seed)


def with_services(features: Features, seed: int) -> Features:
    """The features, perhaps with table services of the pipeline's own. They have random numbers of their own."""
    # What a former name of the pipeline deleted is forgotten by a compaction, and its rows come again elsewhere.
    rng = random.Random(f"services {seed}")
    if "name" in features.edits or rng.random() >= 0.4:
        return features
    if "compact" in features.services or rng.random() < 0.4:
        return replace(features, serves=True)
    # Somebody who takes its compactions for dead, and carries them out.
    return replace(features, serves=True, services=(*features.services, "compact"), visits=max(features.visits, 8))


def _draw_edits(rng: random.Random) -> tuple[Edit, ...]:
    edits = [rng.choice(EDITS) for _ in range(rng.choice((1, 1, 2, 4)))]
    renames = [edit for edit in edits if edit in _RARE_EDITS]
    return tuple(edit for edit in edits if edit not in _RARE_EDITS) + tuple(renames[:1])
