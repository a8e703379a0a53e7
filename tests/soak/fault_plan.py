"""Which faults a soak does, in which order and how: all of it from one seed, before anything is started. Pure."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What is done to the pipeline."""

    JVM = "driver-jvm"
    """SIGKILL to the driver's JVM."""
    PYTHON = "driver-python"
    """SIGKILL to the driver's Python."""
    POD = "pod"
    """SIGKILL to everything at once, as a node that dies."""
    RECOVERY = "recovery"
    """As pod, and once more while the next attempt starts."""
    WORKERS = "python-workers"
    """SIGKILL to one or all Python workers of the executors."""
    EXECUTOR = "executor"
    """SIGKILL to one executor."""
    LATE = "late-workers"
    """An executor is killed while its Python workers stand still; they go on when others have done their tasks."""
    ZOMBIE = "zombie"
    """The driver stands still, another attempt takes over, then the first goes on."""
    TERMINATE = "terminate"
    """SIGTERM: a graceful end."""
    CHECKPOINT = "checkpoint"
    """As pod, and Spark's checkpoint is damaged before the next start."""
    SERVICES = "services"
    """SIGKILL to the process that compacts beside the job."""
    HUDI_BETWEEN = "hudi-between"
    """As pod, and Hudi's own writer upserts, rolling back what it finds inflight, before the next start."""
    HUDI_BESIDE = "hudi-beside"
    """Hudi's own writer upserts, rolling back what it finds inflight, while the pipeline runs."""


class Moment(StrEnum):
    """What is waited for before a fault."""

    ANY = "any"
    STARTED = "started"
    """A micro-batch has started."""
    WRITING = "writing"
    """A data file of the open instant is there."""
    WRITTEN = "written"
    """All tasks have reported, the instant is not decided."""
    COMMITTED = "committed"
    """An instant has just completed."""


class Damage(StrEnum):
    """What happens to Spark's checkpoint."""

    ALL_GONE = "deleted"
    OFFSET_GONE = "newest offsets deleted"
    OFFSETS_GONE = "all offsets deleted"
    COMMITS_GONE = "all commits deleted"
    COMMIT_GONE = "newest commit deleted"
    TORN = "newest offsets cut short"
    METADATA_GONE = "metadata deleted"
    METADATA_FOREIGN = "metadata of another query"
    METADATA_EMPTY = "metadata empty"
    STALE = "an older copy"


class Service(StrEnum):
    """What Hudi's writer does besides its own write when it comes; each includes those before it."""

    NONE = "no service"
    COMPACT = "compaction"
    CLEAN = "clean"
    ARCHIVE = "archival"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. Delays are moments in the life of what they hit, not waits for anything."""

    number: int
    kind: Kind
    moment: Moment
    jitter: float
    """Seconds between the moment and the fault."""
    fraction: float
    """0 to 1: which one of several, or when in the next attempt's start."""
    every: bool
    """Workers: all of them. Zombie: executors and workers stand still too."""
    damage: Damage
    interval: bool
    """The next attempt commits by interval, else an instant per micro-batch."""
    service: Service
    """Of Hudi's writer, if it comes."""

    def __str__(self) -> str:
        detail = f", {self.damage.value}" if self.kind is Kind.CHECKPOINT else ""
        detail = f", {self.service.value}" if self.kind in _HUDI else detail
        return f"{self.kind.value} ({self.moment.value} + {self.jitter * 1000:.0f} ms{detail})"


_OFTEN = (Kind.JVM, Kind.PYTHON, Kind.POD, Kind.POD, Kind.RECOVERY, Kind.WORKERS, Kind.WORKERS, Kind.EXECUTOR)
_ONCE_A_DECK = (
    Kind.EXECUTOR,
    Kind.LATE,
    Kind.ZOMBIE,
    Kind.ZOMBIE,
    Kind.TERMINATE,
    Kind.CHECKPOINT,
    Kind.CHECKPOINT,
    Kind.SERVICES,
    Kind.SERVICES,
)
_HUDI = (Kind.HUDI_BETWEEN, Kind.HUDI_BESIDE)
_KILLS_PER_HUDI_WRITE = 5
"""Archival takes what earlier visits have compacted, so it takes several visits to have everything."""
_JITTER_MAX = 0.6
_SERVICES = (Service.NONE, Service.COMPACT, Service.CLEAN, Service.ARCHIVE, Service.ARCHIVE)


def plan(seed: int, kills: int, kinds: Collection[Kind] = tuple(Kind)) -> list[Fault]:
    """The faults of a run; `kinds` limits them. Every kind comes about equally early: they are dealt like cards."""
    chance = random.Random(seed)
    dealt: list[Kind] = []
    while len(dealt) < kills:
        deck = [kind for kind in (*_OFTEN, *_ONCE_A_DECK) if kind in kinds]
        hudi = [kind for kind in _HUDI if kind in kinds]
        if hudi:
            deck += [chance.choice(hudi) for _ in range(max(1, len(deck) // _KILLS_PER_HUDI_WRITE))]
        if not deck:
            raise ValueError("no kind of fault is left to choose from")
        chance.shuffle(deck)
        dealt += deck
    # Each fault has chances of its own, so that a shorter run does the same at first.
    return [
        _fault(random.Random(f"{seed} {number}"), number, kind) for number, kind in enumerate(dealt[:kills], start=1)
    ]


def _fault(chance: random.Random, number: int, kind: Kind) -> Fault:
    return Fault(
        number=number,
        kind=kind,
        moment=chance.choice(list(Moment)),
        jitter=chance.choice((0.0, chance.uniform(0.0, _JITTER_MAX))),
        fraction=chance.random(),
        every=chance.random() < 0.5,
        damage=chance.choice(list(Damage)),
        interval=chance.random() < 0.5,
        service=chance.choice(_SERVICES),
    )
