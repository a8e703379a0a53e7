"""The encoding of log blocks: Hudi's Spark reader compares a text ordering column wrongly in Parquet blocks, and
hudi-rs cannot read a time inside a column in Avro blocks.
"""

from __future__ import annotations

import datetime as dt
import logging
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bucketingest.hudi.table.layout_warnings import LogBlock
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.storage import open_storage
from bucketingest.write.open_table import OpenTable, open_table
from support.oracle import hudi_rs
from support.tables.local_writer import LocalWriter


def opened(kind: pa.DataType, log_block: LogBlock | None = None, *, ordered: bool = True) -> OpenTable:
    schema = pa.schema([("id", pa.string()), ("at", kind)])
    definition = TableDefinition("orders", ("id",), ordering_field="at" if ordered else None)
    return open_table(open_storage(f"memory://{uuid.uuid4()}"), definition, schema, log_block=log_block)


@pytest.mark.parametrize(
    ("kind", "ordered", "chosen"),
    [(pa.int64(), True, "by size"), (pa.string(), True, "avro"), (pa.string(), False, "by size")],
)
def test_rows_are_stored_so_that_readers_merge_them_rightly(kind: pa.DataType, ordered: bool, chosen: str) -> None:
    assert opened(kind, ordered=ordered).log_block == chosen


@pytest.mark.parametrize(("log_block", "warned"), [("parquet", True), ("avro", False), (None, False)])
def test_the_choice_of_the_spec_counts_and_is_warned_about(
    caplog: pytest.LogCaptureFixture, log_block: LogBlock | None, warned: bool
) -> None:
    with caplog.at_level(logging.WARNING):
        assert opened(pa.string(), log_block).log_block == (log_block or "avro")
    warnings = [str(vars(record).get("warning")) for record in caplog.records]
    assert any("remove table.logBlock" in warning for warning in warnings) == warned


TIME = pa.timestamp("us", "UTC")
AT = dt.datetime(2024, 1, 2, 3, 4, 5, 678, tzinfo=dt.UTC)
INSIDE: list[tuple[pa.DataType, Any]] = [
    (pa.struct([("x", TIME)]), {"x": AT}),
    (pa.list_(pa.field("element", TIME)), [AT, None]),
    (pa.map_(pa.string(), TIME), [("k", AT)]),
    (pa.struct([("l", pa.list_(pa.field("element", pa.struct([("x", TIME)]))))]), {"l": [{"x": AT}]}),
]


@pytest.mark.parametrize(("kind", "value"), INSIDE)
def test_times_inside_columns_are_in_parquet_blocks_which_hudi_rs_reads(
    tmp_path: Path, kind: pa.DataType, value: Any
) -> None:
    """Also of a table that other log files had before it had the column, and of a pipeline that lacks it since."""
    definition = TableDefinition("orders", ("id",), buckets=1)
    rows = pa.table({"id": ["b"], "at": pa.array([value], kind)})
    for each in (rows.select(["id"]).set_column(0, "id", [["a"]]), rows, pa.table({"id": ["c"]})):
        LocalWriter(tmp_path, definition, each.schema).commit(each)
    found = hudi_rs.snapshot(tmp_path).select(["id", "at"]).sort_by("id").to_pylist()
    assert found == [{"id": "a", "at": None}, *rows.to_pylist(), {"id": "c", "at": None}]


@pytest.mark.parametrize(("order", "log_block"), [(pa.int64(), "avro"), (pa.string(), None)])
def test_what_hudi_rs_will_not_read_is_warned_about(
    caplog: pytest.LogCaptureFixture, order: pa.DataType, log_block: LogBlock | None
) -> None:
    schema = pa.schema([("id", pa.string()), ("at", order), ("c", INSIDE[0][0])])
    definition = TableDefinition("orders", ("id",), ordering_field="at")
    with caplog.at_level(logging.WARNING):
        found = open_table(open_storage(f"memory://{uuid.uuid4()}"), definition, schema, log_block=log_block)
    assert found.log_block == "avro"
    assert any("column c: hudi-rs cannot read" in str(vars(each).get("warning")) for each in caplog.records)
