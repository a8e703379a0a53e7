"""Whether rows of an incoming schema may be written to a table, and what the table's schema becomes.

Schemas are refused before anything is written: a block whose schema Hudi's readers cannot resolve against the table's
makes the whole file group unreadable.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Literal, TypeVar

import pyarrow as pa

from bucketingest.avro.conversion import converted, exact
from bucketingest.hudi.table.schema import META_COLUMNS, AvroSchema

Column = TypeVar("Column", pa.Array, pa.ChunkedArray)
_WIDENED: Final = frozenset(
    ((narrow, None, None), (wide, None, None))
    for narrow, wide in [("int", "long"), ("int", "double"), ("float", "double")]
)
"""Kinds of a column, or of what is inside one, before and after, for which readers read old files rightly, and whose
values are all kept: a long is not always a double. A decimal may get more digits before and behind the point.
"""
_OPERATION: Final = "_hoodie_operation"
"""In this column readers look for rows that delete their key."""

Evolution = Literal["follow", "additive", "off"]
"""Which changes of a table's columns are taken: new and wider ones, new ones, none."""


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
    """Incoming columns, and fields inside columns, that the table did not have; all nullable."""
    widened: tuple[str, ...]
    """The table's columns, and fields inside columns, that get a wider type."""
    missing: tuple[str, ...]
    """The table's nullable columns that the input lacks: they are filled with null."""
    reasons: tuple[str, ...]
    """Why the schema is refused, each with the column; empty unless refused."""
    fills_unavailable: bool = False
    """Whether values may be placeholders, see `hudi.merge.unavailable`."""

    def refused_by(self, evolution: Evolution) -> tuple[str, ...]:
        """Why the schema is refused, also by the rule of the table's columns."""
        off = {"follow": (), "additive": self.widened, "off": (*self.added, *self.widened)}[evolution]
        why = f"spec.schemaEvolution.mode is {evolution}"
        return (*self.reasons, *(f"column {each!r} is new or wider, and {why}" for each in off))

    @property
    def needs_merge(self) -> tuple[str, ...]:
        """Changes that hudi-rs cannot read in a file slice that has log files of before and after: those of before must
        be merged first. hudi-rs 0.5 fills up blocks that lack a column, and then takes no narrower type in them, no
        array or map, since it does not know the elements' names, and no decimal inside a record. So no block may have
        a narrower type, since each will lack a column one day. Fields inside columns are not filled up at all. A
        placeholder in a block that is filled up is shown as data. For what a row's operation is it looks before that.
        """
        if self.fills_unavailable and self.added:
            return (*self.added, *self.widened)
        columns = (column["type"] for column in self.schema["fields"] if column["name"] not in self.added)
        if self.widened or (self.added and any(_cannot_be_filled_up(each) for each in columns)):
            return (*self.added, *self.widened)
        return tuple(each for each in self.added if "." in each or each == _OPERATION)


def compare_schemas(
    table: AvroSchema, incoming: AvroSchema, fixed: Collection[str] = (), *, fills_unavailable: bool = False
) -> SchemaComparison:
    """Compare a table's Avro schema with that of rows to be written; meta columns in either are ignored.

    Columns, and fields inside them, are matched by name; their order does not matter. Allowed are new nullable ones,
    absent nullable ones, a required value for a nullable one, and a wider type of one for that of the other, unless it
    is one of the `fixed` columns. Refused are other changes of types, nulls for what is required, new or absent
    required ones, and names that differ from the table's in case only. `fills_unavailable`: as of the comparison.
    """
    union = _Union(frozenset(fixed))
    columns = union.of_fields("", _columns(table), _columns(incoming))
    missing = tuple(name for name in _columns(table) if name not in _columns(incoming))
    return SchemaComparison(
        fit=Fit.REFUSED if union.reasons else Fit.EVOLVED if union.added or union.widened else Fit.SAME,
        schema={**table, "fields": columns},
        added=tuple(union.added),
        widened=tuple(union.widened),
        missing=missing,
        reasons=tuple(union.reasons),
        fills_unavailable=fills_unavailable,
    )


def joined(schema: AvroSchema, unseen: AvroSchema) -> AvroSchema:
    """A commit's schema with the nullable columns and the wider types of another one that it could not see, as that
    completed after its request. Where the two conflict the first stays. Without meta columns.
    """
    known = {name.lower(): name for name in _columns(schema)}
    columns = [
        column
        for name, column in _columns(unseen).items()
        if known.get(name.lower(), name) == name and (name.lower() in known or _is_nullable(column["type"]))
    ]
    return compare_schemas(schema, {**unseen, "fields": columns}).schema


