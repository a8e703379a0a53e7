"""Random changes of a table some of whose values are not sent, and what the table must then be."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from bucketingest.hudi.merge.unavailable import PLACEHOLDER

SCHEMA: Final = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("text", pa.string()), ("data", pa.string())])
ROWS: Final = SCHEMA.append(pa.field("gone", pa.bool_()))
_KEYS: Final = 12


@dataclass
class Changes:
    """Makes micro-batches as a database sends them: what was not sent was there before."""

    seed: int
    table: dict[int, dict[str, Any]] = field(default_factory=dict)
    """The rows that the table must have."""

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._number = 0

    def batch(self, most: int = 12) -> pa.Table:
        """The next micro-batch, with the column `gone` for deletes."""
        return pa.Table.from_pylist([self._change() for _ in range(self._random.randint(1, most))], ROWS)

    def _change(self) -> dict[str, Any]:
        self._number += 1
        key = self._random.randrange(_KEYS)
        old = self.table.get(key)
        if old is not None and self._random.random() < 0.15:
            del self.table[key]
            return {"id": key, "gone": True}
        text, data = self._value("t"), self._value("d")
        row: dict[str, Any] = {"id": key, "n": self._number, "text": text, "data": data}
        self.table[key] = sent = dict(row)
        if old is not None:
            for name in ("text", "data"):
                if self._random.random() < 0.5:
                    self.table[key][name], row = old[name], {**row, name: PLACEHOLDER}
        assert PLACEHOLDER not in sent.values()
        return {**row, "gone": False}

    def _value(self, letter: str) -> str | None:
        return None if self._random.random() < 0.1 else f"{letter}{self._number}" * self._random.choice([1, 50])

    def rows(self) -> list[dict[str, Any]]:
        """The table, sorted by key."""
        return [self.table[key] for key in sorted(self.table)]


def rows_of(found: pa.Table) -> list[dict[str, Any]]:
    """What a reader shows, sorted by key."""
    return sorted(found.select(SCHEMA.names).to_pylist(), key=lambda row: row["id"])
