"""What the table must have after messages of random schemas, said in another way than the product says it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import numpy as np

from support.evolution.chains import Field, FormatName

Kinds = dict[tuple[str, ...], str]
"""Path of a value → its kind; the shape of what is around it has the path ending in ""."""

_JOINED: Final = {
    ("int", "long"): "long",
    ("int", "double"): "double",
    ("float", "double"): "double",
    ("int", "float"): "double",
    ("float", "int"): "double",
    ("decimal", "finer"): "finer",
}
_READ_AS: Final = {
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "decimal": {"finer"},
    "string": {"bytes"},
    "bytes": {"string"},
}
_COUNTS: Final = {"date": {"int", "long", "float", "double"}, "time": {"long", "float", "double"}}
"""Avro's times where a column has numbers: then what they count is the value, in the message's own unit."""
_UNITS: Final = {"date": timedelta(1), "time": timedelta(milliseconds=1), "micros": timedelta(microseconds=1)}
_SINCE: Final = {"date": date(1970, 1, 1), **dict.fromkeys(["time", "micros"], datetime(1970, 1, 1, tzinfo=UTC))}
_STORED: Final = {("int", "long"), ("int", "double"), ("float", "double"), ("decimal", "finer")}


def kinds_of(version: Sequence[Field]) -> Kinds:
    found: Kinds = {}
    for each in version:
        kind = "time" if each.kind == "micros" else each.kind
        found[each.name, ""] = each.shape
        if each.shape in {"plain", "times"}:
            found[(each.name,)] = kind if each.shape == "plain" else "time"
        elif each.shape == "map":
            found[each.name, "value"] = kind
        else:
            found |= {(each.name, name): kind for name in each.inside}
    return found


def _joined(reader: Kinds, message: Kinds, format_: FormatName) -> Kinds | None:
    """The reader's columns after a schema came; None if its messages cannot be read. In JSON text has what is there,
    whatever it is, and whether a number is a whole one is seen value by value. In Protobuf a single value is an array
    of one, and a bool is a number.
    """
    is_json, is_protobuf = format_ == "json", format_ == "protobuf"
    found = dict(reader)
    for path, kind in message.items():
        if is_json and (reader.get(path[:1], reader.get(path)) == "string"):
            continue
        if is_json and _is_looked_at(reader.get((path[0], "")), message[path[0], ""]):
            continue
        known = found.setdefault(path, kind)
        if known == kind or (is_protobuf and (known in {"int", "long"}) and kind == "boolean"):
            continue
        if is_protobuf and _is_one_of(known, kind, message.get(path[:1])):
            continue
        wider = _JOINED.get((known, kind))
        if wider is not None:
            found[path] = wider
        elif format_ == "avro" and known in _COUNTS.get(kind, ()):
            continue
        elif known not in _READ_AS.get(kind, ()) and not (is_json and (known, kind) == ("long", "double")):
            return None
    return found


def _is_one_of(known: str, shape: str, kind: str | None) -> bool:
    """Whether a single value of the shape, or of the kind if it is plain, may be an array's only one."""
    return (known, shape) == ("array", "record") or (known, shape, kind) == ("times", "plain", "time")


def _is_looked_at(known: str | None, shape: str) -> bool:
    """Whether JSON's objects are a map to one schema and a record to the other: each value is looked at."""
    return {known, shape} == {"map", "record"}


def _stored(table: Kinds, columns: Kinds) -> Kinds | None:
    """The table's columns after it took others; None if it cannot. Symbols of an enum are text."""
    found = dict(table)
    for path, of_message in columns.items():
        kind = "string" if of_message == "enum" else of_message
        known = found.setdefault(path, kind)
        known = "string" if known == "enum" else known
        if (known, kind) in _STORED:
            found[path] = kind
        elif known != kind and (kind, known) not in _STORED:
            return None
    return found


