"""A table that gets the column _hoodie_operation: hudi-rs looks for it in each log file, also in those of before."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from bucketingest.hudi.table.layout_warnings import LogBlock
from bucketingest.hudi.table.table import TableDefinition
from support.oracle import hudi_rs
from support.tables.local_writer import LocalWriter


@pytest.mark.parametrize("block", ["avro", "parquet"])
def test_log_files_of_before_are_merged(tmp_path: Path, block: LogBlock) -> None:
    definition = TableDefinition("orders", ("id",), buckets=1)
    old = pa.table({"id": ["a", "b"], "n": [1, 2]})
    new = pa.table({"id": ["b", "c"], "n": [3, 4], "_hoodie_operation": ["U", "I"]})
    for each in (old, new):
        LocalWriter(tmp_path, definition, each.schema, log_block=block).commit(each)
    rows = hudi_rs.snapshot(tmp_path).sort_by("id").select(["id", "n", "_hoodie_operation"])
    assert [tuple(each.values()) for each in rows.to_pylist()] == [("a", 1, None), ("b", 3, "U"), ("c", 4, "I")]
