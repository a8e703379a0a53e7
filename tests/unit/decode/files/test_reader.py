"""What is the same for files of all formats: compression by name, values of directories, and damage."""

from __future__ import annotations

import bz2
import gzip
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bucketingest.decode.files import reader as reader_module
from bucketingest.decode.files.csv_rows import CsvReader
from bucketingest.decode.files.json_documents import JsonReader
from bucketingest.decode.files.parquet import ParquetReader
from bucketingest.decode.files.parts import BadFile, Piece, Reader
from bucketingest.decode.files.reader import FileReader
from bucketingest.decode.json.decoder import JsonDecoder
from bucketingest.decode.rows import Decoded

COLUMNS = pa.schema([("id", pa.string()), ("dt", pa.date32()), ("place", pa.string())])
LINE = b'{"id":"a","place":"in the file"}\n'


def rows(content: bytes, path: str) -> list[dict[str, object]]:
    reader = FileReader(COLUMNS, JsonReader(COLUMNS))
    piece = Piece(0, path, 0, len(content))
    return [row for part in reader.read(piece, lambda _: pa.BufferReader(content)) for row in part.rows.to_pylist()]


def packed(codec: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(LINE)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    ("ending", "content"),
    [
        ("gz", gzip.compress(LINE, mtime=0)),
        ("bz2", bz2.compress(LINE)),
        ("zst", packed("zstd")),
        ("lz4", packed("lz4")),
    ],
    ids=["gz", "bz2", "zst", "lz4"],
)
def test_what_is_compressed_is_known_by_its_name_also_in_several_parts(ending: str, content: bytes) -> None:
    assert [row["id"] for row in rows(content * 2, f"x.json.{ending}")] == ["a", "a"]
    with pytest.raises(BadFile, match="is damaged"):
        rows(content[:-5], f"x.json.{ending}")
    with pytest.raises(BadFile, match="is damaged"):
        rows(LINE * 20, f"x.json.{ending}")


def test_a_compression_that_is_not_read_is_refused() -> None:
    with pytest.raises(BadFile, match=r"files with the ending \.snappy are not read; compress it as"):
        rows(LINE, "x.snappy")
    with pytest.raises(BadFile, match=r"files with the ending \.tar\.gz are not read"):
        rows(LINE, "x.tar.gz")


@pytest.mark.parametrize("content", [gzip.compress(LINE, mtime=0), bz2.compress(LINE), packed("zstd"), packed("lz4")])
def test_a_text_that_is_compressed_without_saying_so_is_refused(content: bytes) -> None:
    for reader in (JsonReader(COLUMNS), JsonReader(COLUMNS, is_multi_line=True), CsvReader(COLUMNS)):
        found = FileReader(COLUMNS, reader).read(Piece(0, "x", 0, len(content)), lambda _: pa.BufferReader(content))
        with pytest.raises(BadFile, match="is compressed, and its name does not say so: write it with the ending"):
            list(found)


def test_values_of_directories_are_columns_and_win() -> None:
    (row,) = rows(LINE, "dt=2026-01-02/place=here%2Fthere/a=b/x.json")
    assert (str(row["dt"]), row["place"]) == ("2026-01-02", "here/there")
    (row,) = rows(LINE, "PLACE=__HIVE_DEFAULT_PARTITION__/x.json")
    assert row["place"] is None
    (row,) = rows(LINE, "2026/01/x.json")
    assert (row["dt"], row["place"]) == (None, "in the file")


DATES = pa.schema([("dt", pa.date32())])


@pytest.mark.parametrize(
    ("reader", "content"), [(JsonReader(DATES), LINE), (CsvReader(DATES, has_header=True), b"id\na\n")]
)
def test_a_file_whose_directories_have_every_column_is_refused(reader: Reader, content: bytes) -> None:
    """Arrow's batches without columns have no rows: none of its records would be seen."""
    piece = Piece(0, "dt=2026-01-02/x", 0, len(content))
    with pytest.raises(BadFile, match="its directories have every column of the schema"):
        list(FileReader(DATES, reader).read(piece, lambda _: pa.BufferReader(content)))