@dataclass
class Expected:
    """Rows by their keys, and what decides about the next ones."""

    format: FormatName = "avro"
    table: Kinds = field(default_factory=dict)
    reader: Kinds = field(default_factory=dict)
    defaults: dict[str, int] = field(default_factory=dict)
    kept: tuple[Kinds, Kinds, dict[str, int]] | None = None
    """All three as of the last instant."""
    known: dict[int, Sequence[Field]] = field(default_factory=dict)
    """Versions of which the process has seen messages, by their ids."""
    refused: set[int] = field(default_factory=set)
    """Those whose columns the table did not take."""
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    rounded: int = 0
    """Dead letters of numbers that a column would round."""

    def _kinds_of(self, version: Sequence[Field]) -> Kinds:
        """Protobuf's readers see an enum's symbols as text; Avro's and JSON's ask for the symbols."""
        kinds = kinds_of(version)
        return {
            path: "string" if kind == "enum" and self.format == "protobuf" else kind for path, kind in kinds.items()
        }

    def starts(self, newest: Sequence[Field]) -> None:
        """A process starts with the columns of the last instant, or without one with the newest version's."""
        self.known, self.refused = {}, set()
        kinds = self._kinds_of(newest)
        self.table, self.reader, self.defaults = self.kept or (kinds, kinds, self._defaults(newest))

    def takes(self, messages: Sequence[tuple[int, Sequence[Field], dict[str, Any]]]) -> list[int]:
        """A micro-batch of messages with ids and versions; those that are dead letters."""
        self.takes_columns(messages)
        letters = []
        for at, (number, version, row) in enumerate(messages):
            is_row = number not in self.refused and self._joined(version) == self.reader
            values = {each.name: self._value(each, row[each.name]) for each in version} if is_row else {}
            if not is_row or any(_rounds(each) for each in values.values()):
                letters.append(at)
                self.rounded += is_row
                continue
            missing = {name: value for name, value in self.defaults.items() if name not in values}
            self.rows[row["id"]] = {**missing, **values}
        return letters

    def takes_columns(self, messages: Sequence[tuple[int, Sequence[Field], dict[str, Any]]]) -> None:
        """What these messages add to the columns. Each start has it from the request of their instant on."""
        self.known |= {number: version for number, version, _ in messages}
        while self._grows():
            pass
        self.kept = self.table, self.reader, self.defaults

    def _grows(self) -> bool:
        for number in sorted(self.known.keys() - self.refused):
            joined = self._joined(self.known[number])
            if joined is None or joined == self.reader:
                continue
            table = _stored(self.table, joined)
            if table is None:
                self.refused.add(number)
                continue
            new = {
                name: each for name, each in self._defaults(self.known[number]).items() if (name, "") not in self.reader
            }
            self.table, self.reader, self.defaults = table, joined, {**self.defaults, **new}
            return True
        return False

    def _joined(self, version: Sequence[Field]) -> Kinds | None:
        return _joined(self.reader, self._kinds_of(version), self.format)

    def _defaults(self, version: Sequence[Field]) -> dict[str, int]:
        if self.format != "avro":
            return {}
        return {each.name: each.avro()["default"] for each in version if each.has_default}

    def _value(self, of: Field, value: Any) -> Any:
        known = self.reader[of.name, ""]
        kind = "time" if of.kind == "micros" else of.kind
        if self.format == "protobuf" and _is_one_of(known, of.shape, kind):
            return [] if value is None else [self._of_shape(of, value)]
        return self._of_shape(of, value)

    def _of_shape(self, of: Field, value: Any) -> Any:
        if value is None or of.shape == "times":
            return value
        is_text = (of.shape, of.kind) == ("plain", "string")
        if self.format == "json" and not is_text and self.reader.get((of.name,)) == "string":
            return json.dumps(value)
        if self.format == "json" and _is_looked_at(known := self.reader.get((of.name, "")), of.shape):
            if known == "map":
                return [(key, self._looked_at((of.name, "value"), of.kind, each)) for key, each in value.items()]
            inside = [path for path in self.reader if path[0] == of.name and path[1:] not in {(), ("",)}]
            return {path[1]: self._looked_at(path, of.kind, value.get(path[1])) for path in inside}
        if of.shape == "plain":
            return self._number((of.name,), of.kind, value)
        if of.shape == "map":
            return [(key, self._number((of.name, "value"), of.kind, each)) for key, each in value.items()]
        records = [
            {name: self._number((of.name, name), of.kind, each) for name, each in record.items()}
            for record in (value if of.shape == "array" else [value])
        ]
        return records if of.shape == "array" else records[0]

    def _looked_at(self, path: tuple[str, ...], kind: str, value: Any) -> Any:
        if value is None or kind == self.reader[path] or {kind, self.reader[path]} <= {"long", "double"}:
            return value if value is None else self._number(path, kind, value)
        return self._number(path, kind, value) if self.reader[path] == "string" else _ROUNDED

    def _number(self, path: tuple[str, ...], kind: str, value: Any) -> Any:
        wanted = self.reader[path]
        if self.format == "json" and wanted == "string" and kind != "string":
            return json.dumps(value)
        if kind == "boolean" and wanted in {"int", "long"}:
            return int(value)
        if kind in _UNITS and wanted in _COUNTS["date"]:
            kind, value = "long", (value - _SINCE[kind]) // _UNITS[kind]
        if {kind, wanted} == {"string", "bytes"}:
            return value.encode() if wanted == "bytes" else value.decode()
        if kind == "float" and wanted in {"float", "double"}:
            return float(str(np.float32(value)))
        if wanted == "long" and kind == "double":  # a number with a point is no whole one
            return _ROUNDED
        if self.format == "json" and wanted == "double":  # JSON's numbers have no kinds
            return float(value)
        if kind in {"int", "long"} and wanted in {"float", "double"}:
            shown = Decimal(str(np.float32(value))) if wanted == "float" else float(value)  # by its text when widened
            return float(value) if shown == value else _ROUNDED
        return value


_ROUNDED: Final = object()


def _rounds(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_rounds, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_rounds, value))
    return value is _ROUNDED


def same(found: Any, expected: Any) -> bool:
    """Values are the same. A float column's are compared by their text."""
    if isinstance(found, dict):
        expected = expected or dict.fromkeys(found)
        return found.keys() >= expected.keys() and all(same(each, expected.get(name)) for name, each in found.items())
    if isinstance(found, list | tuple):
        if found and isinstance(found[0], tuple):  # a map: Protobuf keeps no order
            found, expected = sorted(found), sorted(expected)
        together = isinstance(expected, list | tuple) and len(found) == len(expected)
        return together and all(same(one, other) for one, other in zip(found, expected, strict=True))
    if isinstance(found, float) and isinstance(expected, float):
        return expected in {found, float(str(np.float32(found)))}
    return bool(found == expected)
