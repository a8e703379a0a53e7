"""Parquet files: each row once, types widened and never narrowed, and what cannot be read said with names."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import os
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.decode.files.formats import columns_of
from bucketingest.decode.files.parquet import ParquetReader
from bucketingest.decode.files.parts import BadFile, NoRow, Part, Piece
from bucketingest.decode.files.reader import damaged

COLUMNS = pa.schema([("id", pa.string()), ("n", pa.int32()), ("at", pa.timestamp("us", tz="UTC"))])
ROWS = 3000
AT = pa.scalar(dt.datetime(2026, 1, 1, tzinfo=dt.UTC), pa.timestamp("us", tz="UTC"))


def rows_of(count: int) -> pa.Table:
    columns = {"id": [f"k{n}" for n in range(count)], "n": list(range(count)), "at": [AT.as_py()] * count}
    return pa.table(columns, schema=COLUMNS)


def written(folder: Path, table: pa.Table, **options: Any) -> Piece:
    path = folder / "rows.parquet"
    pq.write_table(table, path, **options)
    return Piece(0, str(path), 0, path.stat().st_size)


def parts(piece: Piece, columns: pa.Schema = COLUMNS) -> list[Part]:
    with pa.OSFile(piece.path, "rb") as file:
        return list(ParquetReader(columns).read(file, piece))


def found(pieces: list[Piece], columns: pa.Schema = COLUMNS) -> pa.Table:
    return pa.Table.from_batches([part.rows for piece in pieces for part in parts(piece, columns)], columns)


@pytest.fixture(scope="module")
def groups(tmp_path_factory: pytest.TempPathFactory) -> Piece:
    return written(tmp_path_factory.mktemp("groups"), rows_of(ROWS), row_group_size=170)


@given(cuts=st.lists(st.floats(0, 1), max_size=6))
def test_wherever_a_file_is_cut_each_row_is_in_one_piece(groups: Piece, cuts: list[float]) -> None:
    edges = sorted({0, groups.end, *(int(cut * groups.end) for cut in cuts)})
    pieces = [Piece(0, groups.path, *edge, is_whole=False) for edge in itertools.pairwise(edges)]
    assert found(pieces).equals(rows_of(ROWS))


def test_columns_are_found_by_name_in_any_case_and_order_and_a_missing_one_is_null(tmp_path: Path) -> None:
    table = rows_of(3)
    piece = written(tmp_path, pa.table({"N": table["n"], "other": table["n"], "id": table["id"]}))
    assert found([piece]).equals(table.set_column(2, COLUMNS.field("at"), pa.nulls(3, COLUMNS.field("at").type)))


def test_texts_that_the_file_calls_large_are_texts(tmp_path: Path) -> None:
    table = rows_of(3)
    large = table.set_column(0, "id", table["id"].cast(pa.large_string()))
    assert found([written(tmp_path, large)]).equals(table)


@pytest.mark.parametrize("values", [100, 1], ids=["differ", "come again"])
def test_batches_of_long_rows_are_small(tmp_path: Path, values: int) -> None:
    long = pa.schema([("id", pa.string())])
    piece = written(tmp_path, pa.table({"id": [f"{n % values:0100000}" for n in range(100)]}))
    batches = [part.rows for part in parts(piece, long)]
    assert sum(batch.num_rows for batch in batches) == 100
    assert max(batch.num_rows for batch in batches) <= 11


def test_types_are_widened_where_every_value_stays_itself(tmp_path: Path) -> None:
    file = pa.table(
        {
            "small": pa.array([1, -2], pa.int8()),
            "unsigned": pa.array([2**32 - 1, 0], pa.uint32()),
            "real": pa.array([1.5, None], pa.float32()),
            "price": pa.array([decimal.Decimal("1.5"), None], pa.decimal128(4, 1)),
            "bare": pa.array([0, 1], pa.timestamp("ms")),
            "nanos": pa.array([1_999, -1], pa.timestamp("ns", "UTC")),
            "items": pa.array([[{"n": 1, "more": "x"}], None]),
        }
    )
    columns = pa.schema(
        [
            ("small", pa.int64()),
            ("unsigned", pa.int64()),
            ("real", pa.float64()),
            ("price", pa.decimal128(10, 2)),
            ("bare", pa.timestamp("us", "UTC")),
            ("nanos", pa.timestamp("us", "UTC")),
            ("items", pa.list_(pa.struct([("n", pa.int64())]))),
        ]
    )
    rows = found([written(tmp_path, file)], columns)
    assert rows.drop_columns(["bare", "nanos"]).to_pylist() == [
        {"small": 1, "unsigned": 2**32 - 1, "real": 1.5, "price": decimal.Decimal("1.50"), "items": [{"n": 1}]},
        {"small": -2, "unsigned": 0, "real": None, "price": None, "items": None},
    ]
    assert rows["bare"].cast(pa.int64()).to_pylist() == [0, 1000]
    assert rows["nanos"].cast(pa.int64()).to_pylist() == [1, -1], (
        "what is finer than a microsecond is cut off downwards"
    )


def test_int96_has_every_year(tmp_path: Path) -> None:
    at = pa.table({"at": pa.array([-62_135_596_800_000_000, 253_402_300_799_999_999], pa.timestamp("us", "UTC"))})
    piece = written(tmp_path, at, use_deprecated_int96_timestamps=True)
    assert found([piece], at.schema).equals(at)


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (pa.table({"n": pa.array([1], pa.int64())}), "column n: the file has BIGINT, the schema INT"),
        (pa.table({"n": ["1"]}), "column n: the file has STRING, the schema INT"),
        (pa.table({"n": [[1]]}), "column n: the file has ARRAY<BIGINT>, the schema INT"),
        (pa.table([pa.array(["a"]), pa.array(["b"])], names=["iD", "ID"]), "column id: the file has it 2 times"),
    ],
    ids=["wider", "text", "list", "twice"],
)
def test_a_column_that_cannot_be_read_is_named_with_both_types(tmp_path: Path, table: pa.Table, why: str) -> None:
    with pytest.raises(BadFile, match=why):
        found([written(tmp_path, table)])


@pytest.mark.parametrize("key", ["org.apache.spark.version", "org.apache.spark.legacyDateTime"])
def test_the_calendar_of_spark_2_matters_before_1900_only(tmp_path: Path, key: str) -> None:
    old = {key: "2.4.8"}
    assert found([written(tmp_path, rows_of(2).replace_schema_metadata(old))]).equals(rows_of(2))
    early = rows_of(1).set_column(2, "at", pa.array([-3_000_000_000_000_000], COLUMNS.field("at").type))
    with pytest.raises(BadFile, match="column at: written with the calendar of Spark 2, and has times before 1900"):
        found([written(tmp_path, early.replace_schema_metadata(old))])
    at, time = early["at"][0].as_py(), early.field("at").type
    for value, kind in [
        ({"at": at}, pa.struct([("at", time)])),
        ([("x", at)], pa.map_(pa.string(), time)),
        ([at], pa.list_(time)),
    ]:
        inside = pa.table({"n": pa.array([value], kind)})
        with pytest.raises(BadFile, match="column n: written with the calendar of Spark 2"):
            found([written(tmp_path, inside.replace_schema_metadata(old))], inside.schema)


@pytest.mark.parametrize("content", [b"PAR1 no footer", b"PAR1"], ids=["damaged", "short"])
def test_a_file_that_is_no_parquet_is_bad(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "rows.parquet"
    path.write_bytes(content)
    with pytest.raises(BadFile, match="is no Parquet file"):
        found([Piece(0, str(path), 0, len(content))])


def test_a_file_without_a_byte_has_no_rows(tmp_path: Path) -> None:
    (tmp_path / "rows.parquet").touch()
    assert not found([Piece(0, str(tmp_path / "rows.parquet"), 0, 0)]).num_rows


def test_a_file_of_a_later_spark_is_read(tmp_path: Path) -> None:
    table = rows_of(2).replace_schema_metadata({"org.apache.spark.version": "3.5.6"})
    assert found([written(tmp_path, table)]).equals(rows_of(2))


def test_text_that_is_not_utf8_is_no_row_and_the_others_are(tmp_path: Path) -> None:
    """A reader of the table would not be able to read any row of its file group."""
    raw = pa.array([b"a", b"caf\xe9", None, b"c\xff"]).buffers()
    table = pa.table({"id": pa.Array.from_buffers(pa.string(), 4, raw), "n": pa.array([0, 1, 2, 3], pa.int32())})
    (part,) = parts(written(tmp_path, table))
    assert part.rows["n"].to_pylist() == [0, 2]
    assert part.refused == [
        NoRow("row 2, column id", "a byte that is not UTF-8", b"caf\xe9"),
        NoRow("row 4, column id", "a byte that is not UTF-8", b"c\xff"),
    ]


def test_text_inside_a_value_is_looked_at_too(tmp_path: Path) -> None:
    bad = pa.Array.from_buffers(pa.string(), 2, pa.array([b"a", b"\xff"]).buffers())
    table = pa.table({"id": ["1", "2"], "tags": pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), bad)})
    columns = pa.schema([("id", pa.string()), ("tags", pa.list_(pa.string()))])
    (part,) = parts(written(tmp_path, table), columns)
    assert part.rows.to_pylist() == [{"id": "1", "tags": ["a"]}]
    assert [each.place for each in part.refused] == ["row 2, column tags"]


def test_a_file_shows_its_columns_and_those_of_its_directories(tmp_path: Path) -> None:
    table = pa.table({"id": ["a"], "n": pa.array([1], pa.uint16()), "at": pa.array([0], pa.timestamp("ns"))})
    piece = written(tmp_path, table)
    with pa.OSFile(piece.path, "rb") as file:
        found_columns = columns_of(file, "dt=2026-01-01/id=x/rows.parquet", "parquet")
    assert found_columns == pa.schema(
        [("id", pa.string()), ("n", pa.int32()), ("at", pa.timestamp("us")), ("dt", pa.string())]
    )


def test_of_two_columns_whose_names_differ_in_case_the_other_one_is_not_read_and_is_named(tmp_path: Path) -> None:
    piece = written(tmp_path, pa.table([pa.array(["a"]), pa.array(["b"])], names=["id", "ID"]))
    named, read = parts(piece)
    assert (named.unknown, read.rows["id"].to_pylist()) == (("ID",), ["a"])


def test_a_file_that_is_compressed_as_a_whole_is_bad(tmp_path: Path) -> None:
    piece = written(tmp_path, rows_of(1))
    with pytest.raises(BadFile, match="is compressed as a whole"):
        list(ParquetReader(COLUMNS).read(pa.CompressedInputStream(pa.OSFile(piece.path, "rb"), "gzip"), piece))


def test_pieces_of_a_file_with_a_damaged_footer_are_bad_and_end_no_process(tmp_path: Path) -> None:
    """PyArrow 26.0.1 ends the process if it is asked for a column of such a footer: no file would be named."""
    content = bytearray(Path(written(tmp_path, rows_of(90), row_group_size=9).path).read_bytes())
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    chosen = random.Random(1)
    child = os.fork()
    if child == 0:
        for _ in range(1000):
            damaged_one = content.copy()
            for _ in range(chosen.randrange(1, 4)):
                damaged_one[chosen.randrange(footer, len(content) - 8)] = chosen.randrange(256)
            for piece in (Piece(0, "a", 0, 1000, is_whole=False), Piece(0, "a", 1000, len(content), is_whole=False)):
                with suppress(Exception):
                    list(ParquetReader(COLUMNS).read(pa.BufferReader(bytes(damaged_one)), piece))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("dictionary", [True, False])
def test_a_page_that_has_another_checksum_than_its_own_makes_a_bad_file(tmp_path: Path, *, dictionary: bool) -> None:
    options = {"compression": "none", "use_dictionary": dictionary, "write_page_checksum": True}
    piece = written(tmp_path, rows_of(90), **options)
    path = Path(piece.path)
    path.write_bytes(path.read_bytes().replace(b"k17", b"k71", 1))
    with pytest.raises(BadFile, match="CRC checksum"), damaged():
        parts(piece)
