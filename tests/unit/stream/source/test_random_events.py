"""Random changes of a database, with truncates, changed keys, values that were not sent, events that come again, and a
driver that crashes.
"""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path

import pytest

from bucketingest.hudi.table.table import StateRules, TableDefinition
from bucketingest.storage import open_storage
from support.oracle import hudi_rs
from support.tables.mirrored import COLUMNS, ChangingDatabase, Crash, Mirror
from support.tables.services.compactions import compact

KEY = ("id", "part")
DEFINITIONS = {
    "buckets": TableDefinition("orders", KEY, ("part",), None, buckets=2),
    "state": TableDefinition("orders", KEY, ("part",), None, buckets=1, state=StateRules()),
    "filled": TableDefinition("orders", KEY, ("part",), None, buckets=1, state=StateRules(), fills_unavailable=True),
    "global": TableDefinition("orders", ("id",), ("part",), None, buckets=1, state=StateRules(is_global=True)),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", DEFINITIONS)
def test_the_table_is_the_databases(tmp_path: Path, kind: str, seed: int) -> None:
    definition = DEFINITIONS[kind]
    database, draw = ChangingDatabase(seed, toasts=definition.fills_unavailable), random.Random(seed)
    ends: list[int] = []

    def start() -> Mirror:
        return Mirror(tmp_path, definition, COLUMNS, deleted="__deleted", commit_interval=timedelta(hours=1))

    mirror = start()
    for _ in range(12):
        for _ in range(draw.choice((1, 5, 40))):
            database.change()
        if draw.random() < 0.3:
            with pytest.raises(Crash):
                mirror.take(database.topic, ends, crashes=True)
            mirror = start()
        mirror.take(database.topic, ends)
        if draw.random() < 0.5:
            mirror.coordinator.commit_open()
            found = hudi_rs.snapshot(tmp_path)
            rows = found.select(COLUMNS.names).to_pylist() if found.num_columns else []
            assert {row["id"]: row for row in rows} == database.rows
            assert len(rows) == len(database.rows)
            if draw.random() < 0.3:
                compact(open_storage(str(tmp_path)))
