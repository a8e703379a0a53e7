"""Who evaluates SQL: the tasks, on Arrow, where the result is proven to be Spark's, or Spark. Messages are always
decoded in the tasks, and files read there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from bucketingest.decode.debezium.events import DELETED
from bucketingest.decode.sql.words import why_spark
from bucketingest.spec.fields.source import FilesSource
from bucketingest.spec.formats.format import Format
from bucketingest.spec.model import BucketIngest

_NAMES: Final = {"json": "JSON", "avro": "Avro", "protobuf": "Protobuf"}
_OF_REGISTRY: Final = {
    "json": "JSON behind Confluent's header",
    "avro": "Avro, each message with the schema that the registry has for it",
    "protobuf": "Protobuf, each message of a schema that the registry has",
}
_ALL_ROWS: Final = "select * from source"
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
    if resource.spec.format is not None:
        return _way_of_messages(resource, resource.spec.format)
    if resource.spec.source.files is not None:
        return _way_of_files(resource, resource.spec.source.files)
    return Way("spark", "only Kafka's messages and files are decoded on Arrow")


def _way_of_files(resource: BucketIngest, files: FilesSource) -> Way:
    """Files are always read on Arrow; their rows may then be Spark's."""
    if (why := _why_spark(resource)) is not None:
        return Way("spark", f"{why}; files on Arrow")
    return Way("arrow", f"{files.format} files, {_columns(resource)}")


def has_ways(resource: BucketIngest) -> bool:
    """Whether rows of the resource's kind may be read on Arrow; of others there is nothing to say."""
    return resource.spec.format is not None or resource.spec.source.files is not None


def has_sql(resource: BucketIngest) -> bool:
    """Whether rows are not the messages' columns as they are."""
    return bool(_fields_of_sql(resource))


def has_transform(resource: BucketIngest) -> bool:
    """Whether the table's columns are not the source's."""
    return "spec.transform.sql" in _fields_of_sql(resource)


def delete_predicate(resource: BucketIngest) -> str | None:
    """SQL that is true of rows that delete their key, by the resource or by the envelope; None if none does."""
    own, format_ = resource.spec.table.delete_when, resource.spec.format
    if format_ is None or format_.envelope is None:
        return own
    return DELETED if own is None else f"{DELETED} OR ({own})"


def sql_refused(resource: BucketIngest, why: str) -> Way:
    """The way of a resource whose SQL Spark has to evaluate."""
    messages = resource.spec.format is not None
    found = f"{' or '.join(_fields_of_sql(resource))} {why}"
    if resource.spec.source.files is not None:
        return Way("spark", f"{found}; files on Arrow")
    return Way("spark", f"{found}; messages on Arrow" if messages else found)


def _fields_of_sql(resource: BucketIngest) -> dict[str, str]:
    """The fields that hold SQL, and it."""
    spec, found = resource.spec, {}
    if " ".join(spec.transform.sql.lower().split()).rstrip("; ") != _ALL_ROWS:
        found["spec.transform.sql"] = spec.transform.sql
    if spec.table.delete_when is not None:
        found["spec.table.deleteWhen"] = spec.table.delete_when
    if spec.format is not None and spec.format.envelope is not None:
        found["spec.format.envelope"] = DELETED
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


def _way_of_messages(resource: BucketIngest, format_: Format) -> Way:
    """Messages are decoded on Arrow; their rows may then be Spark's."""
    if (why := _why_spark(resource)) is not None:
        each = ", each with the schema that the registry has for it" if format_.registry is not None else ""
        return Way("spark", f"{why}; messages on Arrow{each}")
    messages = (_NAMES if format_.registry is None else _OF_REGISTRY)[format_.type]
    return Way("arrow", f"{messages}, {_columns(resource)}")
