"""The Avro schemas of events: the row's record in them, and what its values become as columns.

Records and attributes as Kafka Connect's Avro converters (AvroData) write them of Debezium's types.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from bucketingest.decode.avro.column_types import branches_of
from bucketingest.decode.avro.column_types import columns_of as read_as
from bucketingest.decode.avro.schema import AvroRecord, UnreadableSchema, read_reader, read_writer
from bucketingest.decode.debezium.events import DELETED, HEARTBEAT, NO_EVENT, NO_ROW, is_no_data
from bucketingest.decode.debezium.readings import Reading, reading_of_avro

EVENT_MEMBERS: Final = ("op", "before", "after")
OPERATION: Final = json.dumps({"type": "record", "name": "Envelope", "fields": [{"name": "op", "type": "string"}]})
"""A reader of events that looks at nothing else."""
_KEPT_MAX: Final = 256


def row_of(text: str) -> str:
    """The schema of the row in that of an event, or of a flat row; any other schema is the row's itself. Raises
    UnreadableSchema.
    """
    record = read_writer(text)
    if _is_event(record):
        return json.dumps(_row(record))
    kept = [field for field in record["fields"] if field["name"] != DELETED]
    return text if len(kept) == len(record["fields"]) else json.dumps({**record, "fields": kept})


@lru_cache(_KEPT_MAX)
def said_of(text: str, *, flat: bool = False) -> tuple[bool, bool, str]:
    """Of a message's schema: whether it is of events, or of flat rows if those are wanted, or else of what Debezium
    sends beside them; and the name of the source's table.
    """
    try:
        record = read_writer(text)
    except UnreadableSchema:
        return True, False, ""  # whose decoder says why
    names = {field["name"] for field in record["fields"]}
    name = ".".join(filter(None, [record.get("namespace"), record["name"]])).removesuffix(".Envelope")
    if flat:
        return not _is_event(record) and names != HEARTBEAT, names == HEARTBEAT, name
    return _is_event(record), is_no_data(names), name


def why_unwanted(text: str, *, flat: bool) -> str | None:
    """Why messages of the schema are not what `format.envelope.type` says; None if they are."""
    if said_of(text, flat=flat)[0]:
        return None
    return NO_ROW if said_of(text)[0] else NO_EVENT


def readers_of(row_text: str, *, flat: bool) -> tuple[str, str]:
    """The schemas that events, or flat rows, and their keys are read as. A key has some of the row's fields. Raises
    UnreadableSchema.
    """
    row = read_reader(row_text)
    row |= {"aliases": [*row.get("aliases", ()), "Value"]}
    image = {"type": ["null", row], "default": None}
    fields = [{"name": name, **({"type": "string"} if name == "op" else image)} for name in EVENT_MEMBERS]
    key = row | {"name": "Key", "fields": [_optional(field) for field in row["fields"]]}
    if flat:
        deleted = {"name": DELETED, "type": ["null", "string"], "default": None}
        return json.dumps(row | {"fields": [*row["fields"], deleted]}), json.dumps(key)
    return json.dumps({"type": "record", "name": "Envelope", "fields": fields}), json.dumps(key)


def readings_of(row_text: str) -> tuple[pa.Schema, list[Reading]]:
    """The columns, and how each is read. Raises UnreadableSchema."""
    record = read_reader(row_text)
    readings = [
        reading_of_avro(_value_type(field["type"]), column.type)
        for field, column in zip(record["fields"], read_as(record), strict=True)
    ]
    names = [field["name"] for field in record["fields"]]
    return pa.schema([pa.field(name, each.column) for name, each in zip(names, readings, strict=True)]), readings


def _is_event(record: AvroRecord) -> bool:
    return {field["name"] for field in record["fields"]} >= set(EVENT_MEMBERS)


def _row(event: AvroRecord) -> AvroRecord:
    (after,) = [field["type"] for field in event["fields"] if field["name"] == "after"]
    found = _value_type(after)
    if found.get("type") != "record":
        raise UnreadableSchema("has events whose after is no record")
    return found


def _value_type(avro: Any) -> dict[str, Any]:
    found: dict[str, Any] = branches_of(avro)[0] if isinstance(avro, list) and branches_of(avro) else avro
    return found


def _optional(field: dict[str, Any]) -> dict[str, Any]:
    return {**field, "type": ["null", _value_type(field["type"])], "default": None}
