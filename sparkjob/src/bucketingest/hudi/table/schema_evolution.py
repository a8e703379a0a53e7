"""Whether rows of an incoming schema may be written to a table, and what the table's schema becomes.

Schemas are refused before anything is written: a block whose schema Hudi's readers cannot resolve against the table's
makes the whole file group unreadable.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeVar

import pyarrow as pa

from bucketingest.hudi.table.schema import META_COLUMNS, AvroSchema

Column = TypeVar("Column", pa.Array, pa.ChunkedArray)
_WIDENED: Final = frozenset(
    ((narrow, None, None), (wide, None, None))
    for narrow, wide in [("int", "long"), ("int", "double"), ("float", "double")]
)
"""Kinds of a column before and after, for which readers read old files and log blocks of the table rightly, and whose
values are all kept: a long is not always a double.
"""


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
    widened: tuple[str, ...]
    """The table's columns that get a wider type."""
    missing: tuple[str, ...]
    """The table's nullable columns that the input lacks: they are filled with null."""
    reasons: tuple[str, ...]
    """Why the schema is refused, each with the column; empty unless refused."""


def compare_schemas(table: AvroSchema, incoming: AvroSchema, fixed: Collection[str] = ()) -> SchemaComparison:
    """Compare a table's Avro schema with that of rows to be written; meta columns in either are ignored.

    Columns are matched by name; their order does not matter. Allowed are new nullable columns, absent nullable columns,
    a required value for a nullable column, and a wider type of one column for that of the other, unless it is one of
    the `fixed`. Refused are other changes of types, nulls for a required column, new required columns, absent required
    columns, and names that differ from the table's in case only.
    """
    stored, arriving = _columns(table), _columns(incoming)
    reasons: list[str] = []
    widened = {}
    for name, column in stored.items():
        if name not in arriving:
            if not _is_nullable(column["type"]):
                reasons.append(f"column {name!r} is required by the table but missing in the input; select it")
            continue
        found = _differences(name, column["type"], arriving[name]["type"])
        if found and name not in fixed and (wide := _wider(column["type"], arriving[name]["type"])) is not None:
            if wide != column["type"]:
                widened[name] = {**column, "type": wide}
            continue
        reasons += found
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
    columns = [*(stored | widened).values(), *(arriving[name] for name in added)]
    fit = Fit.REFUSED if reasons else Fit.EVOLVED if added or widened else Fit.SAME
    return SchemaComparison(fit, {**table, "fields": columns}, added, tuple(widened), missing, tuple(reasons))


def widened(column: Column, wanted: pa.DataType) -> Column:
    """Values of a column of before its type was widened. A float becomes a double by its shortest text, so that 0.1
    stays 0.1: Hudi's readers (HoodieAvroUtils, rewriting primitive types) and hudi-rs do it so with files that are not
    merged. Raises ArrowInvalid if a value does not fit.
    """
    if pa.types.is_float32(column.type) and pa.types.is_float64(wanted):
        column = column.cast(pa.string())
    return column.cast(wanted)


def _wider(stored: Any, arriving: Any) -> Any:
    """The type of a column that has values of both, each of them exactly; None if there is none."""
    if _is_nullable(arriving) and not _is_nullable(stored):
        return None
    one, other = _value_type(stored), _value_type(arriving)
    if _is_wider(one, other):
        return stored
    if _is_wider(other, one):
        return ["null", other] if _is_nullable(stored) else other
    return None


def _is_wider(wide: dict[str, Any], narrow: dict[str, Any]) -> bool:
    if "decimal" == wide.get("logicalType") == narrow.get("logicalType"):
        same = wide.get("scale", 0) == narrow.get("scale", 0) and wide["type"] == narrow["type"]
        return bool(same and wide["precision"] > narrow["precision"])
    return (_kind(narrow), _kind(wide)) in _WIDENED


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
