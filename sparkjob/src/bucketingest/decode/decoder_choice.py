"""Which way a pipeline's messages are decoded: on Arrow, where the result is proven to be Spark's, or by Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from bucketingest.decode.avro.schema import UnreadableSchema, read_fields, read_reader
from bucketingest.decode.ddl import UnreadableDdl, unsupported
from bucketingest.decode.protobuf.descriptors import read_message
from bucketingest.decode.protobuf.schema import UnreadableDescriptors
from bucketingest.spec.model import BucketIngest, Format

_TYPES: Final = frozenset(
    [
        "STRING",
        "SMALLINT",
        "SHORT",
        "INT",
        "INTEGER",
        "BIGINT",
        "LONG",
        "FLOAT",
        "REAL",
        "DOUBLE",
        "BOOLEAN",
        "DATE",
        "TIMESTAMP",
        "TIMESTAMP_LTZ",
    ]
)
_NAMES: Final = {"json": "JSON", "avro": "Avro"}
_ALL_ROWS: Final = "select * from source"
_CONF: Final = ("spark.sql.legacy.", "spark.sql.timestamptype", "spark.sql.casesensitive")
"""Beginnings of settings, in lower case, that can change what Spark decodes; for a format also those of its own."""


@dataclass(frozen=True, slots=True)
class Way:
    """The way, and why it is this one, in words that follow "decoding on Arrow: " or "decoding in Spark: "."""

    name: Literal["arrow", "spark"]
    why: str

    def __str__(self) -> str:
        return f"decoding {'on Arrow' if self.name == 'arrow' else 'in Spark'}: {self.why}"


def way_of(resource: BucketIngest) -> Way:
    """The way of a resource, as far as its text tells. Nothing is contacted."""
    spec = resource.spec
    if spec.format is not None and spec.format.registry is not None:
        return _registered_way(resource)
    if spec.format is not None and spec.format.type == "protobuf":
        why = _why_spark(resource)
        if why is not None:
            return Way("spark", f"{why}; messages on Arrow")
        return Way("arrow", "Protobuf, all columns as they are")
    if spec.source.kafka is None or spec.format is None:
        return Way("spark", "only Kafka's messages are decoded on Arrow")
    if (why := _why_spark(resource)) is not None:
        return Way("spark", why)
    for name in spec.spark.conf:
        if name.lower().startswith((*_CONF, f"spark.sql.{spec.format.type}.")):
            return Way("spark", f"spec.spark.conf sets {name}")
    why = _why_not_json(spec.format) if spec.format.type == "json" else _why_not_avro(spec.format)
    if why is not None:
        return Way("spark", f"spec.format.schema {why}")
    return Way("arrow", f"{_NAMES[spec.format.type]}, all columns as they are")


def _why_spark(resource: BucketIngest) -> str | None:
    """Why rows are Spark's, however messages are decoded."""
    spec = resource.spec
    if " ".join(spec.transform.sql.lower().split()).rstrip("; ") != _ALL_ROWS:
        return "spec.transform.sql is Spark's"
    return None if spec.table.delete_when is None else "spec.table.deleteWhen is Spark's"


def _registered_way(resource: BucketIngest) -> Way:
    """With a registry messages are always decoded on Arrow; their rows may then be Spark's."""
    why = _why_spark(resource)
    if why is not None:
        return Way("spark", f"{why}; messages on Arrow, each with the schema that the registry has for it")
    assert resource.spec.format is not None, "it has a registry"
    if resource.spec.format.type == "json":
        return Way("arrow", "JSON behind Confluent's header, all columns as they are")
    if resource.spec.format.type == "protobuf":
        return Way("arrow", "Protobuf, each message of a schema that the registry has")
    return Way("arrow", "Avro, each message with the schema that the registry has for it")


def why_refused(format_: Format | None) -> str | None:
    """Why messages cannot be decoded at all, in words that follow "spec.format.schema"; None if they can, or it is not
    known: without a registry what is not decoded on Arrow is Spark's, but for Protobuf.
    """
    if format_ is None or format_.schema_text is None:
        return None
    try:
        if format_.type == "protobuf":
            read_message(format_.schema_text, format_.message_name)
        elif format_.registry is not None and format_.type == "json":
            return _why_not_json(format_)
        elif format_.registry is not None:
            read_reader(format_.schema_text)
    except (UnreadableSchema, UnreadableDescriptors) as error:
        return str(error)
    return None


def _why_not_json(format_: Format) -> str | None:
    try:
        other = unsupported(format_.columns_text, _TYPES)
    except UnreadableDdl:
        return "is more than names and types"
    return None if other is None else f"has the type {other}"


def _why_not_avro(format_: Format) -> str | None:
    try:
        read_fields(format_.columns_text)
    except UnreadableSchema as error:
        return str(error)
    return None
