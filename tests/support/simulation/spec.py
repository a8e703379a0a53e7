"""What a person can change in a pipeline's spec between two attempts, and what each change does to the rows."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from bucketingest.write.plan import DELETE_COLUMN

Row = dict[str, Any]
TRUNCATE: Final = "truncate"
"""Member of a row of the source that is none: all rows before it are deleted."""
Regions = Literal["key", "other", "time"]
Deletes = Literal["flag", "third"]
Edit = Literal["sql", "deletes", "log block", "memory", "dead letters", "name"]

PIPELINE: Final = "shop/orders"
REGIONS: Final = ("eu", "us")
"""The partitions that the pipeline writes."""
AMPLE: Final = 64 * 1024**2
SCARCE: Final = 2048
"""Bytes of memory with which almost every file group is spilled."""
EDITS: Final[tuple[Edit, ...]] = ("sql", "deletes", "log block", "memory", "dead letters", "name")
_TICK_MS: Final = 64
"""How long the SQL that depends on the time sends a key to one region."""


@dataclass(frozen=True, slots=True)
class Transform:
    """What the query makes of a row."""

    regions: Regions = "key"
    """By what a row's region is chosen: its key, its key in another way, its key and the time."""
    deletes: Deletes = "flag"

    def of(self, row: Row, timestamp_ms: int) -> Row:
        """A row of the source as this query puts it into the table. A row without a key becomes a dead letter."""
        key, deleted = row["id"] or "", row[DELETE_COLUMN]
        choice = sum(key.encode()) + {"key": 0, "other": 1, "time": timestamp_ms // _TICK_MS}[self.regions]
        if self.deletes == "third" and key.startswith("h"):
            deleted = row["offset"] % 3 == 0
        return row | {"region": REGIONS[choice % 2], DELETE_COLUMN: deleted}


@dataclass(frozen=True, slots=True)
class JobSpec:
    """The part of a pipeline's spec that a schedule may edit."""

    pipeline: str = PIPELINE
    transform: Transform = Transform()
    log_block: Literal["parquet", "avro"] = "parquet"
    memory_bytes: int = AMPLE
    dead_letters: int = 0
    """Which of the places for dead letters."""

    def edited(self, edit: Edit, rng: random.Random) -> JobSpec:
        """After one change by a person."""
        transform = self.transform
        match edit:
            case "sql":
                every: tuple[Regions, ...] = ("key", "other", "time")
                regions = rng.choice([each for each in every if each != transform.regions])
                return replace(self, transform=replace(transform, regions=regions))
            case "deletes":
                other: Deletes = "third" if transform.deletes == "flag" else "flag"
                return replace(self, transform=replace(transform, deletes=other))
            case "log block":
                return replace(self, log_block="avro" if self.log_block == "parquet" else "parquet")
            case "memory":
                return replace(self, memory_bytes=SCARCE if self.memory_bytes == AMPLE else AMPLE)
            case "dead letters":
                return replace(self, dead_letters=1 - self.dead_letters)
            case "name":
                return replace(self, pipeline=f"{self.pipeline}-renamed")


@dataclass(frozen=True, slots=True)
class Work:
    """What a micro-batch was planned to write: rows, spec, and time of the batch."""

    numbers: tuple[int, ...]
    """Of the source's rows."""
    transform: Transform
    timestamp_ms: int
    fingerprint: str
    """Fingerprint of all that decides rows and bytes, also the table's columns, except the range."""

    def rows(self, source: Sequence[Row]) -> list[Row]:
        """The rows of the source's range as they are put into the table."""
        return [self.transform.of(row, self.timestamp_ms) for row in map(source.__getitem__, self.numbers)]


Assigned = Mapping[tuple[str, int], Sequence[Work]]
"""Instant and number of the micro-batch in it -> what was planned for it, by each attempt."""
