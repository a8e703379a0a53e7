"""The tables of the compaction benchmarks have the rows that their cases say, and are the same each time."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.cases.comparison import WrongResult
from bench.cases.services.compaction import check_same_rows, shapes
from bench.cases.services.compaction_memory import KINDS, Logs, write_base, write_logs
from bench.cases.services.compaction_table import ORDERING, RECORD_KEY, Shape
from bench.sides.compaction import Compaction
from bucketingest.hudi.log.reader import read_log
from bucketingest.hudi.table.file_view import load_file_view
from bucketingest.hudi.table.schema import META_COLUMNS
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.storage import open_storage


def test_the_cases_cover_both_kinds_of_log_blocks_both_widths_and_no_base_file() -> None:
    names = [shape.name for shape in shapes(2_000_000)]
    assert names == [
        "parquet-4-columns",
        "parquet-18-columns",
        "avro-4-columns",
        "avro-18-columns",
        "parquet-18-columns-no-base",
        "avro-18-columns-no-base",
    ]
    assert [shape.rows for shape in shapes(2_000_000)] == [1_500_000] * 4 + [500_000] * 2


@pytest.mark.parametrize("wide", [False, True])
def test_log_files_have_later_rows_of_keys_of_the_base_file_and_some_new_ones(*, wide: bool) -> None:
    shape = Shape("parquet", wide=wide, base_rows=2000, log_rows=100, logs=3)
    base, loads = shape.base(), list(shape.loads())
    assert base.equals(shape.base())
    assert base.schema == shape.schema
    latest = max(base[ORDERING].to_pylist())
    known = set(base[RECORD_KEY].to_pylist())
    for load in loads:
        keys = load[RECORD_KEY].to_pylist()
        assert len(set(keys)) == 100
        assert 60 < len(known & set(keys)) < 100
        assert min(load[ORDERING].to_pylist()) >= latest
        latest = max(load[ORDERING].to_pylist())


@pytest.mark.parametrize("log_block", ["parquet", "avro"])
def test_a_written_table_is_one_file_group_with_a_log_file_for_each_load(tmp_path: Path, log_block: str) -> None:
    shape = Shape("avro" if log_block == "avro" else "parquet", wide=True, base_rows=0, log_rows=20, logs=3)
    writer = shape.writer(tmp_path / "table")
    for rows in shape.loads():
        writer.commit(rows)
    storage = open_storage(str(tmp_path / "table"))
    (group,) = load_file_view(storage, Timeline.load(storage)).groups
    assert group.latest is not None
    blocks = [read_log(storage.get(log.path)) for log in group.latest.log_files]
    assert [[content.rows.num_rows for content in log if content.rows] for log in blocks] == [[20]] * 3


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.name))
def test_the_slice_of_the_memory_case_is_merged(tmp_path: Path, kind: Logs) -> None:
    shape = Shape("parquet", wide=True, base_rows=1000, log_rows=0)
    write_base(shape, tmp_path / "base.parquet")
    logs = write_logs(shape, kind, tmp_path, 50)
    answer = Compaction().merge(str(tmp_path), "base.parquet", logs, ORDERING)
    assert answer["rows"] == 1000 + answer["inserts"] == pq.read_metadata(tmp_path / "merged.parquet").num_rows
    changed = answer["inserts"] + answer["updates"]
    assert changed == 500 if kind.distinct else changed < 500
    assert answer["peak_bytes"] > 0


def base_file(path: Path, values: list[int], *, file_name: str) -> Path:
    keys = [f"key-{number}" for number in range(len(values))]
    meta = {name: pa.array(keys) for name in META_COLUMNS[:4]} | {META_COLUMNS[4]: pa.array([file_name] * len(keys))}
    pq.write_table(pa.table(meta | {"value": values}).sort_by([("value", "ascending")]), path)
    return path


def test_base_files_with_the_same_rows_in_another_order_are_the_same(tmp_path: Path) -> None:
    ours = base_file(tmp_path / "ours", [1, 2, 3], file_name="a")
    theirs = base_file(tmp_path / "theirs", [1, 2, 3], file_name="b")
    pq.write_table(pq.read_table(theirs).slice(0, 3).sort_by([("value", "descending")]), theirs)
    check_same_rows(ours, theirs, every_value=True)


def test_base_files_with_other_rows_are_not(tmp_path: Path) -> None:
    ours = base_file(tmp_path / "ours", [1, 2, 3], file_name="a")
    other = base_file(tmp_path / "other", [1, 2, 4], file_name="a")
    fewer = base_file(tmp_path / "fewer", [1, 2], file_name="a")
    check_same_rows(ours, other, every_value=False)
    with pytest.raises(WrongResult, match="differ in columns value"):
        check_same_rows(ours, other, every_value=True)
    with pytest.raises(WrongResult, match="3 rows, Hudi's 2"):
        check_same_rows(ours, fewer, every_value=False)
