"""A start, messages of a newer schema, and their columns: for each format that follows a registry, without
Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from bucketingest.decode.registered.subjects import registry_client, with_columns, with_readers_schema, writer_schema
from bucketingest.decode.registered.wire_format import RegisteredDecoder
from bucketingest.registry.lookups import Patience
from bucketingest.spec.model import BucketIngest
from bucketingest.stream.source.columns_schema import ColumnsSchema, SchemaGrown
from bucketingest.stream.source.shape import RowShape
from support.decoding.registered_avro import encoded
from support.jobs.stream_runs import Lake
from support.registry.http_registry import HttpRegistry, http_registry

AVRO = [
    {"type": "record", "name": "Order", "fields": [{"name": each, "type": "string"} for each in names]}
    for names in (["id"], ["id", "note"])
]
JSON = [
    {"type": "object", "properties": {each: {"type": "string"} for each in names}} for names in (["id"], ["id", "note"])
]
PROTOBUF = [
    f'syntax = "proto3"; package shop; message Order {{ string id = 1; {more} }}' for more in ("", "string note = 2;")
]
ROW = {"id": "a", "note": "n"}
CASES: dict[str, tuple[list[Any], bytes]] = {
    "avro": (AVRO, encoded(AVRO[1], ROW)[5:]),
    "json": (JSON, json.dumps(ROW).encode()),
    "protobuf": (PROTOBUF, b"\0\x0a\x01a\x12\x01n"),
}


@pytest.fixture
def registry() -> Iterator[HttpRegistry]:
    with http_registry() as found:
        yield found


@pytest.mark.parametrize("kind", CASES)
def test_a_new_field_of_messages_is_a_column(registry: HttpRegistry, kind: str) -> None:
    schemas, value = CASES[kind]
    old, new = (registry.register("orders-value", each, schemaType=kind.upper()) for each in schemas)
    registry.subjects["orders-value"].remove(new)  # it comes while the job runs
    kafka = {"kafka": {"bootstrapServers": "kafka:9092", "topics": ["orders"]}}
    format_: dict[str, Any] = {"type": kind, "registry": {"url": registry.url}}
    given = Lake(Path("/lake")).resource(kafka, table={"recordKey": ["id"]}, format=format_)
    assert given.spec.format is not None
    assert given.spec.format.registry is not None
    client = registry_client(given.spec.format.registry)
    taken = with_readers_schema(given, client, Patience(seconds=0))
    assert taken.spec.format is not None
    columns = ColumnsSchema()
    columns.text = taken.spec.format.columns_text
    writers = {each: writer_schema(client.schema(each), kind.upper()) for each in (old, new)}
    with pytest.raises(SchemaGrown) as grown:
        columns.cover(writers, _blocks(taken).columns_in)
    assert grown.value.changes == {new: ("note",)}
    columns.grow(grown.value)
    blocks = _blocks(with_columns(taken, columns.text)).knowing(writers)
    columns.cover(writers, blocks.columns_in)
    decoded = blocks.decode(pa.array([b"\0" + new.to_bytes(4, "big") + value], pa.binary()))
    assert (decoded.refused, decoded.rows.to_pylist()) == ([], [ROW])


def _blocks(resource: BucketIngest) -> RegisteredDecoder:
    return RowShape(resource, None).registered_blocks(cast(Any, None))
