"""What a Protobuf message becomes: each type of column, what is absent, and why a message is no row."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from bucketingest.decode.protobuf.compiled import compiled
from bucketingest.decode.protobuf.decoder import ProtobufDecoder
from bucketingest.decode.protobuf.descriptors import descriptor_of, read_message
from bucketingest.decode.protobuf.schema import UnreadableDescriptors
from bucketingest.decode.rows import Decoded

ORDER = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
enum Kind { NONE = 0; NEW = 1; OLD = 2; }
message Order {
  message Line { string sku = 1; int32 count = 2; }
  string id = 1;
  optional int32 n = 2;
  uint64 big = 3;
  Kind kind = 4;
  repeated Line lines = 5;
  map<string, double> prices = 6;
  google.protobuf.Timestamp at = 7;
  google.protobuf.Int64Value maybe = 8;
  oneof paid { string card = 9; int64 cash = 10; }
  repeated sint32 numbers = 11;
  google.protobuf.Duration took = 12;
  bytes raw = 13;
}
"""
DESCRIPTORS = compiled(ORDER, {})
MESSAGE = read_message(DESCRIPTORS, "shop.Order")


def decode(*messages: bytes | None) -> Decoded:
    return ProtobufDecoder(MESSAGE).decode(pa.array(messages, pa.binary()))


def made(**values: Any) -> bytes:
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(descriptor_of(DESCRIPTORS, "shop.Order"))(**values).SerializeToString()


EMPTY: dict[str, Any] = {
    **dict.fromkeys(["id", "n", "big", "kind", "at", "maybe", "card", "cash", "took", "raw"]),
    "lines": [],
    "prices": [],
    "numbers": [],
}


def test_every_type_of_column() -> None:
    at = dt.datetime(2026, 1, 2, 3, 4, 5, 678901, dt.UTC)
    took = dt.timedelta(seconds=-1, microseconds=-5)
    values: dict[str, Any] = {
        "id": "Köln",
        "n": 0,
        "big": 2**64 - 1,
        "kind": 2,
        "lines": [{"sku": "a", "count": 3}, {}],
        "prices": {"x": 1.5},
        "at": at,
        "maybe": {"value": 0},
        "cash": 0,
        "numbers": [-1, 2**31 - 1],
        "took": took,
        "raw": b"\xff",
    }
    decoded = decode(*[made(**values)] * 3)
    assert (decoded.refused, decoded.one_by_one) == ([], 0)
    assert (
        decoded.rows.to_pylist()
        == [
            {
                "id": "Köln",
                "n": 0,
                "big": -1,
                "kind": "OLD",
                "lines": [{"sku": "a", "count": 3}, {"sku": None, "count": None}],
                "prices": [("x", 1.5)],
                "at": at,
                "maybe": {"value": None},
                "card": None,
                "cash": 0,
                "numbers": [-1, 2**31 - 1],
                "took": took,
                "raw": b"\xff",
            }
        ]
        * 3
    )


def test_what_is_absent_is_null_and_so_is_a_default_of_a_field_without_presence() -> None:
    decoded = decode(b"", b"\x0a\x00\x18\x00\x20\x00", b"\x10\x00")
    assert decoded.rows.to_pylist() == [EMPTY, EMPTY, {**EMPTY, "n": 0}]


def test_what_another_serializer_may_write() -> None:
    unpacked, packed = b"\x58\x01\x58\x04", b"\x5a\x02\x01\x04"
    twice = b"\x0a\x01a\x0a\x01b"
    merged = b"\x3a\x02\x08\x05\x3a\x03\x10\xe8\x07"
    unknown = b"\xf8\x07\x01\x0a\x01a"
    of_one = b"\x4a\x01x\x50\x07"
    number = b"\x20\x09"
    entries = b"\x32\x0c\x0a\x01k\x11" + bytes(8) + b"\x32\x0c\x0a\x01k\x11" + bytes(6) + b"\xf0\x3f" + b"\x32\x00"
    decoded = decode(unpacked, packed, twice, merged, unknown, of_one, number, entries)
    assert decoded.refused == []
    assert decoded.rows.to_pylist() == [
        {**EMPTY, "numbers": [-1, 2]},
        {**EMPTY, "numbers": [-1, 2]},
        {**EMPTY, "id": "b"},
        {**EMPTY, "at": dt.datetime(1970, 1, 1, 0, 0, 5, 1, dt.UTC)},
        {**EMPTY, "id": "a"},
        {**EMPTY, "cash": 7},
        {**EMPTY, "kind": "UNKNOWN_ENUM_VALUE_Kind_9"},
        {**EMPTY, "prices": [("k", 1.0), ("", 0.0)]},
    ]


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (None, ""),
        (b"\x0a\x05ab", "field id, byte 2: the message ends within a value of 5 bytes"),
        (b"\x0a\x01\xff", "field id, byte 3: a byte that is not UTF-8"),
        (b"\x08\x01", "field id, byte 1: wire type 0, which a field of type string cannot have"),
        (b"\x10\x80", "field n, byte 2: the message ends within a number"),
        (b"\x10" + b"\x80" * 10 + b"\x01", "field n, byte 2: a number has more than 10 bytes"),
        (b"\x0a\xff\xff\xff\xff\x0f", "field id, byte 2: a length of -1 bytes"),
        (b"\x2a\x03\x0a\x05a", "field lines.sku, byte 4: the message ends within a value of 5 bytes"),
        (b"\x5a\x01\x80", "field numbers, byte 3: the message ends within a number"),
        (b"\x02\x01", "byte 1: a field of number 0"),
        (b"\xfc\x07", "byte 1: wire type 4, which does not belong here"),
        (b"\xfb\x07\x08\x01", "byte 5: the message ends within group 127"),
        (
            b"\x3a\x0a\x08" + b"\xff" * 8 + b"\x7f",
            "field at, byte 13: 9223372036854775807 seconds do not fit into TIMESTAMP",
        ),
        (b"{}", "byte 1: "),
    ],
)
def test_why_a_message_is_no_row(message: bytes | None, why: str) -> None:
    good = made(id="a")
    decoded = decode(good, message, good)
    assert [row["id"] for row in decoded.rows.to_pylist()] == ["a", "a"]
    (refused,) = decoded.refused
    assert refused.number == 1
    assert refused.why == why or (message == b"{}" and refused.why)


