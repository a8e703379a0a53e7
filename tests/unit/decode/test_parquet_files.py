"""Parquet files read on Arrow: each row once, and what Spark may read otherwise is in doubt."""

from __future__ import annotations

import datetime as dt
import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.decode.parquet_files import Piece, read, unsupported
from bucketingest.decode.sql.nodes import RowsInDoubt

COLUMNS = pa.schema([("id", pa.string()), ("n", pa.int32()), ("at", pa.timestamp("us", tz="UTC"))])
ROWS = 3000
AT = pa.scalar(dt.datetime(2026, 1, 1, tzinfo=dt.UTC), pa.timestamp("us", tz="UTC"))


def rows_of(count: int) -> pa.Table:
    columns = {"id": [f"k{n}" for n in range(count)], "n": list(range(count)), "at": [AT.as_py()] * count}
    return pa.table(columns, schema=COLUMNS)


def written(folder: Path, table: pa.Table, **options: Any) -> Piece:
    path = folder / "rows.parquet"
    pq.write_table(table, path, **options)
    return Piece(str(path), 0, path.stat().st_size)


def found(pieces: list[Piece], columns: pa.Schema = COLUMNS) -> pa.Table:
    return pa.Table.from_batches(read(pieces, columns), columns)


@pytest.fixture(scope="module")
def groups(tmp_path_factory: pytest.TempPathFactory) -> Piece:
    return written(tmp_path_factory.mktemp("groups"), rows_of(ROWS), row_group_size=170)


@given(cuts=st.lists(st.floats(0, 1), max_size=6))
def test_wherever_a_file_is_cut_each_row_is_in_one_piece(groups: Piece, cuts: list[float]) -> None:
    edges = sorted({0, groups.end, *(int(cut * groups.end) for cut in cuts)})
    pieces = [Piece(groups.path, *edge) for edge in itertools.pairwise(edges)]
    assert found(pieces).equals(rows_of(ROWS))


def test_columns_are_found_by_name_in_any_case_and_order_and_a_missing_one_is_null(tmp_path: Path) -> None:
    table = rows_of(3)
    piece = written(tmp_path, pa.table({"N": table["n"], "other": table["n"], "id": table["id"]}))
    assert found([piece]).equals(table.set_column(2, COLUMNS.field("at"), pa.nulls(3, COLUMNS.field("at").type)))


def test_texts_that_the_file_calls_large_are_texts(tmp_path: Path) -> None:
    table = rows_of(3)
    large = table.set_column(0, "id", table["id"].cast(pa.large_string()))
    assert found([written(tmp_path, large)]).equals(table)


def test_batches_of_long_rows_are_small(tmp_path: Path) -> None:
    long = pa.schema([("id", pa.string())])
    piece = written(tmp_path, pa.table({"id": [f"{n:0100000}" for n in range(100)]}), use_dictionary=False)
    batches = list(read([piece], long))
    assert sum(batch.num_rows for batch in batches) == 100
    assert max(batch.num_rows for batch in batches) <= 11


@pytest.mark.parametrize(
    ("table", "options", "why"),
    [
        (rows_of(1), {"use_deprecated_int96_timestamps": True}, r"at is a timestamp\[ns"),
        (pa.table({"n": pa.array([1], pa.int64())}), {}, "n is a int64, the column a int32"),
        (pa.table({"at": pa.array([0], pa.timestamp("us"))}), {}, r"at is a timestamp\[us\], the column"),
        (pa.table({"n": [[1]]}), {}, "n is a list"),
        (pa.table([pa.array(["a"]), pa.array(["b"])], names=["id", "ID"]), {}, "has the column id twice"),
        (rows_of(1).replace_schema_metadata({"org.apache.spark.version": "2.4.8"}), {}, "calendar of Spark 2"),
        (rows_of(1).replace_schema_metadata({"org.apache.spark.legacyDateTime": ""}), {}, "calendar of Spark 2"),
    ],
    ids=["int96", "wider", "no-zone", "list", "twice", "spark-2", "legacy"],
)
def test_what_spark_may_read_otherwise_is_in_doubt(
    tmp_path: Path, table: pa.Table, options: dict[str, Any], why: str
) -> None:
    with pytest.raises(RowsInDoubt, match=why):
        found([written(tmp_path, table, **options)])


@pytest.mark.parametrize("content", [None, b"", b"PAR1 no footer"], ids=["absent", "empty", "damaged"])
def test_a_file_that_cannot_be_read_is_in_doubt(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "rows.parquet"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RowsInDoubt, match=r"rows\.parquet: Arrow cannot read it"):
        found([Piece(str(path), 0, 100)])


def test_a_file_of_a_later_spark_is_read(tmp_path: Path) -> None:
    table = rows_of(2).replace_schema_metadata({"org.apache.spark.version": "3.5.6"})
    assert found([written(tmp_path, table)]).equals(rows_of(2))


def test_types_with_a_second_form_in_parquet_are_not_read() -> None:
    assert unsupported(COLUMNS) is None
    assert unsupported(pa.schema([*COLUMNS, ("l", pa.list_(pa.int32()))])) == pa.list_(pa.int32())
