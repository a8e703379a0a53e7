"""One file slice becomes one base file: the rows are those that Hudi's own merge of the slice gives."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bucketingest.hudi.base.base_file import BaseFileWriter
from bucketingest.hudi.errors import CorruptLog, UnsupportedTable
from bucketingest.hudi.log.blocks import parquet_data_block
from bucketingest.hudi.log.format import BlockType, HeaderKey, frame_block
from bucketingest.hudi.merge.current_rows import current_rows
from bucketingest.hudi.merge.merge_rules import IS_DELETED, OPERATION, MergeRules
from bucketingest.hudi.naming import BaseFileName
from bucketingest.hudi.table.file_view import DataFile, FileSlice
from bucketingest.hudi.table.ordering import comparable
from bucketingest.hudi.table.schema import META_COLUMNS
from bucketingest.services.merge.outcome import Limits
from bucketingest.storage import open_storage
from support.tables.services.java_merge import merged
from support.tables.services.slice_on_disk import EPOCH, FEW, NEWEST, PARTITION, PASSES, Slice, avro_json, schema_of


def judge(merging: Slice, *, event_time: bool = True) -> pa.Table:
    """Merge, and compare with Hudi's merge."""
    table, done = merging.merge()
    expected, counts = merged(merging.base_rows, merging.entries, event_time=event_time)
    assert sorted(table["value"].to_pylist()) == sorted(expected)
    assert {"inserts": done.inserts, "updates": done.updates, "deletes": done.deletes} == counts
    assert done.rows == table.num_rows == len(expected)
    assert done.log_records == len(merging.entries)
    assert set(table["_hoodie_file_name"].to_pylist()) <= {"new"}
    if len({key for key, *_ in merging.base_rows}) == len(merging.base_rows):
        look_at_current_rows(merging, table)
    return table


def look_at_current_rows(merging: Slice, table: pa.Table) -> None:
    """Asked for half of the keys, the slice says the same of them without being merged."""

    def wanted(keys: pa.Array) -> np.ndarray:
        return np.array([zlib.crc32(key.encode()) % 2 == 0 for key in keys.to_pylist()], np.bool_)

    def data_file(path: str) -> DataFile:
        return DataFile(path, 0, BaseFileName("f", "1"))

    base = None if merging.base is None else data_file(merging.base)
    rules = MergeRules(merging.schema, merging.ordering_field, merging.delete_marker)
    files = FileSlice("1", base, tuple(map(data_file, merging.logs)))
    found = current_rows(open_storage(str(merging.folder)), files, rules, wanted)
    shown = table.filter(pa.array(wanted(table["id"].combine_chunks())))
    alive = found.keys.filter(pa.array(found.alive)).to_pylist()
    assert sorted(alive) == sorted(shown["id"].to_pylist())
    assert len(set(found.keys.to_pylist())) == len(found)
    if found.ordering is not None:
        values = dict(zip(found.keys.to_pylist(), found.ordering.to_pylist(), strict=True))
        stored = comparable(shown["at"].combine_chunks())
        assert [values[key] for key in shown["id"].to_pylist()] == stored.to_pylist()


Values = Callable[[int], Any]
ORDERINGS: dict[str, tuple[pa.DataType, Values]] = {
    "long": (pa.int64(), lambda n: n),
    "int with zero": (pa.int32(), lambda n: n - 2),
    "timestamp": (pa.timestamp("us", tz="UTC"), lambda n: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=n)),
    "date with zero": (pa.date32(), lambda n: EPOCH + timedelta(days=n - 2)),
    "double": (pa.float64(), lambda n: n / 3 - 1),
    "float": (pa.float32(), lambda n: n / 2),
    "string": (pa.string(), lambda n: f"{n:02}"),
    "decimal": (pa.decimal128(10, 2), lambda n: Decimal(n) / 4),
}


@dataclass(frozen=True)
class Flag:
    """A column by which a row deletes its key: values that do, and values that do not."""

    column: str
    kind: pa.DataType
    deleting: Sequence[Any]
    keeping: Sequence[Any]


FLAGS = (
    Flag(IS_DELETED, pa.bool_(), (True,), (False, None)),
    Flag(OPERATION, pa.string(), ("D", "-U"), ("I", "U", None)),
    Flag("what", pa.string(), ("gone",), ("D", "", None)),
)
"""The last one is the table's own `hoodie.payload.delete.field`."""


