"""The rows of each step, drawn by seed and step alone from what the table has: updates, new keys, rows that are late,
deletes, and a key twice in a micro-batch.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from typing import Final

import pyarrow as pa

from support.oracle.expected import ExpectedTable, Key, MergeRules

RULES: Final = MergeRules(key=["id"], partition_by=["region"], ordering="at", deleted="gone")
SCHEMA: Final = pa.schema(
    [("id", pa.string()), ("region", pa.string()), ("at", pa.int64()), ("value", pa.string()), ("gone", pa.bool_())]
)
_REGIONS: Final = ("eu", "eu", "eu", "us", "us", "asia")
_SPACING: Final = 10
"""Ordering values of a step are so far from those of the next: rows that are late come between them."""


def ours(chance: random.Random, step: int, expected: ExpectedTable, unsure: Collection[Key]) -> pa.Table:
    """What a micro-batch of ours has. Of deleted keys in `unsure` no row is late: the table may have forgotten when."""
    keys = [_key(number) for number in _numbers(chance, step, 12)]
    rows = [_row(chance, step, key, _late(chance, key, expected, unsure)) for key in keys]
    rows += [_row(chance, step, key, at=step * _SPACING + chance.choice((-1, 0, 1))) for key in chance.sample(keys, 2)]
    for row in rows:
        row["gone"] = chance.random() < 0.25
    return pa.Table.from_pylist(rows, SCHEMA)


def hudis(chance: random.Random, step: int, expected: ExpectedTable, unsure: Collection[Key]) -> pa.Table:
    """What an upsert of Hudi's has: each key once, no deletes."""
    keys = [_key(number) for number in _numbers(chance, step, 12)]
    return pa.Table.from_pylist([_row(chance, step, key, _late(chance, key, expected, unsure)) for key in keys], SCHEMA)


def deleted(chance: random.Random, step: int, expected: ExpectedTable) -> pa.Table:
    """What a delete of Hudi's has: keys that the table has."""
    live = sorted(expected.live())
    rows = [_row(chance, step, key) | {"gone": True} for key in chance.sample(live, min(4, len(live)))]
    return pa.Table.from_pylist(rows, SCHEMA)


def _numbers(chance: random.Random, step: int, count: int) -> list[int]:
    """Of keys: there are more from step to step."""
    return chance.sample(range(40 + 2 * step), count)


def _key(number: int) -> Key:
    """Its partition depends on it: some are large, and there is a new one from time to time."""
    region = f"new-{number // 300}" if number % 11 == 10 else _REGIONS[number % len(_REGIONS)]
    return region, f"k{number}-ä" if number % 5 == 0 else f"k{number}"


def _late(chance: random.Random, key: Key, expected: ExpectedTable, unsure: Collection[Key]) -> int:
    known = key in expected.live() or (key in expected.deleted() and key not in unsure)
    return chance.choice((5, 15, 55, 205)) if known and chance.random() < 0.2 else 0


def _row(chance: random.Random, step: int, key: Key, late: int = 0, *, at: int | None = None) -> dict[str, object]:
    region, name = key
    at = step * _SPACING - late if at is None else at
    return {"id": name, "region": region, "at": at, "value": f"{step} {chance.random():.4f}", "gone": False}
