"""The schema of the columns grows with the schemas of the messages: old and new producers write at the same time, so it
is the union of theirs, not the newest.
"""

from __future__ import annotations

import json
from typing import Any

from bucketingest.decode.avro.column_types import columns_of
from bucketingest.decode.avro.schema import AvroRecord, UnreadableSchema, read_reader, read_writer


def lenient(text: str) -> str:
    """The reader's schema with null for what a message's schema lacks, unless it has a default. Raises
    UnreadableSchema.
    """
    record = read_reader(text)
    return json.dumps({**record, "fields": [_optional(field) for field in record["fields"]]})


def grown(reader_text: str, writer_text: str) -> tuple[str, tuple[str, ...]]:
    """The reader's schema with those of the writer's fields that it lacks, behind its own, and their names.

    What is no column, or has a column's name in another case, is left out. A type is never changed. Raises
    UnreadableSchema.
    """
    reader, writer = read_reader(reader_text), read_writer(writer_text)
    known = {name.lower() for field in reader["fields"] for name in (field["name"], *field.get("aliases", ()))}
    added = []
    for field in writer["fields"]:
        if field["name"].lower() not in known and _is_column(field, reader):
            known.add(field["name"].lower())
            added.append(_optional({"name": field["name"], "type": field["type"]}))
    names = tuple(field["name"] for field in added)
    return json.dumps({**reader, "fields": [*reader["fields"], *added]}), names


def _is_column(field: dict[str, Any], record: AvroRecord) -> bool:
    try:
        columns_of(read_reader(json.dumps({**record, "fields": [{"name": field["name"], "type": field["type"]}]})))
    except UnreadableSchema:
        return False
    return True


def _optional(field: dict[str, Any]) -> dict[str, Any]:
    if "default" in field:
        return field
    kind = field["type"]
    others = [each for each in kind if each != "null"] if isinstance(kind, list) else [kind]
    return {**field, "type": ["null", *others], "default": None}
