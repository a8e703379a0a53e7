"""What each read of a chain's table must show, and Hudi's Spark readers asked for many tables at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from support.evolution.expected import same
from support.oracle.client import HudiOracle, Query

Rows = Mapping[str, dict[str, Any]]


@dataclass(frozen=True)
class Reads:
    """Rows by their keys: of a snapshot, of base files (None: not known) and changed since a commit ("": none)."""

    path: Path
    rows: Rows
    merged: Rows | None
    since: str
    changed: Rows

    def queries(self) -> list[tuple[Query, Rows]]:
        """What to ask, and what the answer must be."""
        path = self.path
        found: list[tuple[Query, Rows]] = [(Query(path, "snapshot"), self.rows)]
        if self.merged is not None:
            found.append((Query(path, "read_optimized"), self.merged))
        if self.since:
            found.append((Query(path, "incremental", self.since), self.changed))
        return found


def same_rows(table: pa.Table, rows: Rows) -> None:
    """Fails unless the table has these rows, each once. Columns that a row lacks are null."""
    found = {row["id"]: row for row in table.to_pylist()}
    assert found.keys() == rows.keys(), f"keys {sorted(found)}, not {sorted(rows)}"
    assert table.num_rows == len(found)
    for key, row in rows.items():
        values = {name: each for name, each in found[key].items() if name != "id" and not name.startswith("_hoodie")}
        assert same(values, row), f"{key}: {values}, not {row}"


def wrong_in_spark(hudi: HudiOracle, tables: Sequence[Reads]) -> dict[Path, str]:
    """By table what Hudi's readers show that is not expected."""
    asked = [each for table in tables for each in table.queries()]
    wrong: dict[Path, str] = {}
    for (query, rows), answer in zip(asked, hudi.read_all([query for query, _ in asked]), strict=True):
        try:
            assert isinstance(answer, pa.Table), answer
            same_rows(answer, rows)
        except AssertionError as why:
            wrong.setdefault(query.path, f"Spark, {query.kind} since {query.begin or 'ever'}: {why}")
    return wrong
