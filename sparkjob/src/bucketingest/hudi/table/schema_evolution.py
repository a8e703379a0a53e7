"""Whether rows of an incoming schema may be written to a table, and what the table's schema becomes.

Schemas are refused before anything is written: a block whose schema Hudi's readers cannot resolve against the table's
makes the whole file group unreadable.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from bucketingest.hudi.table.schema import META_COLUMNS, AvroSchema


class Fit(Enum):
    """How an incoming schema relates to a table's."""

    SAME = "same"
    EVOLVED = "evolved"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class SchemaComparison:
    """The outcome of `compare_schemas`."""

    fit: Fit
    schema: AvroSchema
    """The schema to write, without meta columns: the table's columns in its order, then the added ones."""
    added: tuple[str, ...]
    """Incoming columns that the table did not have; all nullable."""
    missing: tuple[str, ...]
    """The table's nullable columns that the input lacks: they are filled with null."""
    reasons: tuple[str, ...]
    """Why the schema is refused, each with the column; empty unless refused."""


def compare_schemas(table: AvroSchema, incoming: AvroSchema) -> SchemaComparison:
    """Compare a table's Avro schema with that of rows to be written; meta columns in either are ignored.

    Columns are matched by name; their order does not matter. Allowed are new nullable columns, absent nullable columns
    and a required value for a nullable column. Refused are changed types, nulls for a required column, new required
    columns, absent required columns, and names that differ from the table's in case only.
    """
    stored, arriving = _columns(table), _columns(incoming)
    reasons: list[str] = []
    for name, column in stored.items():
        if name in arriving:
            reasons += _differences(name, column["type"], arriving[name]["type"])
        elif not _is_nullable(column["type"]):
            reasons.append(f"column {name!r} is required by the table but missing in the input; select it")
    added = tuple(name for name in arriving if name not in stored)
    known = {name.lower(): name for name in stored}
    reasons += [
        f"column {name!r} is {known[name.lower()]!r} in the table: Spark's readers cannot tell them apart; "
        f"name it {known[name.lower()]!r}, for example in transform.sql"
        for name in added
        if name.lower() in known
    ]
    reasons += [
        f"column {name!r} is new and not nullable; rows already in the table have no value for it: make it nullable"
        for name in added
        if not _is_nullable(arriving[name]["type"])
    ]
    missing = tuple(name for name, column in stored.items() if name not in arriving and _is_nullable(column["type"]))
    merged = {**table, "fields": [*stored.values(), *(arriving[name] for name in added)]}
    fit = Fit.REFUSED if reasons else Fit.EVOLVED if added else Fit.SAME
    return SchemaComparison(fit, merged, added, missing, tuple(reasons))


def _columns(schema: AvroSchema) -> dict[str, dict[str, Any]]:
    return {field["name"]: field for field in schema["fields"] if field["name"] not in META_COLUMNS}


def _is_nullable(avro: Any) -> bool:
    return isinstance(avro, list) and "null" in avro


def _differences(path: str, stored: Any, arriving: Any) -> list[str]:
    """Reasons why values of ``arriving`` cannot be stored as ``stored``; names of nested types are ignored."""
    if _is_nullable(arriving) and not _is_nullable(stored):
        return [f"column {path!r} is required by the table but nullable in the input; filter or replace its nulls"]
    return _type_differences(path, _value_type(stored), _value_type(arriving))


def _type_differences(path: str, stored: dict[str, Any], arriving: dict[str, Any]) -> list[str]:
    if _kind(stored) != _kind(arriving):
        return [f"column {path!r} is {_shown(stored)} in the table but {_shown(arriving)} in the input; cast it"]
    match stored["type"]:
        case "array":
            return _differences(f"{path}.element", stored["items"], arriving["items"])
        case "map":
            return _differences(f"{path}.value", stored["values"], arriving["values"])
        case "record":
            return _record_differences(path, stored, arriving)
    return []


def _record_differences(path: str, stored: AvroSchema, arriving: AvroSchema) -> list[str]:
    """Nested fields must be the same by name and order: only top-level columns may be added or left out."""
    names, other_names = ([field["name"] for field in record["fields"]] for record in (stored, arriving))
    if names != other_names:
        return [f"column {path!r} has fields {names} in the table but {other_names} in the input; select the same"]
    pairs = zip(stored["fields"], arriving["fields"], strict=True)
    return [reason for a, b in pairs for reason in _differences(f"{path}.{a['name']}", a["type"], b["type"])]


def _value_type(avro: Any) -> dict[str, Any]:
    if isinstance(avro, list):
        avro = next(branch for branch in avro if branch != "null")
    return avro if isinstance(avro, dict) else {"type": avro}


def _kind(avro: dict[str, Any]) -> tuple[Any, ...]:
    if avro.get("logicalType") == "decimal":
        # Tables of other writers may hold the same decimal as bytes; the blocks would still differ.
        return (avro["type"], "decimal", avro["precision"], avro.get("scale", 0))
    return (avro["type"], avro.get("logicalType"), avro.get("size"))


def _shown(avro: dict[str, Any]) -> str:
    if avro.get("logicalType") == "decimal":
        return f"decimal({avro['precision']},{avro.get('scale', 0)})"
    return str(avro.get("logicalType") or avro["type"])
