"""Columns of a message's key, place, time and headers: each row has those of its own message."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bucketingest.decode.kafka.columns import ClashingColumns, MessageColumns
from bucketingest.decode.kafka.message import MESSAGE
from bucketingest.decode.rows import Decoded, Refused

ALL = MessageColumns(
    {
        "topic": "t",
        "partition": "p",
        "offset": "o",
        "timestamp": "at",
        "key": "k",
        "keyBytes": "kb",
        "headers": "h",
    }
)


def block(*keys: bytes | None) -> pa.RecordBatch:
    rows: list[dict[str, Any]] = [
        {"key": key, "value": b"", "topic": "x", "partition": 3, "offset": at, "timestamp": at * 1000, "headers": None}
        for at, key in enumerate(keys)
    ]
    rows[0]["headers"] = [{"key": "a", "value": None}]
    columns = [pa.array([row[field.name] for row in rows], field.type) for field in MESSAGE]
    return pa.RecordBatch.from_arrays(columns, schema=MESSAGE)


def decoded(*numbers: int, refused: tuple[int, ...] = ()) -> Decoded:
    rows = pa.RecordBatch.from_pydict({"n": pa.array(numbers, pa.int64())})
    return Decoded(rows, [Refused(number, "bad") for number in refused], 0)


def test_each_row_has_what_its_own_message_has() -> None:
    columns = pickle.loads(pickle.dumps(ALL))
    found = columns.added_to(decoded(0, 2, refused=(1,)), block(b"a", b"b", None))
    assert found.rows.schema == pa.schema([("n", pa.int64()), *ALL.fields])
    first, second = found.rows.to_pylist()
    assert (first["n"], first["o"], first["k"], first["kb"], first["t"], first["p"]) == (0, 0, "a", b"a", "x", 3)
    assert first["h"] == [{"key": "a", "value": None}]
    assert (second["n"], second["o"], second["k"], second["kb"], second["h"]) == (2, 2, None, None, None)
    assert second["at"].microsecond == 2000
    assert found.refused == [Refused(1, "bad")]


def test_messages_of_several_rows_or_none_keep_theirs() -> None:
    given = decoded(0, 0, 2)
    given = Decoded(given.rows, [], 0, np.array([0, 0, 2]))
    assert MessageColumns({"offset": "o"}).added_to(given, block(b"", b"", b"")).rows["o"].to_pylist() == [0, 0, 2]


def test_a_key_that_is_no_text_is_refused_where_it_is_wanted_as_text() -> None:
    messages = block(b"\xff", b"\xfe", "\u00e4".encode(), None)
    found = ALL.added_to(decoded(0, 2, 3, refused=(1,)), messages)
    assert found.refused == [Refused(0, "the key is not UTF-8 text"), Refused(1, "bad")]
    assert found.rows["k"].to_pylist() == ["\u00e4", None]
    as_bytes = MessageColumns({"keyBytes": "k"}).added_to(decoded(0, 1, 2, 3), messages)
    assert not as_bytes.refused
    assert as_bytes.rows["k"].to_pylist() == [b"\xff", b"\xfe", "\u00e4".encode(), None]


def test_a_timestamp_of_another_time_zone_is_the_same_moment() -> None:
    messages = block(b"")
    there = messages.column("timestamp").cast(pa.timestamp("us", "Asia/Tokyo"))
    messages = messages.set_column(MESSAGE.get_field_index("timestamp"), "timestamp", there)
    found = MessageColumns({"timestamp": "at"}).added_to(decoded(0), messages)
    assert found.rows["at"].type == pa.timestamp("us", "UTC")
    assert found.rows["at"].cast(pa.int64()).to_pylist() == [0]


def test_only_what_is_named_is_asked_for() -> None:
    assert MessageColumns().needs == ()
    given = decoded(0)
    assert MessageColumns().added_to(given, block(b"")) is given
    assert MessageColumns({"key": "a", "keyBytes": "b", "offset": "c"}).needs == ("key", "offset")


def test_a_name_that_the_value_has_too_is_refused_whatever_its_case() -> None:
    value = pa.schema([("id", pa.string()), ("Offset", pa.int64())])
    with pytest.raises(ClashingColumns, match=r"^has a column offset, and source.kafka.columns.offset is offset: name"):
        MessageColumns({"offset": "offset"}).behind(value)
    assert MessageColumns({"offset": "_offset"}).behind(value).names == ["id", "Offset", "_offset"]
