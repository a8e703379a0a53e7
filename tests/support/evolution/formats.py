"""Versions of a chain in the terms of a message format: their schemas, messages of them, and what decodes these."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol
from unittest.mock import patch

import grpc_tools
import pyarrow as pa
from google.protobuf import message_factory
from grpc_tools import protoc

from bucketingest.decode.avro.column_types import columns_of
from bucketingest.decode.avro.growth import lenient
from bucketingest.decode.avro.registered import RegisteredAvroDecoder
from bucketingest.decode.avro.schema import read_reader
from bucketingest.decode.json.as_avro import columns_text as columns_of_json
from bucketingest.decode.json.as_avro import with_references
from bucketingest.decode.json.registered import RegisteredJsonDecoder
from bucketingest.decode.protobuf.compiled import compiled
from bucketingest.decode.protobuf.descriptors import descriptor_of
from bucketingest.decode.protobuf.registered import RegisteredProtobufDecoder
from bucketingest.decode.protobuf.registered import columns_text as columns_of_protobuf
from bucketingest.decode.registered.wire_format import RegisteredDecoder, WriterSchema
from support.decoding.registered_avro import encoded
from support.evolution.chains import NAMES, SYMBOLS, Field, FormatName, Mode

Version = Sequence[Field]


class MessageFormat(Protocol):
    """One of them."""

    name: ClassVar[FormatName]

    def registered(self, version: Version, mode: Mode = "NONE", gone: Collection[str] = ()) -> str:
        """Of a version, as a producer registers it in a subject with the mode. `gone`: names of fields of before."""

    def text(self, version: Version) -> str:
        """Of a version, as the driver sends it to tasks."""

    def reader(self, version: Version) -> str:
        """The schema of the columns of a version, as a start makes it."""

    def message(self, version: Version, row: Mapping[str, Any], schema_id: int) -> bytes:
        """A message in Confluent's wire format."""

    def decoder(self, reader: str, writers: Mapping[int, WriterSchema]) -> RegisteredDecoder:
        """What decodes messages to the columns of a reader's schema."""


class Avro:
    name: ClassVar[FormatName] = "avro"

    def registered(self, version: Version, mode: Mode = "NONE", gone: Collection[str] = ()) -> str:
        return json.dumps(avro_schema(version))

    def text(self, version: Version) -> str:
        return self.registered(version)

    def reader(self, version: Version) -> str:
        return lenient(self.text(version))

    def message(self, version: Version, row: Mapping[str, Any], schema_id: int) -> bytes:
        return encoded(avro_schema(version), dict(row), schema_id)

    def decoder(self, reader: str, writers: Mapping[int, WriterSchema]) -> RegisteredDecoder:
        return RegisteredAvroDecoder(reader, _columns(reader), writers)


def avro_schema(version: Version) -> dict[str, Any]:
    fields = [{"name": "id", "type": "string"}, *(each.avro() for each in version)]
    return {"type": "record", "name": "Order", "fields": fields}


class Json:
    name: ClassVar[FormatName] = "json"

    def registered(self, version: Version, mode: Mode = "NONE", gone: Collection[str] = ()) -> str:
        """A registry takes further properties if the old schema has no others, or if only the new one is to be read."""
        is_closed = mode.startswith("BACKWARD")
        properties = {"id": {"type": "string"}, **{each.name: _json_type(each, is_closed) for each in version}}
        return json.dumps(_json_object(properties, is_closed))

    def text(self, version: Version) -> str:
        return with_references(self.registered(version), {})

    def reader(self, version: Version) -> str:
        return lenient(columns_of_json(self.text(version)))

    def message(self, version: Version, row: Mapping[str, Any], schema_id: int) -> bytes:
        assert row.keys() == {"id", *(each.name for each in version)}
        return b"\0" + schema_id.to_bytes(4, "big") + json.dumps(row).encode()

    def decoder(self, reader: str, writers: Mapping[int, WriterSchema]) -> RegisteredDecoder:
        return RegisteredJsonDecoder(_columns(reader), writers, 0, reader)


def _json_object(properties: dict[str, Any], is_closed: bool) -> dict[str, Any]:
    closed = {"additionalProperties": False} if is_closed else {}
    return {"type": "object", "properties": properties, **closed}


