"""Base files have older values in the place of placeholders, whatever the limits of memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bucketingest.decode.debezium import placeholders
from bucketingest.hudi.merge.unavailable import PLACEHOLDER, Donors
from bucketingest.hudi.table.layout_warnings import LogBlock
from bucketingest.hudi.table.table import StateRules, TableDefinition
from bucketingest.services.merge import slice_merge
from bucketingest.services.merge.outcome import Limits
from bucketingest.storage import open_storage
from support.oracle import hudi_rs
from support.tables.local_writer import LocalWriter
from support.tables.services.compactions import compact
from support.tables.unavailable_rows import SCHEMA, Changes, rows_of


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("block", ["avro", "parquet"])
@pytest.mark.parametrize("state", [None, StateRules()])
def test_random_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, block: LogBlock, state: StateRules | None
) -> None:
    if seed % 2:  # a part of one key at a time
        little = Limits(fold_bytes=200, batch_rows=2)
        monkeypatch.setattr(slice_merge.merge_slices, "__kwdefaults__", {"digest": "", "limits": little})
    changes = Changes(seed)
    definition = TableDefinition("orders", ("id",), (), None, buckets=2, fills_unavailable=True, state=state)
    writer = LocalWriter(tmp_path, definition, SCHEMA, deleted="gone", log_block=block)
    for _ in range(3):
        for _ in range(3):
            writer.commit(changes.batch())
        assert rows_of(hudi_rs.snapshot(tmp_path)) == changes.rows()
        compact(open_storage(str(tmp_path)))
        assert rows_of(hudi_rs.snapshot(tmp_path)) == changes.rows()
    for file in tmp_path.glob("*.parquet"):
        assert PLACEHOLDER not in pq.read_table(file).column("text").to_pylist()


@pytest.mark.parametrize("block", ["avro", "parquet"])
def test_log_files_are_merged_before_a_column_is_added(tmp_path: Path, block: LogBlock) -> None:
    def commit(schema: pa.Schema, *rows: dict[str, Any]) -> None:
        writer = LocalWriter(tmp_path, definition, schema, log_block=block)
        writer.commit(pa.Table.from_pylist(list(rows), schema))

    definition = TableDefinition("orders", ("id",), (), None, buckets=1, fills_unavailable=True, state=StateRules())
    before = pa.schema([("id", pa.int64()), ("text", pa.string())])
    after = before.append(pa.field("more", pa.string()))
    commit(before, {"id": 1, "text": "a"}, {"id": 2, "text": "b"})
    commit(before, {"id": 1, "text": PLACEHOLDER})
    commit(after, {"id": 2, "text": PLACEHOLDER, "more": PLACEHOLDER})
    for _ in range(2):
        found = {row["id"]: (row["text"], row["more"]) for row in hudi_rs.snapshot(tmp_path).to_pylist()}
        assert found == {1: ("a", None), 2: ("b", None)}
        compact(open_storage(str(tmp_path)))


def test_messages_and_tables_mean_the_same_placeholder() -> None:
    assert placeholders.PLACEHOLDER == PLACEHOLDER


def test_what_is_known_of_older_values() -> None:
    keys = pa.array(["a", "b", "c"])
    donors = Donors(keys, [pa.field("text", pa.string())])

    def rows(*texts: str | None) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict({"text": pa.array(texts, pa.string())})

    donors.see(pa.array(["a", "x", "a", "b"]), rows("1", "2", "3", "4"))
    donors.see(pa.array(["a", "b"]), rows(PLACEHOLDER, None))
    donors.forget(pa.array(["c"]))
    lacking = rows(PLACEHOLDER, PLACEHOLDER, PLACEHOLDER)
    assert donors.filled(keys, lacking, last=True).column(0).to_pylist() == ["3", None, None]
    unknown = Donors(keys, [pa.field("text", pa.string())])
    unknown.forget(pa.array(["c"]))
    assert unknown.filled(keys, lacking, last=False).column(0).to_pylist() == [PLACEHOLDER, PLACEHOLDER, None]