def test_columns_that_the_schema_does_not_have_are_said() -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"ID": ["a"], "more": [1], "Dt": ["x"]}), sink)
    content = sink.getvalue().to_pybytes()
    piece = Piece(0, "dt=2026-01-02/x.parquet", 0, len(content))
    reader = FileReader(COLUMNS, ParquetReader(COLUMNS))
    first, second = reader.read(piece, lambda _: pa.BufferReader(content))
    assert (first.unknown, second.unknown) == (("more",), ())
    csv = FileReader(COLUMNS, CsvReader(COLUMNS, has_header=True))
    text = b"id,more,place,dt\na,1,b,2026-01-01\n"
    assert [part.unknown for part in csv.read(Piece(0, "x.csv", 0, len(text)), lambda _: pa.BufferReader(text))] == [
        ("more",)
    ]


def test_documents_of_small_files_are_decoded_together_and_each_is_of_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    decode = JsonDecoder.decode

    def counted(self: JsonDecoder, messages: pa.BinaryArray) -> Decoded:
        calls.append(len(messages))
        return decode(self, messages)

    monkeypatch.setattr(JsonDecoder, "decode", counted)
    paths = [f"place={place}/{n}.json" for place in "xy" for n in range(30)]
    texts = [f'{{"id":"{n}"}}\n{{"id":"{n} more"}}\n'.encode() for n in range(60)]
    texts[7] = b'{"id":"7"}\nno\n{"id":"7 more","size":1}\n'
    texts[8] = b""
    texts[9] = b'\xff\n{"id":"9"}{"id":"9 more"}'
    reader = FileReader(COLUMNS, JsonReader(COLUMNS))
    pieces = [Piece(n, path, 0, len(texts[n])) for n, path in enumerate(paths)]
    found = chain.from_iterable(reader.found(each, lambda each: pa.BufferReader(texts[each.number])) for each in pieces)
    parts = list(reader.decoded(found))
    rows = [(row["id"], row["place"]) for _, part in parts for row in part.rows.to_pylist()]
    assert rows == [(f"{n}{more}", "xy"[n // 30]) for n in range(60) if n != 8 for more in ("", " more")]
    refused = [(piece.number, each.place, each.value) for piece, part in parts for each in part.refused]
    assert refused == [(7, "line 2", b"no"), (9, "line 1", b"\xff")]
    assert [(piece.number, part.unknown) for piece, part in parts if part.unknown] == [(7, ("size",))]
    assert calls == [60, 60]


@pytest.mark.parametrize(("limit", "value"), [("_ROWS", 4), ("_BYTES", 150)])
def test_what_is_decoded_together_is_limited(monkeypatch: pytest.MonkeyPatch, limit: str, value: int) -> None:
    monkeypatch.setattr(reader_module, limit, value)
    texts = [LINE * count for count in (2, 2, 1, 7, 1)]
    pieces = [Piece(n, f"{n}.json", 0, len(text)) for n, text in enumerate(texts)]
    reader = FileReader(COLUMNS, JsonReader(COLUMNS))
    found = chain.from_iterable(reader.found(each, lambda each: pa.BufferReader(texts[each.number])) for each in pieces)
    parts = [(piece.number, part.rows.num_rows) for piece, part in reader.decoded(found)]
    assert parts == [(1, 4), (2, 1), (3, 7), (4, 1)]


def test_a_directory_that_is_no_value_refuses_the_file() -> None:
    with pytest.raises(BadFile, match="the directory dt=today is not a value of the column dt, a DATE"):
        rows(LINE, "dt=today/x.json")
    with pytest.raises(BadFile, match="the directory place=caf%E9 is not UTF-8 behind its percent signs"):
        rows(LINE, "place=caf%E9/x.json")