@pytest.mark.parametrize("limits", [FEW, PASSES], ids=["one pass", "passes"])
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("ordering", [*ORDERINGS, "commit time"])
def test_random_slices_are_merged_as_hudi_merges_them(tmp_path: Path, ordering: str, seed: int, limits: Limits) -> None:
    chance = random.Random(f"{ordering} {seed}")
    event_time = ordering != "commit time"
    kind, value = ORDERINGS.get(ordering, ORDERINGS["long"])
    flag = FLAGS[seed % len(FLAGS)]
    schema = schema_of(kind, pa.field(flag.column, flag.kind))
    marker = None if flag.column.startswith("_hoodie") else (flag.column, flag.deleting[0])
    merging = Slice(tmp_path, schema, "at" if event_time else None, limits=limits, delete_marker=marker)
    count = 0

    def row(*, may_delete: bool) -> dict[str, Any]:
        nonlocal count
        count += 1
        what = chance.choice(flag.deleting if may_delete and chance.random() < 0.2 else flag.keeping)
        key = f"k{chance.randrange(12)}"
        return {"id": key, "at": value(chance.randrange(6)), "value": f"v{count}", flag.column: what}

    if chance.random() < 0.8:
        rows = {row["id"]: row for row in (row(may_delete=False) for _ in range(15))}
        merging.write_base(list(rows.values()))
    for _ in range(chance.randrange(1, 6)):
        blocks = []
        for _ in range(chance.randrange(1, 4)):
            keys = [f"k{chance.randrange(12)}" for _ in range(chance.randrange(1, 5))]
            if chance.random() < 0.3:
                values = [value(chance.randrange(6)) if chance.random() < 0.5 else None for _ in keys]
                blocks.append(merging.deletes(keys, None if chance.random() < 0.3 or not event_time else values))
            else:
                rows_of_block = [row(may_delete=True) for _ in range(chance.randrange(1, 8))]
                blocks.append(merging.data(rows_of_block, avro=chance.random() < 0.3))
        merging.log(*blocks)
    judge(merging, event_time=event_time)


def test_nan_is_the_greatest_and_minus_zero_less_than_zero(tmp_path: Path) -> None:
    merging = Slice(tmp_path, schema_of(pa.float64()))
    merging.write_base([{"id": "a", "at": 1e300, "value": "a0"}, {"id": "b", "at": 0.0, "value": "b0"}])
    merging.log(
        merging.data([{"id": "a", "at": float("nan"), "value": "a1"}, {"id": "b", "at": -0.0, "value": "b1"}]),
        merging.data([{"id": "c", "at": float("nan"), "value": "c0"}, {"id": "c", "at": float("inf"), "value": "c1"}]),
    )
    table, _ = merging.merge()
    assert sorted(table["value"].to_pylist()) == ["a1", "b0", "c0"]


def test_a_late_insert_after_a_commit_time_delete_does_not_beat_a_newer_base_row(tmp_path: Path) -> None:
    """Not what a user would expect, but what Hudi's readers show: compaction must not change what a query sees."""
    merging = Slice(tmp_path, schema_of(pa.int64()))
    merging.write_base([{"id": "a", "at": 9, "value": "base"}])
    merging.log(merging.deletes(["a"], None), merging.data([{"id": "a", "at": 5, "value": "late"}]))
    assert judge(merging)["value"].to_pylist() == ["base"]


def test_rows_keep_their_meta_columns_and_get_the_new_file_name(tmp_path: Path) -> None:
    merging = Slice(tmp_path, schema_of(pa.int64()))
    merging.write_base([{"id": "a", "at": 1, "value": "a"}])
    merging.log(merging.data([{"id": "b", "at": 1, "value": "b"}]))
    table = judge(merging)
    assert table.schema.names == merging.schema.names
    assert [tuple(row.values())[:5] for row in table.select(META_COLUMNS).to_pylist()] == [
        ("1", "1_0_1", "a", PARTITION, "new"),
        ("1", "1_0_2", "b", PARTITION, "new"),
    ]
    footer = pq.read_metadata(tmp_path / "new.parquet").metadata
    assert (footer[b"hoodie_min_record_key"], footer[b"hoodie_max_record_key"]) == (b"a", b"b")


@pytest.mark.parametrize("keys", [["a", "é"], ["\ue000", "😀"]])
def test_a_base_file_with_keys_beyond_ascii_names_no_range(tmp_path: Path, keys: list[str]) -> None:
    """Java compares UTF-16 code units, where U+1F600 is below U+E000: by a wrong range Hudi's index misses keys."""
    schema = schema_of(pa.int64())
    with BaseFileWriter(tmp_path / "base", schema, "base", row_group_rows=1) as writer:
        for key in ["a", *keys, "b"]:
            row = dict.fromkeys(schema.names, key) | {"at": 1}
            writer.write(pa.Table.from_pylist([row], schema=schema))
        writer.finish({"more": "1"})
    footer = pq.read_metadata(tmp_path / "base").metadata
    assert footer[b"more"] == b"1"
    assert b"hoodie_min_record_key" not in footer
    assert b"hoodie_max_record_key" not in footer


