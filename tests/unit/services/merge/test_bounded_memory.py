"""What is in memory at a time is bounded by bytes: batches of a base file, keys of a pass, blocks of a log file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bucketingest.hudi.base.base_file import BaseFileWriter
from bucketingest.hudi.errors import CorruptLog
from bucketingest.hudi.log.blocks import parquet_data_block
from bucketingest.hudi.merge.base_reader import batches, open_base
from bucketingest.hudi.merge.log_records import KEY, LogRecords
from bucketingest.hudi.merge.merge_rules import MergeRules
from bucketingest.hudi.table.schema import META_COLUMNS, arrow_to_avro, schema_json, with_meta_columns
from bucketingest.services.merge.outcome import Limits, winners_in_passes
from bucketingest.storage import open_storage

SCHEMA = pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), ("id", pa.string()), ("at", pa.int64())])


def rows(start: int, count: int) -> pa.Table:
    keys = [f"key-{number:06}" for number in range(start, start + count)]
    columns = [pa.array(keys)] * (len(META_COLUMNS) + 1)
    return pa.table([*columns, pa.array(range(start, start + count))], schema=SCHEMA)


def log_file(folder: Path, *blocks: pa.Table) -> str:
    schema = schema_json(with_meta_columns(arrow_to_avro(SCHEMA, table_name="t")))
    data = [part for rows in blocks for part in parquet_data_block(rows, instant_time="1", avro_schema_json=schema)]
    (folder / ".log").write_bytes(b"".join(bytes(memoryview(part)) for part in data))
    return ".log"


def log_records(folder: Path, *blocks: pa.Table) -> LogRecords:
    return LogRecords(open_storage(str(folder)), [log_file(folder, *blocks)], MergeRules(SCHEMA, "at"), "2")


def test_batches_of_a_base_file_have_about_the_bytes_wanted(tmp_path: Path) -> None:
    pq.write_table(rows(0, 5000), tmp_path / "base.parquet")
    with open_base(open_storage(str(tmp_path)), "base.parquet") as base:
        found = list(batches(base, [KEY, "at"], rows=10_000, size_bytes=10_000))
        assert max(batch.nbytes for batch in found) < 12_000
        assert pa.Table.from_batches(found)["at"].to_pylist() == list(range(5000))
        assert [len(batch) for batch in batches(base, ["at"], rows=4000, size_bytes=10**9)] == [4000, 1000]


def test_an_empty_base_file_has_no_batches(tmp_path: Path) -> None:
    pq.write_table(rows(0, 0), tmp_path / "base.parquet")
    with open_base(open_storage(str(tmp_path)), "base.parquet") as base:
        assert list(batches(base, [KEY], rows=10, size_bytes=10)) == []


def test_each_pass_has_few_keys_and_all_passes_have_every_key_once(tmp_path: Path) -> None:
    logs = log_records(tmp_path, *(rows(start, 500) for start in range(0, 3000, 250)))
    limits = replace(Limits(), fold_records=100, fold_bytes=40_000)
    passes = list(winners_in_passes(logs, limits))
    assert len(passes) > 4
    assert max(records.size_bytes for records in passes) <= 40_000
    keys = [key for records in passes for key in records.keys.to_pylist()]
    assert sorted(keys) == rows(0, 3250)[KEY].to_pylist()
    assert (logs.blocks, logs.total) == (12, 6000)


def test_keys_that_fit_are_taken_in_one_pass(tmp_path: Path) -> None:
    (records,) = winners_in_passes(log_records(tmp_path, rows(0, 500)), Limits())
    assert len(records) == 500


def test_a_large_log_file_is_read_block_by_block_with_the_same_result(tmp_path: Path) -> None:
    logs = log_records(tmp_path, rows(0, 10), rows(10, 10))
    at_once = [records.keys.to_pylist() for records in logs.records()]
    size = logs.size_bytes
    logs.whole_file_bytes = 100
    assert [records.keys.to_pylist() for records in logs.records()] == at_once
    assert logs.size_bytes == size == (tmp_path / ".log").stat().st_size


@pytest.mark.parametrize("cut", [1, 5, 300])
def test_a_large_log_file_that_is_cut_short_is_corrupt(tmp_path: Path, cut: int) -> None:
    logs = log_records(tmp_path, rows(0, 10))
    logs.whole_file_bytes = 1
    file = tmp_path / ".log"
    file.write_bytes(file.read_bytes() + file.read_bytes()[:cut])
    with pytest.raises(CorruptLog, match="byte"):
        list(logs.records())


def test_a_row_group_ends_when_it_has_enough_bytes(tmp_path: Path) -> None:
    with BaseFileWriter(
        tmp_path / "new.parquet", SCHEMA, "new", row_group_rows=10**6, row_group_bytes=rows(0, 20).nbytes
    ) as out:
        for start in range(0, 50, 10):
            out.write(rows(start, 10))
        out.finish({})
    footer = pq.read_metadata(tmp_path / "new.parquet")
    assert [footer.row_group(number).num_rows for number in range(footer.num_row_groups)] == [20, 20, 10]
