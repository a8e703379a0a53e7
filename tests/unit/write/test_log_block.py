"""The encoding of log blocks: Hudi's Spark reader compares a text ordering column wrongly in Parquet blocks."""

from __future__ import annotations

import logging
import uuid

import pyarrow as pa
import pytest

from bucketingest.hudi.table.layout_warnings import LogBlock
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.storage import open_storage
from bucketingest.write.open_table import OpenTable, open_table


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
