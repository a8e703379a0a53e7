"""A table of a Hudi writer with default options, which has a metadata table, is taken over by one that drops it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bucketingest.hudi.errors import UnsupportedTable
from bucketingest.hudi.table.metadata_table import switched_on
from bucketingest.hudi.table.table import TableDefinition, load_table
from bucketingest.services.metadata_table import MetadataTableDrop
from bucketingest.storage import open_storage
from support.oracle import hudi_rs
from support.oracle.client import HudiOracle
from support.oracle.compare import assert_same_rows
from support.oracle.expected import ExpectedTable, MergeRules
from support.oracle.writer import HudiWriter
from support.tables.local_writer import LocalWriter

pytestmark = pytest.mark.hudi

SCHEMA = pa.schema([("id", pa.string()), ("region", pa.string()), ("at", pa.int64()), ("value", pa.string())])
RULES = MergeRules(key=["id"], partition_by=["region"], ordering="at")
DEFINITION = TableDefinition("taken_over", ("id",), ("region",), "at", buckets=2)
DEFAULT = HudiWriter("taken_over", ["id"], ["region"], "at", buckets=2, extra={"hoodie.metadata.enable": "true"})
WITHOUT = HudiWriter("taken_over", ["id"], ["region"], "at", buckets=2)
WITH_METADATA_TABLE = {"hoodie.metadata.enable": "true"}


def rows(at: int, *numbers: int) -> pa.Table:
    columns: dict[str, list[Any]] = {"id": [f"key-{number}" for number in numbers]}
    columns["region"] = [("eu", "us")[number % 2] for number in numbers]
    return pa.table(columns | {"at": [at] * len(numbers), "value": [f"value {at}"] * len(numbers)}, schema=SCHEMA)


def test_readers_and_writers_of_hudi_go_on_after_the_drop(hudi: HudiOracle, tmp_path: Path) -> None:
    expected = ExpectedTable(RULES)

    def judge() -> None:
        assert_same_rows(hudi.snapshot(tmp_path, WITH_METADATA_TABLE), expected.table(), ["region", "id"])
        assert_same_rows(hudi_rs.snapshot(tmp_path), expected.table(), ["region", "id"])

    for at in (1, 2):
        hudi.upsert(tmp_path, rows(at, at, at + 1, at + 2), DEFAULT)
        expected.apply(rows(at, at, at + 1, at + 2))
    assert (tmp_path / ".hoodie" / "metadata").is_dir()
    with pytest.raises(UnsupportedTable, match="metadata table is on"):
        LocalWriter(tmp_path, DEFINITION, SCHEMA)

    storage = open_storage(str(tmp_path))
    writer = LocalWriter(tmp_path, DEFINITION, SCHEMA, drop_metadata_table=True)
    assert not (tmp_path / ".hoodie" / "metadata").exists()
    judge()
    writer.commit(rows(3, 3, 4, 5))
    expected.apply(rows(3, 3, 4, 5))
    judge()

    hudi.upsert(tmp_path, rows(4, 5, 6), WITHOUT)
    expected.apply(rows(4, 5, 6))
    writer.commit(rows(5, 6, 7))
    expected.apply(rows(5, 6, 7))
    judge()

    hudi.upsert(tmp_path, rows(6, 7, 8), DEFAULT)
    expected.apply(rows(6, 7, 8))
    assert switched_on(load_table(storage).properties), "it is built anew"
    judge()
    with pytest.raises(UnsupportedTable, match="is on again"):
        MetadataTableDrop(storage, writer.lock)()
