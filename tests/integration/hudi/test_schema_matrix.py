"""The matrix that says when a table takes a change of its columns: Hudi's Spark reader and hudi-rs show every value of
before and after, in log files of both, and in base files of before beside log files of after.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bucketingest.hudi.table.layout_warnings import LogBlock
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.storage import open_storage
from support.oracle import hudi_rs
from support.oracle.client import HudiOracle
from support.oracle.compare import assert_same_rows, without_meta_columns
from support.tables.local_writer import LocalWriter
from support.tables.schema_changes import CHANGES, Change
from support.tables.services.compactions import compact

pytestmark = pytest.mark.hudi

DEFINITION = TableDefinition("matrix", ("id",), (), None, buckets=1)
ID = pa.field("id", pa.string(), nullable=False)
AT_ONCE = [each for each in CHANGES if each.when == "at once"]
MERGED = [each for each in CHANGES if each.when == "after a merge"]


def rows(changes: list[Change], *ids: str, after: bool) -> pa.Table:
    fields = {each.name: each.field(after=after) for each in changes}
    values = {each.name: each.other if after else each.value for each in changes}
    schema = pa.schema([ID, *filter(None, fields.values())])
    return pa.Table.from_pylist([{"id": key, **values} for key in ids], schema)


def expected(changes: list[Change], before: list[str], after: list[str]) -> pa.Table:
    """With the wider type of each column."""
    kinds = [(each.name, each.before if each.when == "at once" and each.before else each.after) for each in changes]
    values: list[dict[str, Any]] = [{"id": key, **{each.name: each.value for each in changes}} for key in before]
    values += [{"id": key, **{each.name: each.other for each in changes}} for key in after]
    return pa.Table.from_pylist(values, pa.schema([ID, *kinds]))


@pytest.mark.parametrize("block", ["avro", "parquet"])
@pytest.mark.parametrize("base", [False, True], ids=["log only", "base and log"])
@pytest.mark.parametrize("changes", [AT_ONCE, MERGED], ids=["at once", "after a merge"])
def test_both_readers_show_every_value_of_before_and_after(
    hudi: HudiOracle, tmp_path: Path, changes: list[Change], base: bool, block: LogBlock
) -> None:
    old, new = rows(changes, "a", "b", after=False), rows(changes, "b", "c", after=True)
    LocalWriter(tmp_path, DEFINITION, old.schema, log_block=block).commit(old)
    if base or changes is MERGED:
        compact(open_storage(str(tmp_path)))
    if base and changes is MERGED:  # one more log file of before, merged too
        again = rows(changes, "a", after=False)
        LocalWriter(tmp_path, DEFINITION, old.schema, log_block=block).commit(again)
        compact(open_storage(str(tmp_path)))
    LocalWriter(tmp_path, DEFINITION, new.schema, log_block=block).commit(new)
    wanted = expected(changes, ["a"], ["b", "c"])
    for _ in range(2):
        assert_same_rows(without_meta_columns(hudi_rs.snapshot(tmp_path)), wanted, ["id"])
        assert_same_rows(without_meta_columns(hudi.snapshot(tmp_path)), wanted, ["id"])
        compact(open_storage(str(tmp_path)))
