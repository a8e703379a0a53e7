"""Protobuf messages in Confluent's wire format: the id names a schema, the indexes one of its messages."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bucketingest.decode.message_columns import columns_of as columns_of_format
from bucketingest.decode.protobuf.columns import columns_of
from bucketingest.decode.protobuf.compiled import CompilerFailed, Uncompilable, compiled, message_names
from bucketingest.decode.protobuf.descriptors import read_message
from bucketingest.decode.protobuf.registered import RegisteredProtobufDecoder
from bucketingest.decode.registered.subjects import registry_client, with_readers_schema, writer_schema
from bucketingest.decode.registered.wire_format import WriterSchema
from bucketingest.exit_codes import ExitCode
from bucketingest.registry.client import RegisteredSchema
from bucketingest.registry.errors import UnusableSchema
from bucketingest.registry.lookups import Patience
from bucketingest.spec.model import BucketIngest
from support.jobs.stream_runs import Lake
from support.registry.http_registry import HttpRegistry, http_registry

OLD = """syntax = "proto3"; package shop;
message Order { string id = 1; message Line { string sku = 1; } }
"""
NEW = """syntax = "proto3"; package shop;
message Other { string x = 1; message Inner { string y = 1; } }
message Order { message Line { string sku = 1; } string id = 1; int32 n = 2; }
"""
BASE = 'syntax = "proto3"; package base; message Money { int64 cents = 1; }'
WITH_IMPORT = """syntax = "proto3"; package shop; import "base/money.proto"; import "google/protobuf/timestamp.proto";
message Order { string id = 1; base.Money paid = 2; google.protobuf.Timestamp at = 3; }
"""


def header(schema_id: int, indexes: bytes = b"\x00") -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + indexes


@pytest.fixture(scope="module")
def decoder() -> RegisteredProtobufDecoder:
    message = read_message(compiled(NEW, {}), "shop.Order")
    writers = {7: WriterSchema(compiled(OLD, {})), 8: WriterSchema(compiled(NEW, {}))}
    found = RegisteredProtobufDecoder(message, columns_of(message), {}).knowing(writers)
    return pickle.loads(pickle.dumps(found))


def test_messages_of_several_schemas_are_read_as_the_tables(decoder: RegisteredProtobufDecoder) -> None:
    def message(number: int) -> bytes:
        field = b"\x0a" + bytes([len(str(number))]) + str(number).encode()
        return header(7) + field if number % 3 else header(8, b"\x02\x02") + field + b"\x10\x05"

    decoded = decoder.decode(pa.array([message(n) for n in range(1000)], pa.binary()))
    assert (decoded.refused, decoded.one_by_one) == ([], 0)
    assert decoded.rows.to_pylist() == [{"id": f"{n}", "n": None if n % 3 else 5} for n in range(1000)]


def test_another_message_of_the_schema_is_none_of_the_table(decoder: RegisteredProtobufDecoder) -> None:
    good = header(8, b"\x02\x02") + b"\x0a\x01a"
    messages = [
        good,
        header(8) + b"\x0a\x01a",
        header(8, b"\x04\x02\x00") + b"\x0a\x01a",
        header(8, b"\x02\x04"),
        header(8, b"\x01"),
        header(8, b""),
        header(8, b"\x04\x02"),
        good[:-1],
        header(7, b"\x02\x00") + b"\x0a\x01b",
    ]
    decoded = decoder.decode(pa.array(messages, pa.binary()))
    assert [row["id"] for row in decoded.rows.to_pylist()] == ["a", "b"]
    assert {each.number: each.why for each in decoded.refused} == {
        1: "schema 8, byte 6: it is a shop.Other, not a shop.Order",
        2: "schema 8, byte 6: it is a shop.Order.Line, not a shop.Order",
        3: "schema 8, byte 6: the schema has no message with the indexes 2",
        4: "schema 8, byte 6: it has no indexes of a message",
        5: "schema 8, byte 6: it has no indexes of a message",
        6: "schema 8, byte 6: it has no indexes of a message",
        7: "schema 8, field id, byte 9: the message ends within a value of 1 bytes",
    }


def test_references_are_imported_under_their_names() -> None:
    found = RegisteredSchema(WITH_IMPORT, "PROTOBUF", (BASE,), ("base/money.proto",))
    assert message_names(writer_schema(found, "PROTOBUF").text) == {"0": "shop.Order"}
    assert writer_schema(RegisteredSchema(WITH_IMPORT, "PROTOBUF"), "PROTOBUF").why_not.startswith(
        "cannot be read: base/money.proto: File not found."
    )
    with pytest.raises(Uncompilable, match="no name of a file"):
        compiled(WITH_IMPORT, {"../base.proto": BASE})
    with pytest.raises(Uncompilable, match="no text"):
        compiled("\ud800", {})
    with pytest.raises(Uncompilable, match=r"^line 1:1: Expected top-level statement"):
        compiled("{}", {})


def test_a_compiler_that_fails_by_itself_makes_no_dead_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bucketingest.decode.protobuf.compiled.sys.executable", "/bin/false")
    with pytest.raises(CompilerFailed, match="ends with 1 and does not say what is wrong") as failed:
        writer_schema(RegisteredSchema(f"{OLD} // other", "PROTOBUF"), "PROTOBUF")
    assert failed.value.exit_code is ExitCode.SOURCE_UNAVAILABLE


@pytest.fixture
def registry() -> Iterator[HttpRegistry]:
    with http_registry() as found:
        yield found


def fixed(registry: HttpRegistry, /, **format_: Any) -> BucketIngest:
    kafka = {"kafka": {"bootstrapServers": "kafka:9092", "topics": ["orders"]}}
    spec = {"type": "protobuf", "registry": {"url": registry.url}, **format_}
    given = Lake(Path("/lake")).resource(kafka, table={"recordKey": ["id"]}, format=spec)
    assert given.spec.format is not None
    assert given.spec.format.registry is not None
    return with_readers_schema(given, registry_client(given.spec.format.registry), Patience(seconds=0))


def test_the_columns_are_the_newest_schemas(registry: HttpRegistry) -> None:
    registry.register("money", BASE, schemaType="PROTOBUF")
    references = [{"name": "base/money.proto", "subject": "money", "version": 1}]
    registry.register("orders-value", WITH_IMPORT, schemaType="PROTOBUF", references=references)
    found = fixed(registry).spec.format
    assert found is not None
    paid = pa.struct([("cents", pa.int64())])
    kinds = [("id", pa.string()), ("paid", paid), ("at", pa.timestamp("us", "UTC"))]
    assert (found.message_name, columns_of_format(found)) == ("shop.Order", pa.schema(kinds))
    registry.register("orders-value", NEW, schemaType="PROTOBUF")
    named = fixed(registry, messageName="shop.Order").spec.format
    assert named is not None
    assert named.message_name == "shop.Order"
    registry.register("orders-value", "{}")
    assert fixed(registry, messageName="shop.Order").spec.format == named, "a start passes over it"
    registry.register("other", "{}")
    with pytest.raises(UnusableSchema, match="is AVRO, not PROTOBUF"):
        fixed(registry, registry={"url": registry.url, "subject": "other"})