def _json_type(field: Field, is_closed: bool) -> dict[str, Any]:
    name = {"long": "integer", "double": "number"}.get(field.kind, field.kind)
    kind: dict[str, Any] = {"type": name}
    if field.shape in {"record", "array"}:
        kind = _json_object(dict.fromkeys(field.inside, kind), is_closed)
    if field.shape == "array":
        kind = {"type": "array", "items": kind}
    if field.shape == "map":
        kind = {"type": "object", "additionalProperties": kind}
    return {"oneOf": [{"type": "null"}, kind]} if field.nullable else kind


PROTOBUF_KINDS: Final = {
    "int": "int32",
    "long": "int64",
    "boolean": "bool",
    "time": "google.protobuf.Timestamp",
    "enum": "Switch",
}


class Protobuf:
    name: ClassVar[FormatName] = "protobuf"

    def registered(self, version: Version, mode: Mode = "NONE", gone: Collection[str] = ()) -> str:
        return _proto(version, sorted(gone))

    def text(self, version: Version) -> str:
        return _compiled(tuple(version))

    def reader(self, version: Version) -> str:
        return lenient(columns_of_protobuf(self.text(version), "Order"))

    def message(self, version: Version, row: Mapping[str, Any], schema_id: int) -> bytes:
        kind = message_factory.GetMessageClass(descriptor_of(self.text(version), "Order"))
        times = [each.name for each in version if (each.shape, each.kind) == ("map", "time")]
        made = kind(**{name: value for name, value in row.items() if value is not None and name not in times})
        for name in times:  # Google's class takes none in a map
            for key, value in (row[name] or {}).items():
                getattr(made, name)[key].FromDatetime(value)
        return b"\0" + schema_id.to_bytes(4, "big") + b"\0" + made.SerializeToString()

    def decoder(self, reader: str, writers: Mapping[int, WriterSchema]) -> RegisteredDecoder:
        return RegisteredProtobufDecoder("Order", _columns(reader), writers, reader)


@lru_cache(64)
def _columns(reader: str) -> pa.Schema:
    return columns_of(read_reader(reader))


@lru_cache(64)
def _compiled(version: tuple[Field, ...]) -> str:
    with protoc_in_this_process():
        return compiled(_proto(version), {})


@contextmanager
def protoc_in_this_process() -> Iterator[None]:
    """The product compiles as always, but here: another process takes half as long to start as a chain takes."""
    with patch.object(subprocess, "run", _protoc):
        yield


def _protoc(command: Sequence[str], **_: object) -> subprocess.CompletedProcess[bytes]:
    included = Path(grpc_tools.__file__).parent / "_proto"
    code = protoc.main(["protoc", *command[3:], f"-I{included}"])
    return subprocess.CompletedProcess(command, code, b"", b"")


def _proto(version: Version, gone: Sequence[str] = ()) -> str:
    fields, records = [], []
    for each in version:
        number = _number(each.name)
        kind = PROTOBUF_KINDS.get(each.kind, each.kind)
        if each.shape in {"record", "array"}:
            inside = " ".join(f"optional {kind} {name} = {at};" for at, name in enumerate(each.inside, 1))
            records.append(f"message R_{each.name} {{ {inside} }}")
            kind = f"R_{each.name}"
        if each.shape == "map":
            fields.append(f"map<string, {kind}> {each.name} = {number};")
            continue
        kind = PROTOBUF_KINDS["time"] if each.shape == "times" else kind
        label = "repeated" if each.shape in {"array", "times"} else "optional"
        fields.append(f"{label} {kind} {each.name} = {number};")
    symbols = SYMBOLS[: max((each.symbols for each in version), default=1)]
    switch = f"enum Switch {{ {' '.join(f'{name} = {at};' for at, name in enumerate(symbols))} }}"
    reserved = "".join(f'reserved {_number(each)}; reserved "{each}"; ' for each in gone)
    order = f"message Order {{ {reserved}optional string id = 1; {' '.join(fields)} }}"
    messages = f"{order} {' '.join(records)}"
    time = 'import "google/protobuf/timestamp.proto";' if PROTOBUF_KINDS["time"] in messages else ""
    return f'syntax = "proto3"; {time} {messages} {switch}'


def _number(name: str) -> int:
    """A name keeps its number."""
    return 2 + NAMES.index(name)


FORMATS: Final[dict[FormatName, MessageFormat]] = {each.name: each for each in (Avro(), Json(), Protobuf())}