def widened(column: Column, wanted: pa.DataType) -> Column:
    """Values of a column of before its type was widened. A float becomes a double by its shortest text, so that 0.1
    stays 0.1: Hudi's readers (HoodieAvroUtils, rewriting primitive types) and hudi-rs do it so with files that are not
    merged, also inside records, arrays and maps. Raises ArrowInvalid if a value does not fit.
    """
    # Arrow refuses to cast a null of a struct with a member that must have a value, even to its own type.
    if column.type == wanted:
        return column
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([converted(each, wanted, exact) for each in column.chunks], wanted)
    return converted(column, wanted, exact)


@dataclass(slots=True)
class _Union:
    """Joins two types to the one that has values of both, and notes what changes by that, and what cannot be."""

    fixed: frozenset[str]
    added: list[str] = field(default_factory=list)
    widened: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def of_fields(
        self, above: str, stored: dict[str, dict[str, Any]], arriving: dict[str, dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Columns, or the fields of a record at the path `above`, which ends with a point."""
        joined = []
        known = {}
        for name, column in stored.items():
            known[name.lower()] = name
            if name in arriving:
                joined.append({**column, "type": self._of(above + name, column["type"], arriving[name]["type"])})
                continue
            joined.append(column)
            if not _is_nullable(column["type"]):
                why = "is required by the table but missing in the input; select it"
                self.reasons.append(f"column {above + name!r} {why}")
        for name, column in arriving.items():
            if name not in stored:
                joined.append(column)
                self._new(above + name, column, None if name.lower() not in known else above + known[name.lower()])
        return joined

    def _new(self, path: str, column: dict[str, Any], twin: str | None) -> None:
        self.added.append(path)
        if twin is not None:
            why = f"Spark's readers cannot tell them apart; name it {twin!r}, for example in transform.sql"
            self.reasons.append(f"column {path!r} is {twin!r} in the table: {why}")
        if not _is_nullable(column["type"]):
            why = "is new and not nullable; rows already in the table have no value for it: make it nullable"
            self.reasons.append(f"column {path!r} {why}")

    def _of(self, path: str, stored: Any, arriving: Any) -> Any:
        """The type; names of nested types are the table's."""
        if _is_nullable(arriving) and not _is_nullable(stored):
            why = "is required by the table but nullable in the input; filter or replace its nulls"
            self.reasons.append(f"column {path!r} {why}")
            return stored
        one, other = _value_type(stored), _value_type(arriving)
        joined: Any = one
        if _kind(one) != _kind(other):
            joined = self._wider(path, one, other)
        elif one["type"] == "array":
            joined = {**one, "items": self._of(f"{path}.element", one["items"], other["items"])}
        elif one["type"] == "map":
            joined = {**one, "values": self._of(f"{path}.value", one["values"], other["values"])}
        elif one["type"] == "record":
            joined = {**one, "fields": self.of_fields(f"{path}.", _columns(one), _columns(other))}
        if joined == one:
            return stored
        return ["null", joined] if _is_nullable(stored) else joined

    def _wider(self, path: str, one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
        if path.partition(".")[0] not in self.fixed:
            if _is_wider(one, other):
                return one
            if _is_wider(other, one):
                self.widened.append(path)
                return other
        self.reasons.append(f"column {path!r} is {_shown(one)} in the table but {_shown(other)} in the input; cast it")
        return one


def _is_wider(wide: dict[str, Any], narrow: dict[str, Any]) -> bool:
    if "decimal" == wide.get("logicalType") == narrow.get("logicalType") and wide["type"] == narrow["type"]:
        behind = wide.get("scale", 0) - narrow.get("scale", 0)
        return 0 <= behind <= wide["precision"] - narrow["precision"] > 0
    return (_kind(narrow), _kind(wide)) in _WIDENED


def _cannot_be_filled_up(avro: Any, *, inside: bool = False) -> bool:
    kind = _value_type(avro)
    if kind["type"] == "record":
        return any(_cannot_be_filled_up(each["type"], inside=True) for each in kind["fields"])
    return kind["type"] in {"array", "map"} or (inside and kind.get("logicalType") == "decimal")


def _columns(schema: AvroSchema) -> dict[str, dict[str, Any]]:
    return {field["name"]: field for field in schema["fields"] if field["name"] not in META_COLUMNS}


def _is_nullable(avro: Any) -> bool:
    return isinstance(avro, list) and "null" in avro


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
