"""What must hold in the format section beyond the schema of its fields."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Final

from bucketingest.spec.reading.json_text import parse_json
from bucketingest.spec.reading.view import View
from bucketingest.spec.rules.finding import Finding, Rules


def _avro_schema(view: View) -> Iterator[Finding]:
    text = view.text("format.schema")
    if view.value("format.type") != "avro" or text is None:
        return
    try:
        parse_json(text)
    except ValueError as error:
        yield ("format", "schema"), f"is not JSON: {error}", "an Avro schema as JSON text"


def _protobuf(view: View) -> Iterator[Finding]:
    text, name = view.text("format.schema"), view.value("format.messageName")
    where = ("format", "messageName")
    if view.value("format.type") != "protobuf":
        if name is not None:
            yield where, "is for protobuf only", "format.type protobuf"
        return
    if text is None:
        return
    if name is None:
        yield where, "is required with schema", "a message's full name, such as com.example.Order"
    try:
        base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        wrong = "is not Base64"
        yield ("format", "schema"), wrong, "what protoc --include_imports --descriptor_set_out writes, in Base64"


def _has_schema(view: View) -> Iterator[Finding]:
    is_there = any(view.value(f"format.{each}") is not None for each in ("schema", "registry"))
    if view.mapping("format") is not None and not is_there:
        is_json = view.text("format.type") == "json"
        what = "the columns as Spark SQL DDL" if is_json else "text of 1 to 262144 characters"
        yield ("format", "schema"), "is required", f"{what}, or a registry"


def _for_avro(view: View) -> Iterator[Finding]:
    kind = view.text("format.type")
    if kind in {"json", "protobuf"} and view.value("format.confluentSchemaId") is not None:
        yield ("format", "confluentSchemaId"), f"is not allowed for {kind}", "format.type avro"


def _timestamps(view: View) -> Iterator[Finding]:
    kind, unit = view.text("format.type"), view.text("format.timestamps")
    if kind in {"avro", "protobuf"} and unit not in {None, "iso"}:
        yield (
            ("format", "timestamps"),
            f"is not allowed for {kind}, whose schema says what numbers are",
            "format.type json",
        )


def _one_header(view: View) -> Iterator[Finding]:
    if view.value("format.confluentSchemaId") is not None and view.value("format.registry") is not None:
        wrong = "is not allowed with registry, which knows every id"
        yield ("format", "confluentSchemaId"), wrong, "one of the two"


def _subject(view: View) -> Iterator[Finding]:
    registry = view.mapping("format.registry")
    if registry is None:
        return
    strategy = registry.get("subjectStrategy", "TopicName")
    by_record = strategy in {"RecordName", "TopicRecordName"}
    given = registry.get("recordName") is not None
    where = ("format", "registry", "recordName")
    if given and (not by_record or registry.get("subject") is not None):
        yield where, "is for subjectStrategy RecordName and TopicRecordName without subject", ""
    if registry.get("subject") is not None or view.value("format.schema") is not None:
        return
    if by_record and not given:
        yield where, f"is required for subjectStrategy {strategy}", "format.schema, or subject"
    if strategy != "RecordName" and view.value("tables") is None and len(view.texts("source.kafka.topics") or ()) != 1:
        wrong = "is required: subjects are named after topics, and not exactly one topic is named"
        yield ("format", "registry", "subject"), wrong, "a subject, or format.schema"


def _envelope(view: View) -> Iterator[Finding]:
    if view.mapping("format.envelope") is None:
        return
    where = ("format", "envelope")
    if view.value("format.type") not in {None, "json" if view.value("format.registry") is None else "avro"}:
        yield where, "is for json without registry and for avro with one", ""
    if view.value("table.orderingField") is not None:
        wrong = "is not allowed with format.envelope: the order of changes is that of the topic's offsets"
        yield ("table", "orderingField"), wrong, ""
    if view.value("format.envelope.type") == "debeziumFlat" and view.value("format.envelope.before") == "full":
        yield (*where, "before"), "is full, and flat rows have no before", "format.envelope.type debezium"
    key = view.texts("table.recordKey") or ()
    others = [name for name in view.texts("table.partitionBy") or () if name not in key]
    is_global = view.value("table.index.global") is True
    if view.value("format.envelope.unavailable") == "keep":
        if others:
            wrong = f"is keep, and table.partitionBy has {others[0]}, no column of recordKey"
            yield (*where, "unavailable"), f"{wrong}: the older value may be in another partition", "deadLetter"
        if view.text("table.index.type") != "state" or view.text("table.index.inserts") == "log":
            wrong = "is keep, and only an index with a state knows the first row of a key, which has no older value"
            yield (*where, "unavailable"), wrong, "table.index.type state with inserts base"
        if view.value("table.version") == 8:
            yield (*where, "unavailable"), "is keep, which tables of version 8 do not know", "table.version 9"
    if others and not is_global and view.value("format.envelope.before") == "key":
        wrong = f"has {others[0]}, no column of recordKey: a delete has only the key's values, and would miss the row"
        allowed = (
            "columns of recordKey; or table.index.global true; or format.envelope.before full, with REPLICA IDENTITY "
            "FULL at the source"
        )
        yield ("table", "partitionBy"), wrong, allowed


def _transactions(view: View) -> Iterator[Finding]:
    where = ("commit", "at")
    if view.value("commit.at") != "transaction":
        if view.value("commit.transactionTopic") is not None:
            yield ("commit", "transactionTopic"), "is for commit.at transaction only", ""
        return
    if view.value("format.envelope.type") != "debezium":
        yield where, "is transaction, and messages are no change events", "format.envelope.type debezium"
    if view.value("tables") is None and len(view.texts("source.kafka.topics") or ()) != 1:
        yield where, "is transaction, which is for one topic", "one of source.kafka.topics, or tables"
    if view.value("tables") is not None and view.value("commit.transactionTopic") is None:
        yield ("commit", "transactionTopic"), "is missing: all tables have one", "Debezium's transaction topic"
    if view.value("source.kafka.startingOffsets") not in (None, "earliest"):
        wrong = "is not allowed with commit.at transaction: it may be in the middle of one"
        yield ("source", "kafka", "startingOffsets"), wrong, "earliest"


def _unknown_fields(view: View) -> Iterator[Finding]:
    if view.text("format.unknownFields") != "column":
        return
    others = (view.value("format.registry"), view.value("format.envelope"))
    if view.value("format.type") != "json" or any(each is not None for each in others):
        yield ("format", "unknownFields"), "column is for json without registry and envelope", "ignore"


def _evolution(view: View) -> Iterator[Finding]:
    if view.text("schemaEvolution.mode") not in {None, "follow"} and (
        view.value("format.registry") is None or view.value("format.schema") is not None
    ):
        wrong = "is for columns that follow a registry"
        yield ("schemaEvolution", "mode"), wrong, "format.registry without format.schema"


RULES: Final[Rules] = (
    _avro_schema,
    _protobuf,
    _has_schema,
    _for_avro,
    _timestamps,
    _one_header,
    _subject,
    _envelope,
    _transactions,
    _evolution,
    _unknown_fields,
)
