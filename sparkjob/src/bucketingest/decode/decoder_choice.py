"""Which way a pipeline's messages are decoded: on Arrow, where the result is proven to be Spark's, or by Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from bucketingest.decode.avro.schema import UnreadableSchema, read_fields
from bucketingest.decode.ddl import UnreadableDdl, unsupported
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
    if spec.source.kafka is None or spec.format is None:
        return Way("spark", "only Kafka's messages are decoded on Arrow")
    if " ".join(spec.transform.sql.lower().split()).rstrip("; ") != _ALL_ROWS:
        return Way("spark", "spec.transform.sql is Spark's")
    if spec.table.delete_when is not None:
        return Way("spark", "spec.table.deleteWhen is Spark's")
    for name in spec.spark.conf:
        if name.lower().startswith((*_CONF, f"spark.sql.{spec.format.type}.")):
            return Way("spark", f"spec.spark.conf sets {name}")
    why = _why_not_json(spec.format) if spec.format.type == "json" else _why_not_avro(spec.format)
    if why is not None:
        return Way("spark", f"spec.format.schema {why}")
    return Way("arrow", f"{'JSON' if spec.format.type == 'json' else 'Avro'}, all columns as they are")


def _why_not_json(format_: Format) -> str | None:
    try:
        other = unsupported(format_.schema_text, _TYPES)
    except UnreadableDdl:
        return "is more than names and types"
    return None if other is None else f"has the type {other}"


def _why_not_avro(format_: Format) -> str | None:
    try:
        read_fields(format_.schema_text)
    except UnreadableSchema as error:
        return str(error)
    return None
