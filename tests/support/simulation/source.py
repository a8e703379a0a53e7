"""The input of a schedule: its rows, and the table that they are written to."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from bucketingest.hudi.table.table import StateRules, TableDefinition
from bucketingest.write.plan import DELETE_COLUMN
from support.simulation.spec import TRUNCATE, Row

SCHEMA: Final = pa.schema([("id", pa.string()), ("region", pa.string()), ("offset", pa.int64()), ("at", pa.int64())])
"""Key, partition, the row's own offset in the source, and the ordering column."""
INPUT_SCHEMA: Final = SCHEMA.append(pa.field(DELETE_COLUMN, pa.bool_()))
BUCKETS: Final = 3
"""Odd: the parity of a key's bytes says its region, and is that of its hash. With two, a partition would have one."""
FOREIGN_TOKEN: Final = "1-1-1"
"""At the end of the names of other writers' log files."""
DEFINITION: Final = TableDefinition("orders", ("id",), ("region",), "at", buckets=BUCKETS)
STATE_DEFINITIONS: Final = tuple(
    replace(DEFINITION, state=StateRules(target_bytes=4096, inserts=inserts)) for inserts in ("base", "log")
)
"""The same table with an index with a state, new keys in base files and in log files: a few rows already need several
file groups.
"""
GLOBAL_DEFINITION: Final = replace(DEFINITION, state=StateRules(target_bytes=4096, is_global=True))
"""The same where a key is in one partition only."""

_AGAIN_MAX: Final = 6
"""So many events come again after a crash of what follows the database."""


def mirrored(definition: TableDefinition) -> TableDefinition:
    """The same table where of two rows of a key the one that comes later counts."""
    return replace(definition, ordering_field=None)


def draw_events(rng: random.Random, count: int) -> list[Row]:
    """Change events of a database: keys come, change, go and become other keys; tombstones, truncates, and events that
    come again.
    """
    rows: list[Row] = []

    def add(key: str | None, *, deleted: bool = False, **more: bool) -> None:
        rows.append({"id": key, "offset": len(rows), "at": 0, DELETE_COLUMN: deleted, **more})

    while len(rows) < count:
        chance, key = rng.random(), f"h{rng.randrange(6)}"
        if chance < 0.35:
            add(f"u{len(rows)}")
        elif chance < 0.65:
            add(key)
        elif chance < 0.75:
            add(key, deleted=True)
            add(key, deleted=True)  # the tombstone
        elif chance < 0.87:
            add(key, deleted=True)
            add(f"h{rng.randrange(6)}")
        elif chance < 0.93:
            add(None, **{TRUNCATE: True})
        else:
            for row in rows[-rng.randint(1, _AGAIN_MAX) :]:
                add(row["id"], deleted=row[DELETE_COLUMN], **({TRUNCATE: True} if TRUNCATE in row else {}))
    return rows[:count]


def draw_rows(rng: random.Random, count: int, *, growing: bool = False, deletes: bool = True) -> list[Row]:
    """Rows at offsets 0, 1, ...: most keys once, some again and again, some deleted, some late, a few without a key.

    `growing`: a key that is ever deleted has no late row, because a compaction forgets the deletion that hides it.
    """
    rows = []
    for offset in range(count):
        chance = rng.random()
        key: str | None = f"u{offset}" if chance < 0.5 else f"h{rng.randrange(4)}"
        if chance > 0.93:
            key = None
        deleted = chance > 0.5 and rng.random() < 0.25 and deletes
        at = 1 + offset if growing else 1 + rng.randrange(50)
        rows.append({"id": key, "offset": offset, "at": at, DELETE_COLUMN: deleted})
    return rows


def as_table(rows: Sequence[Row]) -> pa.Table:
    """The rows as the decoding stage hands them over."""
    columns = [[row[name] for row in rows] for name in INPUT_SCHEMA.names]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, INPUT_SCHEMA.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=INPUT_SCHEMA)
