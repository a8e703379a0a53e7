"""Avro container files: what fastavro writes with each codec comes back by name, and damage is said."""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import struct
import zlib
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from bucketingest.decode.files import avro_containers
from bucketingest.decode.files.avro_containers import AvroReader, opened
from bucketingest.decode.files.parts import BadFile, Part, Piece
from bucketingest.decode.files.reader import FileReader

AT = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
SCHEMA = {
    "type": "record",
    "name": "order",
    "fields": [
        {"name": "ID", "type": "string"},
        {"name": "n", "type": ["null", "int"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
        {"name": "state", "type": {"type": "enum", "name": "state", "symbols": ["new", "paid"]}},
        {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": "string"}}},
        {
            "name": "inner",
            "type": ["null", {"type": "record", "name": "r", "fields": [{"name": "x", "type": "double"}]}],
        },
        {"name": "hash", "type": {"type": "fixed", "name": "hash", "size": 2}},
        {"name": "more", "type": ["string", "long", "state"]},
    ],
}
COLUMNS = pa.schema(
    [
        ("id", pa.string()),
        ("n", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("amount", pa.decimal128(10, 2)),
        ("state", pa.string()),
        ("tags", pa.map_(pa.string(), pa.list_(pa.string()))),
        ("inner", pa.struct([("x", pa.float64())])),
        ("hash", pa.binary()),
        ("absent", pa.string()),
    ]
)


def record(number: int) -> dict[str, Any]:
    return {
        "ID": f"k{number}ä",
        "n": None if number % 3 == 0 else number,
        "at": AT + dt.timedelta(milliseconds=number),
        "amount": Decimal(number).scaleb(-2),
        "state": ["new", "paid"][number % 2],
        "tags": {f"t{at}": ["x"] * at for at in range(number % 3)},
        "inner": None if number % 4 == 0 else {"x": number / 7},
        "hash": bytes([number % 256, 0]),
        "more": ["text", number, "paid"][number % 3],
    }


def row(number: int) -> dict[str, Any]:
    made = record(number)
    del made["more"]
    return {"id": made.pop("ID"), **made, "tags": list(made["tags"].items()), "absent": None}


def written(records: list[dict[str, Any]], codec: str = "null", interval: int = 500) -> bytes:
    sink = io.BytesIO()
    fastavro.writer(sink, SCHEMA, records, codec, interval)
    return sink.getvalue()


def compressed(plain: bytes, codec: str) -> bytes:
    """A container without compression, whose blocks are then compressed as Avro's specification says it."""
    container = opened(pa.BufferReader(plain))
    assert container is not None
    head = plain[: plain.index(container.sync) + 16].replace(b"\x08null", bytes([2 * len(codec)]) + codec.encode())
    for expected, block in container._blocks():
        data = pa.Codec({"snappy": "snappy", "zstandard": "zstd"}[codec]).compress(block, asbytes=True)
        if codec == "snappy":
            data += struct.pack(">I", zlib.crc32(block))
        sink = io.BytesIO()
        for value in (expected, len(data)):
            fastavro.schemaless_writer(sink, "long", value)
        head += sink.getvalue() + data + container.sync
    return head


def parts(content: bytes, columns: pa.Schema = COLUMNS) -> Iterator[Part]:
    reader = FileReader(columns, AvroReader(columns))
    return reader.read(Piece(0, "a.avro", 0, len(content)), lambda _: pa.BufferReader(content))


def rows(content: bytes) -> list[dict[str, Any]]:
    return [each for part in parts(content) for each in part.rows.to_pylist()]


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz", "snappy", "zstandard"])
def test_records_of_each_codec_come_by_name_in_wider_types(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro_containers, "_PART_ROWS", 40)
    records = [record(number) for number in range(100)]
    own = codec in {"snappy", "zstandard"}
    content = compressed(written(records, interval=500), codec) if own else written(records, codec)
    assert rows(content) == [row(number) for number in range(100)]
    assert {column for part in parts(content) for column in part.unknown} == {"more"}


def test_records_that_begin_as_confluents_header_are_records() -> None:
    fields = [{"name": each, "type": ["null", "long"]} for each in ("a", "b", "c", "d", "e", "f")]
    schema = {"type": "record", "name": "r", "fields": [*fields, {"name": "rest", "type": "bytes"}]}
    sink = io.BytesIO()
    head = b"\x00\x00\x02\x02" + b"\x00\x00\x00"  # null, null, 1, then nulls
    values = {"a": None, "b": None, "c": 1, "d": None, "e": None, "f": None}
    inner = {"rest": b"", **dict.fromkeys("abcdef")}
    body = io.BytesIO()
    fastavro.schemaless_writer(body, schema, inner)
    fastavro.writer(sink, schema, [{**values, "rest": body.getvalue()}])
    assert sink.getvalue().find(head) > 0
    columns = pa.schema([("c", pa.int64())])
    assert [part.rows.to_pylist() for part in parts(sink.getvalue(), columns) if part.rows.num_rows] == [[{"c": 1}]]


def test_a_text_that_is_not_utf8_is_a_dead_letter_with_its_record() -> None:
    content = written([record(number) for number in range(4)]).replace("k2ä".encode(), b"k2\xff\xff")
    found = list(parts(content))
    assert [each["id"] for part in found for each in part.rows.to_pylist()] == ["k0ä", "k1ä", "k3ä"]
    (refused,) = [each for part in found for each in part.refused]
    assert refused.place == "record 3"
    assert refused.why.startswith("field ID, byte")
    assert b"k2\xff\xff" in refused.value


def test_a_file_without_a_byte_has_no_rows() -> None:
    assert rows(b"") == []


def test_every_cut_and_many_changed_bytes_are_a_bad_file_or_other_values() -> None:
    content = written([record(number) for number in range(5)], "deflate", 40)
    ends = [content.find(content[-16:], at) + 16 for at in range(len(content))]
    for end in range(1, len(content)):
        if end in ends:  # behind a block: the file is whole, and shorter
            continue
        with pytest.raises(BadFile):
            rows(content[:end])
    header = content.index(content[-16:])
    for at in [*range(0, header, 3), *range(header, len(content))]:
        changed = content[:at] + bytes([content[at] ^ 0x41]) + content[at + 1 :]
        with contextlib.suppress(BadFile):
            rows(changed)


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        (pa.schema([("n", pa.string())]), "column n: the file has INT, the schema STRING; give the column this type"),
        (pa.schema([("at", pa.timestamp("us"))]), "column at: the file has TIMESTAMP, the schema TIMESTAMP_NTZ"),
    ],
)
def test_another_type_is_a_bad_file_with_both(columns: pa.Schema, why: str) -> None:
    with pytest.raises(BadFile, match=why):
        list(parts(written([record(1)]), columns))


def test_a_codec_that_is_not_read_is_named() -> None:
    content = written([record(1)]).replace(b"\x08null", b"\x08lzma")
    with pytest.raises(BadFile, match="the codec lzma is not read; there are bzip2, deflate, null, snappy"):
        rows(content)
