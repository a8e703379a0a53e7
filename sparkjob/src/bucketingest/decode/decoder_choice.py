"""Which way messages are decoded and Parquet files are read: on Arrow, where the result is proven to be Spark's, or by
Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from bucketingest.decode.avro.schema import UnreadableSchema, read_fields, read_reader
from bucketingest.decode.ddl import UnreadableDdl, unsupported
from bucketingest.decode.protobuf.descriptors import read_message
from bucketingest.decode.protobuf.schema import UnreadableDescriptors
from bucketingest.decode.sql.words import why_spark
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
_OPTIONS_OF_LISTING: Final = frozenset(
    ["cleansource", "filenameonly", "latestfirst", "maxcachedfiles", "maxfileage", "pathglobfilter", "sourcearchivedir"]
)
"""Options of files, in lower case, that say which ones are read, not how."""
_CONF_OF_SQL: Final = ("spark.sql.streaming.", "spark.sql.shuffle.")
"""Beginnings of settings of SQL that change no value."""


@dataclass(frozen=True, slots=True)
class Way:
    """The way, and why it is this one, in words that follow "decoding on Arrow: " or "decoding in Spark: "."""

    name: Literal["arrow", "spark"]
    why: str

    def __str__(self) -> str:
        return f"decoding {'on Arrow' if self.name == 'arrow' else 'in Spark'}: {self.why}"


def way_of(resource: BucketIngest) -> Way:
    """The way of a resource, as far as its text tells: of what SQL makes of which types Spark knows more. Nothing is
    contacted.
    """
    spec = resource.spec
    format_ = spec.format
    if format_ is not None and (format_.registry is not None or format_.type == "protobuf"):
        return _always_decoded(resource, format_)
    if not has_ways(resource) or (spec.source.kafka is None and format_ is not None):
        return Way("spark", "only Kafka's messages and Parquet files are decoded on Arrow")
    if format_ is None:
        return _way_of_files(resource)
    if (why := _why_spark(resource)) is not None:
        return Way("spark", why)
    for name in spec.spark.conf:
        if name.lower().startswith((*_CONF, f"spark.sql.{format_.type}.")):
            return Way("spark", f"spec.spark.conf sets {name}")
    why = _why_not_json(format_) if format_.type == "json" else _why_not_avro(format_)
    if why is not None:
        return Way("spark", f"spec.format.schema {why}")
    return Way("arrow", f"{_NAMES[format_.type]}, {_columns(resource)}")


def _way_of_files(resource: BucketIngest) -> Way:
    if (why := _why_spark(resource)) is not None:
        return Way("spark", why)
    assert resource.spec.source.files is not None, "what has no messages and two ways has files"
    for name in resource.spec.source.files.options:
        if name.lower() not in _OPTIONS_OF_LISTING:
            return Way("spark", f"spec.source.files.options sets {name}")
    return Way("arrow", f"Parquet files, {_columns(resource)}")


def has_ways(resource: BucketIngest) -> bool:
    """Whether rows of the resource's kind may be read on Arrow; of others there is nothing to say."""
    files = resource.spec.source.files
    return resource.spec.format is not None or (files is not None and files.format == "parquet")


def has_sql(resource: BucketIngest) -> bool:
    """Whether rows are not the messages' columns as they are."""
    return bool(_fields_of_sql(resource))


def sql_refused(resource: BucketIngest, why: str) -> Way:
    """The way of a resource whose SQL Spark has to evaluate."""
    messages = resource.spec.format is not None and (
        resource.spec.format.registry is not None or resource.spec.format.type == "protobuf"
    )
    found = f"{' or '.join(_fields_of_sql(resource))} {why}"
    return Way("spark", f"{found}; messages on Arrow" if messages else found)


def _fields_of_sql(resource: BucketIngest) -> dict[str, str]:
    """The fields that hold SQL, and it."""
    spec, found = resource.spec, {}
    if " ".join(spec.transform.sql.lower().split()).rstrip("; ") != _ALL_ROWS:
        found["spec.transform.sql"] = spec.transform.sql
    if spec.table.delete_when is not None:
        found["spec.table.deleteWhen"] = spec.table.delete_when
    return found


def _columns(resource: BucketIngest) -> str:
    """What the rows' columns are, in words."""
    fields = _fields_of_sql(resource)
    return f"with {' and '.join(fields)}" if fields else "all columns as they are"


def _why_spark(resource: BucketIngest) -> str | None:
    """Why rows are Spark's, however messages are decoded."""
    fields = _fields_of_sql(resource)
    for field, sql in fields.items():
        if (why := why_spark(sql)) is not None:
            return f"{field} {why}"
    for name in resource.spec.spark.conf if fields else ():
        low = name.lower()
        if low.startswith("spark.sql.") and not low.startswith(_CONF_OF_SQL):
            return f"spec.spark.conf sets {name}"
    return None


def _always_decoded(resource: BucketIngest, format_: Format) -> Way:
    """Messages that are always decoded on Arrow; their rows may then be Spark's."""
    why = _why_spark(resource)
    if why is not None:
        each = ", each with the schema that the registry has for it" if format_.registry is not None else ""
        return Way("spark", f"{why}; messages on Arrow{each}")
    if format_.registry is None:
        return Way("arrow", f"Protobuf, {_columns(resource)}")
    messages = {
        "json": "JSON behind Confluent's header, all columns as they are",
        "protobuf": "Protobuf, each message of a schema that the registry has",
    }.get(format_.type, "Avro, each message with the schema that the registry has for it")
    if not has_sql(resource):
        return Way("arrow", messages)
    return Way("arrow", f"{messages.removesuffix(', all columns as they are')}, {_columns(resource)}")


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
