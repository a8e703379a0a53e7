"""Avro object container files of the timeline: one record, uncompressed, Hudi's own schema in the header."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import fastavro

from bucketingest.hudi.errors import InvalidTable

_MAGIC = b"Obj\x01"
_SYNC_SIZE = 16


def encode_long(value: int) -> bytes:
    """A signed integer of at most 64 bits in Avro's variable-length zig-zag form, 1 to 10 bytes."""
    value = (value << 1) ^ (value >> 63)
    if value < 1 << 14:  # most are lengths and counts
        return bytes((value,)) if value < 1 << 7 else bytes((value & 0x7F | 0x80, value >> 7))
    if value < 1 << 28:
        low = (value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80)
        high = (value >> 14,) if value < 1 << 21 else (value >> 14 & 0x7F | 0x80, value >> 21)
        return bytes(low + high)
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_text(value: str) -> bytes:
    """A text in Avro's form: the length of its UTF-8 in bytes, then the UTF-8."""
    data = value.encode()
    return encode_long(len(data)) + data


@cache
def schema_text(name: str) -> str:
    """The format's Avro schema of this name, as compact JSON."""
    text = resources.files("bucketingest.hudi").joinpath("avsc", f"{name}.avsc").read_text("utf-8")
    return json.dumps(json.loads(text), separators=(",", ":"))


@cache
def _parsed(name: str) -> Any:
    return fastavro.parse_schema(json.loads(schema_text(name)))


def encode_datum(name: str, record: Mapping[str, Any]) -> bytes:
    """A record of the schema `name` as a bare Avro datum."""
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, _parsed(name), record)
    return buffer.getvalue()


def container(name: str, datum: bytes) -> bytes:
    """One datum of the schema `name` as an object container file.

    The header has the schema and no codec, as in the files that Hudi 1.2.0 writes. The sync marker is taken from the
    datum: equal content gives equal bytes, so that a retried write can recognise its own file.
    """
    sync = hashlib.blake2b(datum, digest_size=_SYNC_SIZE).digest()
    header = encode_long(1) + encode_text("avro.schema") + encode_text(schema_text(name)) + b"\x00"
    return b"".join((_MAGIC, header, sync, encode_long(1), encode_long(len(datum)), datum, sync))


def write_record(name: str, record: Mapping[str, Any]) -> bytes:
    """A record of the schema `name` as the bytes of an object container file."""
    return container(name, encode_datum(name, record))


def read_record(data: bytes, where: str, schema: Any = None) -> dict[str, Any]:
    """The one record of an object container file of any writer schema; `where` names the file in the error.

    `schema`: a parsed reader's schema, to read only a part of it. Raises `InvalidTable` if the bytes are not such a
    file.
    """
    try:
        records = list(fastavro.reader(io.BytesIO(data), schema))
    except (ValueError, EOFError, IndexError, KeyError, StopIteration, TypeError) as error:
        raise InvalidTable(
            f"{where} is not a readable Avro file ({error}): restore it or roll its instant back"
        ) from error
    if len(records) != 1 or not isinstance(records[0], dict):
        raise InvalidTable(f"{where} holds {len(records)} Avro records, expected exactly one")
    return records[0]