def test_columns_added_later_are_null_in_older_rows(tmp_path: Path) -> None:
    evolved = schema_of(pa.int64(), pa.field("added", pa.int32()))
    merging = Slice(tmp_path, evolved)
    older = schema_of(pa.int64())
    merging.write_base([{"id": "a", "at": 1, "value": "a"}], older)
    merging.log(merging.data([{"id": "b", "at": 1, "value": "b"}], schema=older))
    merging.log(merging.data([{"id": "c", "at": 1, "value": "c", "added": 3}]))
    assert judge(merging)["added"].to_pylist() == [None, None, 3]


def test_a_slice_whose_rows_are_all_deleted_becomes_an_empty_base_file(tmp_path: Path) -> None:
    merging = Slice(tmp_path, schema_of(pa.int64()))
    merging.write_base([{"id": "a", "at": 1, "value": "a"}])
    merging.log(merging.deletes(["a"], [2]))
    assert judge(merging).num_rows == 0


@pytest.mark.parametrize("between", [0, 9])
def test_of_a_key_that_the_base_file_holds_twice_the_second_row_stays(tmp_path: Path, between: int) -> None:
    merging = Slice(tmp_path, schema_of(pa.int64()))
    others = [{"id": f"b{number}", "at": 1, "value": "other"} for number in range(between)]
    rows = [{"id": "a", "at": 1, "value": "first"}, *others, {"id": "a", "at": 1, "value": "second"}]
    merging.write_base(rows)
    merging.log(merging.data([{"id": "a", "at": 2, "value": "new"}]))
    assert {"new", "second"} <= set(judge(merging)["value"].to_pylist())


def test_blocks_of_instants_that_are_not_complete_are_left_out(tmp_path: Path) -> None:
    merging = Slice(tmp_path, schema_of(pa.int64()))
    merging.log(merging.data([{"id": "a", "at": 1, "value": "a"}]))
    table = merging.rows([{"id": "b", "at": 1, "value": "b"}])
    late = str(int(NEWEST) + 1)
    merging.log(parquet_data_block(table, instant_time=late, avro_schema_json=avro_json(merging.schema)))
    assert judge(merging)["value"].to_pylist() == ["a"]


@pytest.mark.parametrize(
    ("header", "what"), [(HeaderKey.IS_PARTIAL, "partial updates"), (HeaderKey.COMPACTED_BLOCK_TIMES, "log compaction")]
)
def test_blocks_that_only_hudi_can_merge_are_refused(tmp_path: Path, header: HeaderKey, what: str) -> None:
    merging = Slice(tmp_path, schema_of(pa.int64()))
    merging.log(frame_block(BlockType.PARQUET, {HeaderKey.INSTANT_TIME: "1", header: "true"}, [b"x"]))
    with pytest.raises(UnsupportedTable, match=what):
        merging.merge()


def test_rollback_commands_of_old_tables_are_refused(tmp_path: Path) -> None:
    merging = Slice(tmp_path, schema_of(pa.int64()))
    headers = {
        HeaderKey.INSTANT_TIME: "2",
        HeaderKey.TARGET_INSTANT_TIME: "1",
        HeaderKey.COMMAND_BLOCK_TYPE: "3",  # as in a table that Hudi wrote: its enum has only this command
    }
    merging.log(frame_block(BlockType.COMMAND, headers, []))
    with pytest.raises(UnsupportedTable, match="version 6"):
        merging.merge()


def test_a_row_without_a_record_key_is_a_corrupt_log(tmp_path: Path) -> None:
    merging = Slice(tmp_path, schema_of(pa.int64()))
    table = merging.rows([{"id": "a", "at": 1, "value": "a"}])
    position = table.schema.get_field_index("_hoodie_record_key")
    table = table.set_column(position, table.schema.field(position), pa.array([None], pa.string()))
    merging.log(parquet_data_block(table, instant_time="1", avro_schema_json=avro_json(merging.schema)))
    with pytest.raises(CorruptLog, match="record key"):
        merging.merge()


def test_a_writer_without_rows_writes_the_schema(tmp_path: Path) -> None:
    schema = schema_of(pa.int64())
    with BaseFileWriter(tmp_path / "empty.parquet", schema, "empty", row_group_rows=1) as writer:
        writer.finish({"key": "value"})
    assert pq.read_table(tmp_path / "empty.parquet").schema.names == schema.names
    assert pq.read_metadata(tmp_path / "empty.parquet").metadata[b"key"] == b"value"
