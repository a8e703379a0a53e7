"""The schema of the columns grows with the schemas of the messages: old and new producers write at the same time, so it
is the union of theirs, not the newest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from bucketingest.decode.avro.column_types import DIGITS_MAX, branches_of, columns_of
from bucketingest.decode.avro.resolution import (
    ANY_NAME,
    ANY_SYMBOL,
    CONNECT_NAME,
    EXACT,
    Incompatible,
    fields_read,
    is_renamed,
    resolved,
)
from bucketingest.decode.avro.schema import AvroRecord, UnreadableSchema, read_reader, read_writer

_WIDER: Final = {
    ("int", "long"): "long",
    ("int", "double"): "double",
    ("float", "double"): "double",
    ("int", "float"): "double",
    ("float", "int"): "double",
}
"""A column's type and the message's to the one that has all values of both; see `hudi.table.schema_evolution`."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MEMBER: Final = re.compile(r"member[0-9]+")
_MEANINGS: Final = ("logicalType", CONNECT_NAME)
"""Attributes that say what a number counts: of another one it is not only a wider type."""


def lenient(text: str) -> str:
    """The reader's schema with all values that its columns take: nulls, and every symbol of an enum, which is text. A
    field that a message's schema lacks is null, or its default. A number of another type is the same number, or not
    taken. Names of types inside count for nothing: the field's says what it is. Raises UnreadableSchema.
    """
    record = _lenient(read_reader(text))
    return json.dumps({name: each for name, each in record.items() if name != ANY_NAME})


def grown(reader_text: str, writer_text: str, *, widens: bool = True) -> tuple[str, tuple[str, ...]]:
    """The reader's schema with what the writer's has more: fields behind its own, and wider types; and the paths of
    what has changed.

    A field that cannot be a column, or has a column's name in another case or one of Hudi's own, is left out. No other
    type is changed. A record whose aliases name the reader's is the same under another name, which the reader has then
    as an alias. If messages of the writer's schema cannot be read with the result, nothing is changed. Not `widens`: no
    type is, and messages with a wider one count as those that cannot be read. Raises UnreadableSchema.
    """
    changed = _Changed(widens)
    writer = read_writer(writer_text)
    reader = _of_record(_with_name(read_reader(reader_text), writer, changed), writer, "", changed)
    try:
        resolved(writer, reader, columns_of(reader))
    except Incompatible:
        return reader_text, ()
    return json.dumps(reader), tuple(changed)


def fitted(reader: Any, writer: Any, fit: Callable[[dict[str, Any], dict[str, Any]], Any]) -> Any:
    """The writer's type, with what `fit` makes of each of the reader's and the writer's inside that are not both
    records, arrays or maps: a format may take more for a value of the reader's than Avro does.
    """
    one, other = value_of(reader), value_of(writer)
    if one is None or other is None:
        return writer
    match one["type"], other["type"]:
        case "record", "record":
            known = {each["name"]: each["type"] for each in one["fields"]}
            fields = [
                {**each, "type": fitted(known[each["name"]], each["type"], fit)} if each["name"] in known else each
                for each in other["fields"]
            ]
            return {**other, "fields": fields}
        case "array", "array":
            return {**other, "items": fitted(one["items"], other["items"], fit)}
        case "map", "map":
            return {**other, "values": fitted(one["values"], other["values"], fit)}
    return fit(one, other)


def columns_in_all(reader_text: str) -> int:
    """Columns, and fields inside them. Raises UnreadableSchema."""
    return _count(columns_of(read_reader(reader_text)))


def _count(fields: Iterable[pa.Field]) -> int:
    return sum(1 + _count(each.type.field(at) for at in range(each.type.num_fields)) for each in fields)


def left_out(reader_text: str, writer_text: str) -> tuple[str, ...]:
    """Paths of the writer's fields that are read as no column. Raises UnreadableSchema."""
    return tuple(_left_out(read_reader(reader_text), read_writer(writer_text), ""))


def _left_out(reader: Any, writer: Any, path: str) -> Iterator[str]:
    if isinstance(writer, list) and len(branches_of(writer)) > 1:
        for branch in branches_of(writer):
            yield from _left_out(reader, branch, path)
    one, other = value_of(reader), value_of(writer)
    if one is None or other is None or one["type"] != other["type"]:
        return
    if one["type"] == "record":
        read_as = fields_read(other, one)
        above = path and f"{path}."
        for field in other["fields"]:
            name = field["name"]
            if name in read_as:
                yield from _left_out(read_as[name]["type"], field["type"], above + name)
            else:
                yield above + name
    elif one["type"] == "array":
        yield from _left_out(one["items"], other["items"], f"{path}.element")
    elif one["type"] == "map":
        yield from _left_out(one["values"], other["values"], f"{path}.value")


class _Changed(list[str]):
    """Paths of what has changed. `widens`: types may be, too."""

    def __init__(self, widens: bool) -> None:  # noqa: FBT001 - the only one
        super().__init__()
        self.widens = widens


def _with_name(reader: AvroRecord, writer: AvroRecord, changed: _Changed) -> AvroRecord:
    """The reader with the writer's name as an alias, if the writer's aliases name the reader."""
    if not is_renamed(writer, reader):
        return reader
    changed.append(f"the record's name {writer['name']}")
    return {**reader, "aliases": [*reader.get("aliases", ()), writer["name"]]}


