"""The input of a schedule, and the table that it must become: a model that knows nothing of instants."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from bucketingest.hudi.table import TableDefinition
from bucketingest.write.plan import DELETE_COLUMN
from bucketingest.write.source_range import SourceRange, canonical_json

Row = dict[str, Any]

SCHEMA: Final = pa.schema([("id", pa.string()), ("region", pa.string()), ("offset", pa.int64()), ("at", pa.int64())])
"""Key, partition, the row's own offset in the source, and the ordering column."""
INPUT_SCHEMA: Final = SCHEMA.append(pa.field(DELETE_COLUMN, pa.bool_()))
BUCKETS: Final = 2
DEFINITION: Final = TableDefinition("orders", ("id",), ("region",), "at", buckets=BUCKETS)
_REGIONS: Final = ("eu", "us")


@dataclass(frozen=True, slots=True)
class Deleted:
    """What a delete block says of a key."""

    id: str
    at: int


def draw_rows(rng: random.Random, count: int) -> list[Row]:
    """Rows at offsets 0, 1, ...: most keys once, some again and again, some deleted, some late, a few without a key."""
    rows = []
    for offset in range(count):
        chance = rng.random()
        key: str | None = f"u{offset}" if chance < 0.5 else f"h{rng.randrange(4)}"
        if chance > 0.96:
            key = None
        region = _REGIONS[sum((key or "").encode()) % 2]
        deleted = chance > 0.5 and rng.random() < 0.25
        rows.append({"id": key, "region": region, "offset": offset, "at": rng.randrange(50), DELETE_COLUMN: deleted})
    return rows


def expected_rows(rows: Iterable[Row]) -> dict[str, Row]:
    """The table, by key: of the rows of a key the one with the greatest (ordering value, offset), unless it deletes."""
    winners: dict[str, Row] = {}
    for row in rows:
        known = winners.get(row["id"])
        if row["id"] is not None and (known is None or (row["at"], row["offset"]) >= (known["at"], known["offset"])):
            winners[row["id"]] = row
    return {key: {name: row[name] for name in SCHEMA.names} for key, row in winners.items() if not row[DELETE_COLUMN]}


def rejected_offsets(rows: Iterable[Row]) -> list[int]:
    """Offsets of the rows that can only become dead letters."""
    return [row["offset"] for row in rows if row["id"] is None]


def source_range(start: int, end: int, query: str) -> SourceRange:
    """The rows from offset `start` up to and without `end`, as a micro-batch of Kafka."""
    at = [canonical_json({"orders": {"0": offset}}) for offset in (start, end)]
    return SourceRange("kafka", at[0], at[1], query_id=query, batch_id=start)


def offset_of(position: str) -> int:
    """The offset that a position names."""
    return int(json.loads(position)["orders"]["0"])


def as_table(rows: Sequence[Row]) -> pa.Table:
    """The rows as the decoding stage hands them over."""
    columns = [[row[name] for row in rows] for name in INPUT_SCHEMA.names]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, INPUT_SCHEMA.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=INPUT_SCHEMA)
