"""Values that a source did not send keep the older ones, for each reader, before and after compactions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bucketingest.hudi.merge.unavailable import PLACEHOLDER
from bucketingest.hudi.table.layout_warnings import LogBlock
from bucketingest.hudi.table.table import StateRules, TableDefinition
from bucketingest.storage import open_storage
from support.oracle import hudi_rs
from support.oracle.client import HudiOracle
from support.tables.local_writer import LocalWriter
from support.tables.services.compactions import compact
from support.tables.unavailable_rows import ROWS, SCHEMA, Changes, rows_of

pytestmark = pytest.mark.hudi


def definition(**more: Any) -> TableDefinition:
    return TableDefinition("orders", ("id",), (), None, buckets=2, fills_unavailable=True, **more)


@pytest.mark.parametrize("state", [None, StateRules(), StateRules(inserts="log")])
@pytest.mark.parametrize("block", ["avro", "parquet"])
def test_every_reader_shows_the_older_values(
    hudi: HudiOracle, tmp_path: Path, block: LogBlock, state: StateRules | None
) -> None:
    changes = Changes(7)
    writer = LocalWriter(tmp_path, definition(state=state), SCHEMA, deleted="gone", log_block=block)
    for step in range(8):
        batch = changes.batch()
        writer.commit(batch)
        assert rows_of(hudi_rs.snapshot(tmp_path)) == changes.rows()
        if step in (3, 7):
            assert rows_of(hudi.snapshot(tmp_path)) == changes.rows()
            compact(open_storage(str(tmp_path)))
            assert rows_of(hudi_rs.snapshot(tmp_path)) == changes.rows()
            assert rows_of(hudi.snapshot(tmp_path)) == changes.rows()


def test_where_nothing_is_older_it_is_null(hudi: HudiOracle, tmp_path: Path) -> None:
    def commit(*rows: dict[str, Any]) -> None:
        writer.commit(pa.Table.from_pylist([{"n": 1, "gone": False, **row} for row in rows], ROWS))

    def shown() -> list[dict[int, str | None]]:
        tables = [hudi_rs.snapshot(tmp_path), hudi.snapshot(tmp_path)]
        return [{row["id"]: row["text"] for row in rows_of(each)} for each in tables]

    writer = LocalWriter(tmp_path, definition(state=StateRules()), SCHEMA, deleted="gone")
    commit({"id": 1, "text": "a"}, {"id": 2, "text": "b"}, {"id": 3, "text": PLACEHOLDER})
    commit({"id": 1, "text": PLACEHOLDER}, {"id": 4, "text": PLACEHOLDER})
    assert shown() == [{1: "a", 2: "b", 3: None, 4: None}] * 2
    commit({"id": 2, "gone": True})
    commit({"id": 2, "text": PLACEHOLDER})
    compact(open_storage(str(tmp_path)))
    assert shown() == [{1: "a", 2: None, 3: None, 4: None}] * 2
