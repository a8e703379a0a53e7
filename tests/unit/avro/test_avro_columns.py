"""Columns are read from many rows at once; rows that cannot be read are an error, or are remembered and passed over."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bucketingest.avro.columns import read_record
from bucketingest.avro.cursors import Cursors, DoubtingCursors, NotVectorised, padded


def cursors_of(rows: list[bytes], kind: type[Cursors] = DoubtingCursors) -> Any:
    ends = np.cumsum([len(row) for row in rows])
    data = padded(np.frombuffer(b"".join(rows), np.uint8), 0, int(ends[-1]))
    return kind(data, ends - [len(row) for row in rows], ends)


def column(rows: list[bytes], avro: Any, kind: pa.DataType) -> tuple[pa.Array, list[int]]:
    """The column, and the rows that are doubted."""
    cursors = cursors_of(rows)
    batch = read_record(cursors, [{"name": "x", "type": avro}], pa.schema([("x", kind)]))
    return batch.column("x"), np.flatnonzero(cursors.doubted).tolist()


@pytest.mark.parametrize("digits", [1, 2, 9, 10, 17, 18, 19, 20, 28, 37, 38])
def test_decimals_end_at_their_digits(digits: int) -> None:
    most = 10**digits - 1
    numbers = [0, 1, -1, most, -most, most + 1, -most - 1, 127, -128, 2**63 - 1, -(2**63), 2**64, 2**127 - 1, -(2**127)]
    sizes = [size for number in numbers for size in ((number.bit_length() + 8) // 8, 16)]
    twice = [number for number in numbers for _ in range(2)]
    rows = [
        bytes([2 * size]) + number.to_bytes(size, "big", signed=True) for number, size in zip(twice, sizes, strict=True)
    ]
    avro = {"type": "bytes", "logicalType": "decimal", "precision": digits}
    found, doubted = column(rows, avro, pa.decimal128(digits, 0))
    assert doubted == [at for at, number in enumerate(twice) if abs(number) > most]
    kept = [at for at in range(len(rows)) if at not in doubted]
    assert found.take(pa.array(kept)).to_pylist() == [Decimal(twice[at]) for at in kept]


def test_decimals_of_no_bytes_and_of_more_than_16_are_left() -> None:
    avro = {"type": "bytes", "logicalType": "decimal", "precision": 5}
    rows = [b"\x02\x07", b"\x00", b"\x22" + bytes(16) + b"\x01", b"\x02\x08"]
    found, doubted = column(rows, avro, pa.decimal128(5, 0))
    assert doubted == [1, 2]
    assert [found[0].as_py(), found[3].as_py()] == [7, 8]
    with pytest.raises(NotVectorised):
        read_record(cursors_of(rows, Cursors), [{"name": "x", "type": avro}], pa.schema([("x", pa.decimal128(5, 0))]))


BAD: dict[str, tuple[Any, pa.DataType, bytes, bytes, Any]] = {
    "a string that is too long": ("string", pa.string(), b"\x02a", b"\x7ea", "a"),
    "a string of negative length": ("string", pa.string(), b"\x02a", b"\x03a", "a"),
    "a length near 64 bits": ("string", pa.string(), b"\x02a", b"\xfe" + b"\xff" * 8 + b"\x01", "a"),
    "text that is not UTF-8": ("string", pa.string(), "\x04ä".encode(), b"\x04\xc3\x28", "ä"),
    "an int of six bytes": ("int", pa.int32(), b"\x80\x01", b"\x82\x80\x80\x80\x80\x00", 64),
    "an int of 33 bits": ("int", pa.int32(), b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x20", -(2**31)),
    "a long of 65 bits": ("long", pa.int64(), b"\xff" * 9 + b"\x01", b"\xff" * 9 + b"\x02", -(2**63)),
    "a branch that is not there": (["null", "int"], pa.int32(), b"\x02\x04", b"\x04\x04", 2),
    "a symbol that is not there": ({"type": "enum", "symbols": ["A"]}, pa.string(), b"\x00", b"\x02", "A"),
    "half a double": ("double", pa.float64(), bytes(8), bytes(4), 0.0),
    "half a fixed": ({"type": "fixed", "size": 4}, pa.binary(), b"abcd", b"ab", b"abcd"),
    "a map with the same key twice": (
        {"type": "map", "values": "int"},
        pa.map_(pa.string(), pa.int32()),
        b"\x04\x02a\x02\x02b\x04\x00",
        b"\x04\x02a\x02\x02a\x04\x00",
        [("a", 1), ("b", 2)],
    ),
    "an array without an end": (
        {"type": "array", "items": "int"},
        pa.list_(pa.int32()),
        b"\x02\x08\x00",
        b"\x02\x08",
        [4],
    ),
    "an array of 2**63 items": (
        {"type": "array", "items": "int"},
        pa.list_(pa.int32()),
        b"\x02\x08\x00",
        b"\xff" * 9 + b"\x01\x00\x00",
        [4],
    ),
    "a time beyond 64 bits": (
        {"type": "long", "logicalType": "local-timestamp-millis"},
        pa.timestamp("us"),
        b"\x00",
        b"\xff" * 8 + b"\x01",
        dt.datetime(1970, 1, 1),  # noqa: DTZ001 - it has no zone
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_a_doubted_row_does_not_disturb_its_neighbours(what: str) -> None:
    avro, kind, good, bad, value = BAD[what]
    rows = [good, bad, good, good, bad]
    found, doubted = column(rows, avro, kind)
    assert doubted == [1, 4]
    assert [found[at].as_py() for at in (0, 2, 3)] == [value] * 3
    with pytest.raises((ValueError, NotVectorised)):
        read_record(cursors_of(rows, Cursors), [{"name": "x", "type": avro}], pa.schema([("x", kind)]))


def test_columns_that_are_not_wanted_are_passed() -> None:
    skipped = ["string", "bytes", "float", "double", "boolean", "int", "long", {"type": "fixed", "size": 3}]
    values = b"\x02a" + b"\x04ab" + bytes(4) + bytes(8) + b"\x01" + b"\x90\x01" + b"\x90\x01" + b"abc"
    items = {"type": "array", "items": {"type": "map", "values": ["null", "long"]}}
    nested = {"type": "record", "fields": [{"name": "y", "type": items}, {"name": "z", "type": ["int", "null"]}]}
    values += b"\x02" + b"\x04\x02a\x00\x02b\x02\x0a\x00" + b"\x00" + b"\x02"
    fields = [{"name": f"s{at}", "type": kind} for at, kind in enumerate([*skipped, nested])]
    row = values + b"\x0e"
    cursors = cursors_of([row, row[:-5], row])
    found = read_record(cursors, [*fields, {"name": "x", "type": "int"}], pa.schema([("x", pa.int32())]))
    assert cursors.doubted.tolist() == [False, True, False]
    assert [found.column("x")[at].as_py() for at in (0, 2)] == [7, 7]