PROTO2 = """
syntax = "proto2";
enum Kind { NEW = 1; OLD = 2; }
message Row {
  required string id = 1;
  optional int32 n = 2 [default = 7];
  optional Kind kind = 3 [default = OLD];
  optional int32 m = 4;
}
"""


def test_defaults_required_fields_and_closed_enums_of_proto2() -> None:
    decoder = ProtobufDecoder(read_message(compiled(PROTO2, {}), "Row"))
    messages = [b"\x0a\x01a", b"\x0a\x01b\x10\x00\x18\x01\x20\x00", b"\x10\x01", b"\x0a\x01c\x18\x09"]
    decoded = decoder.decode(pa.array(messages, pa.binary()))
    assert decoded.rows.to_pylist() == [
        {"id": "a", "n": 7, "kind": "OLD", "m": None},
        {"id": "b", "n": 0, "kind": "NEW", "m": 0},
    ]
    assert [each.why for each in decoded.refused] == [
        "field id, byte 3: it is required, and absent",
        "field kind, byte 5: the enum Kind has no number 9",
    ]


def proto(body: str, imports: str = "") -> str:
    return compiled(f'syntax = "proto3"; package p; {imports} {body}', {})


@pytest.mark.parametrize(
    ("descriptors", "why"),
    [
        ("????", "is no descriptor set in Base64"),
        ("", "is a descriptor set without a file"),
        (
            proto("message Row { string id = 1; Tree tree = 2; } message Tree { repeated Tree below = 1; }"),
            "has the message p.Tree inside itself, which would be columns without end",
        ),
        (
            proto("message Row { google.protobuf.Struct s = 1; }", 'import "google/protobuf/struct.proto";'),
            "has the message google.protobuf.Struct inside itself, which would be columns without end",
        ),
        (proto("message Row { string a = 1; string A = 2; }"), "has names in p.Row that differ in case only"),
        (proto("message Other { string a = 1; }"), "has no message p.Row, but p.Other"),
        (proto("message Row {}"), "has the message p.Row without fields"),
        (
            compiled(
                'syntax = "proto2"; package p; message Row { optional group G = 1 { optional int32 a = 2; } }', {}
            ),
            "has the group p.Row.g, which is not decoded here",
        ),
    ],
)
def test_what_gives_no_columns_is_refused(descriptors: str, why: str) -> None:
    with pytest.raises(UnreadableDescriptors) as refused:
        read_message(descriptors, "p.Row")
    assert str(refused.value) == why


def test_messages_without_fields_are_left_out_as_by_spark() -> None:
    fields = "string id = 1; Nothing a = 2; repeated Nothing b = 3; map<string, Nothing> c = 4;"
    text = proto(f"message Nothing {{}} message Row {{ {fields} }}")
    decoder = ProtobufDecoder(read_message(text, "p.Row"))
    decoded = decoder.decode(pa.array([b"\x0a\x01a\x12\x00\x1a\x00"], pa.binary()))
    assert decoded.rows.to_pylist() == [{"id": "a"}]


def test_a_file_that_is_imported_and_is_not_in_the_set_is_named() -> None:
    import base64

    from google.protobuf import descriptor_pb2

    files = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(DESCRIPTORS))
    lonely = descriptor_pb2.FileDescriptorSet(file=[files.file[-1]])
    with pytest.raises(UnreadableDescriptors, match="do not fit together, as without --include_imports"):
        read_message(base64.b64encode(lonely.SerializeToString()).decode(), "shop.Order")