def _of_record(reader: AvroRecord, writer: AvroRecord, above: str, changed: _Changed) -> AvroRecord:
    fields = {field["name"]: field for field in reader["fields"]}
    read_as = fields_read(writer, reader)
    taken = {name.lower() for field in fields.values() for name in (field["name"], *field.get("aliases", ()))}
    for field in writer["fields"]:
        name, kind = field["name"], field["type"]
        if name in read_as:
            mine = read_as[name]
            fields[mine["name"]] = {**mine, "type": _of_type(mine["type"], kind, above + mine["name"], changed)}
        elif name.lower() not in taken and (above or not _is_hudis(name)) and _is_column(name, kind):
            taken.add(name.lower())
            fields[name] = _optional({**_unnamed(field), "type": _lenient(kind)})
            changed.append(above + name)
    return {**reader, "fields": list(fields.values())}


def _of_type(reader: Any, writer: Any, path: str, changed: _Changed) -> Any:
    if isinstance(writer, list) and len(branches_of(writer)) > 1:  # each value is of one of them
        for branch in branches_of(writer):
            reader = _of_type(reader, branch, path, changed)
        return reader
    one, other = value_of(reader), value_of(writer)
    if one is None or other is None:
        return reader
    kind, joined = one["type"], one
    if kind != other["type"]:
        wider = _WIDER.get((kind, other["type"]))
        if (
            wider is not None
            and changed.widens
            and not any(each.get(name) for each in (one, other) for name in _MEANINGS)
        ):
            joined = _lenient({"type": wider})
            changed.append(path)
    elif kind == "record":
        joined = _of_record(one, other, f"{path}.", changed)
    elif kind == "array":
        joined = {**one, "items": _of_type(one["items"], other["items"], f"{path}.element", changed)}
    elif kind == "map":
        joined = {**one, "values": _of_type(one["values"], other["values"], f"{path}.value", changed)}
    elif changed.widens and (digits := _more_digits(one, other)):
        joined = {**one, **digits}
        changed.append(path)
    if joined is one:
        return reader
    return joined if not isinstance(reader, list) else [each if each == "null" else joined for each in reader]


def _more_digits(reader: dict[str, Any], writer: dict[str, Any]) -> dict[str, int]:
    """Precision and scale of the decimal with the digits of both, before and behind the point; none if the reader's
    has all, there is no such decimal, or they are others.
    """
    if not reader.get("logicalType") == writer.get("logicalType") == "decimal":
        return {}
    behind = [each.get("scale") or 0 for each in (reader, writer)]
    before = [each["precision"] - scale for each, scale in zip((reader, writer), behind, strict=True)]
    precision = max(before) + max(behind)
    if max(behind) > behind[0] and precision > DIGITS_MAX:
        return {}  # a column of fewer digits before the point than it had
    return {} if precision == reader["precision"] else {"precision": precision, "scale": max(behind)}


def value_of(kind: Any) -> dict[str, Any] | None:
    """The type of what is not null; None for a union of several."""
    if not isinstance(kind, list):
        return dict(kind)
    others = branches_of(kind)
    return others[0] if len(others) == 1 else None


def _is_hudis(name: str) -> bool:
    """Whether Hudi's readers take a column of the name for their own. Such as _hoodie_is_deleted, whose rows they do
    not show, or _hoodie_operation, which hudi-rs 0.5 misses in files of before and then reads nothing.
    """
    return name.lower().startswith("_hoodie_")


def _is_column(name: str, kind: Any) -> bool:
    field = {"name": name, "type": kind}
    try:
        (column,) = columns_of(read_reader(json.dumps({"type": "record", "name": "of_one_field", "fields": [field]})))
    except (UnreadableSchema, ValueError):  # the latter for a type inside itself
        return False
    return not _is_in_no_table(column)


def _is_in_no_table(column: pa.Field) -> bool:
    """Whether a name of other letters than ASCII's is in it, a time without a zone, or a record that Hudi's readers
    take for a union: see `arrow_to_avro`.
    """
    kind = column.type
    inside = [kind.field(at) for at in range(kind.num_fields)]
    if _NAME.fullmatch(column.name) is None:
        return True
    if pa.types.is_timestamp(kind):
        return bool(kind.tz is None)
    if pa.types.is_struct(kind) and inside and all(_MEMBER.fullmatch(each.name) for each in inside):
        return True
    return any(map(_is_in_no_table, inside))


def _lenient(kind: Any) -> Any:
    if isinstance(kind, list):
        return [_lenient(each) for each in kind]
    match kind if isinstance(kind, str) else kind["type"]:
        case "record":
            fields = [_optional({**field, "type": _lenient(field["type"])}) for field in kind["fields"]]
            return {**kind, "fields": fields, ANY_NAME: True}
        case "array":
            return {**kind, "items": _nullable(_lenient(kind["items"]))}
        case "map":
            return {**kind, "values": _nullable(_lenient(kind["values"]))}
        case "enum":
            return {**kind, ANY_SYMBOL: True, ANY_NAME: True}
        case "fixed":
            return {**kind, ANY_NAME: True}
        case "float" | "double" as name:
            return {"type": name, EXACT: True}
    return kind


def _unnamed(field: dict[str, Any]) -> dict[str, Any]:
    """Without aliases: a column that is there already would change its place."""
    return {name: value for name, value in field.items() if name != "aliases"}


def _optional(field: dict[str, Any]) -> dict[str, Any]:
    """With the default that messages without the field have, if it is one."""
    optional = {**field, "type": _nullable(field["type"]), "default": field.get("default")}
    one = {"type": "record", "name": "of_one_field", "fields": [optional]}
    try:
        resolved({**one, "fields": []}, one, columns_of(one))
    except Incompatible:
        optional["default"] = None
    return optional


def _nullable(kind: Any) -> list[Any]:
    return ["null", *(branches_of(kind) if isinstance(kind, list) else [kind])]
