"""A process dies while it writes with more columns than the next one has: what it wrote is read with all of them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from bucketingest.hudi.table.table import TableDefinition
from bucketingest.hudi.timeline.instant import DELTA_COMMIT, Instant
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.storage import Storage, open_storage
from bucketingest.write.errors import ColumnsChanged, InstantAborted
from bucketingest.write.instants.commit_content import read_as_of
from support.oracle import hudi_rs
from support.storage.crashing_storage import Crash, CrashingStorage
from support.tables.local_writer import PIPELINE, LocalWriter

DEFINITION = TableDefinition("orders", ("id",), buckets=1)
FEW = pa.schema([pa.field("id", pa.string(), nullable=False), ("n", pa.int32())])
MORE = pa.schema([*FEW.remove(1), ("n", pa.int64()), ("note", pa.string())])


def writer(path: Path, schema: pa.Schema, dies_at: int | None = None) -> LocalWriter:
    storage = None if dies_at is None else CrashingStorage(open_storage(str(path)), dies_at)
    return LocalWriter(path, DEFINITION, schema, storage=storage)


@pytest.mark.parametrize("dies_at", range(10, 30))  # the last ones: nobody dies
def test_what_a_dead_process_wrote_with_more_columns_is_read_with_them(tmp_path: Path, dies_at: int) -> None:
    writer(tmp_path, FEW).commit(pa.Table.from_pylist([{"id": "a", "n": 1}], FEW))
    large = {"id": "b", "n": 2**40, "note": "x"}
    with suppress(Crash):
        writer(tmp_path, MORE, dies_at).commit(pa.Table.from_pylist([large], MORE))
    last = pa.Table.from_pylist([{"id": "c", "n": 3}], FEW)
    try:
        writer(tmp_path, FEW).commit(last)
    except (ColumnsChanged, InstantAborted):  # the running job opens the table again
        writer(tmp_path, FEW).commit(last)
    found = hudi_rs.snapshot(tmp_path).to_pylist()
    rows = {row["id"]: (row["n"], row.get("note")) for row in found}
    assert rows.pop("b", (2**40, "x")) == (2**40, "x")
    assert rows == {"a": (1, None), "c": (3, None)}


def own_instants(table: Storage) -> list[Instant]:
    """Without the compaction before columns become more."""
    return [each for each in Timeline.load(table).instants if each.action == DELTA_COMMIT]


@pytest.mark.parametrize("dies_at", range(10, 30))  # the last ones: nobody dies
def test_a_start_reads_messages_as_the_process_did_whose_commit_it_completes(tmp_path: Path, dies_at: int) -> None:
    table = open_storage(str(tmp_path))
    LocalWriter(tmp_path, DEFINITION, FEW, read_as="few").commit(pa.Table.from_pylist([{"id": "a", "n": 1}], FEW))
    storage = CrashingStorage(open_storage(str(tmp_path)), dies_at)
    with suppress(Crash):
        dead = LocalWriter(tmp_path, DEFINITION, MORE, storage=storage, read_as="more")
        dead.commit(pa.Table.from_pylist([{"id": "b", "n": 2, "note": "x"}], MORE))
    is_there = len(own_instants(table)) > 1
    text = read_as_of(table, PIPELINE)
    assert text == ("more" if is_there else "few")
    LocalWriter(tmp_path, DEFINITION, MORE if is_there else FEW, read_as=text)
    if [each.is_completed for each in own_instants(table)] == [True, True]:
        assert read_as_of(table, PIPELINE) == "more"
