"""Resolves a writer's schema with a reader's, by the rules of Avro's specification: what each message then is, as
`avro/columns` and `exact` read it.

A pair of schemas that cannot be resolved in some field is refused as a whole, whatever a message has in that field.
"""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any, Final

import pyarrow as pa

from bucketingest.decode.avro.schema import AvroRecord

_PROMOTED: Final = {
    "int": frozenset(["int", "long", "float", "double"]),
    "long": frozenset(["long", "float", "double"]),
    "float": frozenset(["float", "double"]),
    "string": frozenset(["string", "bytes"]),
    "bytes": frozenset(["bytes", "string"]),
}
"""Type of the writer's → types that it can be read as."""
_NAMED: Final = frozenset(["record", "enum", "fixed"])
_NOTHING: Final = {"type": "null"}
"""A type with no value but null."""
ANY_SYMBOL: Final = "anySymbol"
"""In an enum of a reader's schema: symbols that it lacks are values too. This is no attribute of Avro's."""
ANY_NAME: Final = "anyName"
"""In a record, enum or fixed of a reader's schema: it is read whatever its name is. This is no attribute of Avro's."""
EXACT: Final = "exact"
"""In a float or double of a reader's schema: a value of another type is the same number, or none. This is no attribute
of Avro's, either, which rounds.
"""
EITHER: Final = "either"
"""A resolved union of several types, whose values are all of the reader's one."""
REFUSED: Final = "refused"
"""A branch of it whose values the reader does not take; `why`."""
SHIFT: Final = "shift"
"""In a resolved decimal: so many more digits behind the point the column has."""
_SAME_TIMES: Final = [
    {"timestamp-millis", "timestamp-micros"},
    {"local-timestamp-millis", "local-timestamp-micros"},
]
CONNECT_NAME: Final = "connect.name"
"""Kafka Connect's attribute for what a type means."""
_LOGICAL: Final = ("logicalType", "precision", "scale", EXACT)
_CONTEXT: Final = Context(prec=38)
_THOUSAND: Final = 1000


class Incompatible(Exception):
    """No message of the writer's schema can be read as the reader's."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why
        self.path: list[str] = []
        """Names of the fields around it, innermost first."""

    def within(self) -> str:
        """The reason, with the field inside if it is one."""
        return f"has the field {'.'.join(reversed(self.path))} which {self.why}" if self.path else self.why

    def __str__(self) -> str:
        return f"field {'.'.join(reversed(self.path))} {self.why}" if self.path else f"the record {self.why}"


def resolved(writer: AvroRecord, reader: AvroRecord, columns: pa.Schema) -> AvroRecord:
    """How messages of the writer's schema become the reader's columns. Raises Incompatible."""
    return _record(writer, reader, columns)


def fields_read(writer: AvroRecord, reader: AvroRecord) -> dict[str, dict[str, Any]]:
    """Names of the writer's fields → fields of the reader's that they are read as."""
    names = {field["name"] for field in writer["fields"]}
    read_as: dict[str, dict[str, Any]] = {}
    for field in reader["fields"]:
        known = (field["name"], *field.get("aliases", ()))
        found = next((name for name in known if name in names and name not in read_as), None)
        if found is not None:
            read_as[found] = field
    return read_as


def _type(writer: Any, reader: Any, kind: pa.DataType) -> Any:
    nullable, inner = _split(reader)
    if isinstance(writer, list):
        return _union(writer, inner, kind, nullable=nullable)
    return _value(writer, inner, kind)


def _union(writer: list[Any], reader: dict[str, Any], kind: pa.DataType, *, nullable: bool) -> Any:
    """Each value is of one branch: of several, some may be what the reader takes and others not."""
    branches: list[Any] = []
    refused: list[Incompatible] = []
    for branch in writer:
        try:
            branches.append("null" if branch == "null" else _value(branch, reader, kind))
        except Incompatible as error:
            refused.append(error)
            branches.append({"type": REFUSED, "why": f"it {error.within()}"})
    others = len(writer) - writer.count("null")
    if refused and len(refused) == others:
        raise refused[0]
    if not others:
        raise Incompatible("is always null")
    if others == 1:
        return branches if nullable or "null" not in writer else {"type": "required", "branches": branches}
    null = "null" if nullable else {"type": REFUSED, "why": "null, which is no value of this field"}
    return {"type": EITHER, "branches": [null if branch == "null" else branch for branch in branches]}


def _split(avro: Any) -> tuple[bool, dict[str, Any]]:
    """Whether null is a value of the type, and the type of the others."""
    if not isinstance(avro, list):
        return False, avro
    return "null" in avro, next(branch for branch in avro if branch != "null")


def _value(writer: dict[str, Any], reader: dict[str, Any], kind: pa.DataType) -> dict[str, Any]:
    written, wanted = writer["type"], reader["type"]
    if wanted not in _PROMOTED.get(written, {written}):
        shown, other = _shown(writer), _shown(reader)
        if shown == other:  # such as a decimal in bytes and one of a fixed size
            shown, other = f"{shown} of {written}", f"{other} of {wanted}"
        raise Incompatible(f"is {shown} and cannot be read as {other}")
    if written in _NAMED:
        _check_name(writer, reader)
    match written:
        case "record":
            return _record(writer, reader, kind)
        case "array":
            return {"type": written, "items": _type(writer["items"], reader["items"], kind.value_type)}
        case "map":
            return {"type": written, "values": _type(writer["values"], reader["values"], kind.item_type)}
        case "enum":
            return {"type": written, "symbols": _symbols(writer, reader)}
        case "fixed" if writer["size"] != reader["size"]:
            raise Incompatible(f"has {writer['size']} bytes, not {reader['size']}")
    logical = _logical(writer, reader)
    if _named_unit(writer) != _named_unit(reader) and _named_unit(writer) and _named_unit(reader):
        raise Incompatible(f"is {writer[CONNECT_NAME]}, not {reader[CONNECT_NAME]}")
    if written != wanted and {written, wanted} == {"string", "bytes"}:
        if logical.get("logicalType") == "decimal":  # the characters of a number are not its digits in binary
            raise Incompatible(f"is {_shown(writer)} and cannot be read as {_shown(reader)}")
        return {"type": wanted, **logical}  # the same bytes
    found = {"type": written, **logical}
    return found if written != "fixed" else found | {"size": writer["size"]}


def _record(writer: AvroRecord, reader: AvroRecord, columns: Any) -> AvroRecord:
    _check_name(writer, reader)
    read_as = fields_read(writer, reader)
    found = {field["name"] for field in read_as.values()}
    missing = [field for field in reader["fields"] if field["name"] not in found]
    kinds = {column.name: column.type for column in columns}
    fields = []
    for field in writer["fields"]:
        wanted = read_as.get(field["name"])
        if wanted is None or (field["type"] == _NOTHING and _split(wanted["type"])[0]):
            fields.append({"name": None, "type": field["type"]})
            missing += [{**wanted, "default": None}] if wanted else []
            continue
        try:
            fields.append({"name": wanted["name"], "type": _type(field["type"], wanted["type"], kinds[wanted["name"]])})
        except Incompatible as error:
            error.path.append(wanted["name"])
            raise
    defaults = {field["name"]: _default_column(field, kinds[field["name"]]) for field in missing}
    return {"type": "record", "fields": fields, "defaults": defaults}


def is_named(name: str, reader: AvroRecord) -> bool:
    """Whether it is the reader's name or one of its aliases."""
    return _unqualified(name) in {_unqualified(each) for each in (reader["name"], *reader.get("aliases", ()))}


def is_renamed(writer: AvroRecord, reader: AvroRecord) -> bool:
    """Whether the writer's is a newer name of the reader's: its aliases say so."""
    return not is_named(writer["name"], reader) and any(is_named(each, reader) for each in writer.get("aliases", ()))


def _check_name(writer: dict[str, Any], reader: dict[str, Any]) -> None:
    if not (reader.get(ANY_NAME) or is_named(writer["name"], reader) or is_renamed(writer, reader)):
        written, wanted = _unqualified(writer["name"]), _unqualified(reader["name"])
        raise Incompatible(f"is of the type {written}, not {wanted}: rename one, or name it in aliases")


def _symbols(writer: dict[str, Any], reader: dict[str, Any]) -> list[str | None]:
    if reader.get(ANY_SYMBOL):
        return list(writer["symbols"])
    known, otherwise = set(reader["symbols"]), reader.get("default")
    return [symbol if symbol in known else otherwise for symbol in writer["symbols"]]


def _default_column(field: dict[str, Any], kind: pa.DataType) -> pa.Array:
    """The default as a column of one row."""
    if "default" not in field:
        error = Incompatible("is not in it and has no default")
    else:
        try:
            return pa.array([_default(field["type"], field["default"])], kind)
        except (pa.ArrowException, TypeError, ValueError, KeyError, AttributeError, ArithmeticError):
            error = Incompatible("has a default that is no value of its type")
    error.path.append(field["name"])
    raise error


def _default(avro: Any, value: Any) -> Any:
    """A default, as JSON has it, as a value that Arrow takes."""
    nullable, inner = _split(avro)
    if value is None and nullable:
        return None
    logical = inner.get("logicalType", "")
    match inner["type"]:
        case "record":
            return {
                each["name"]: _default(each["type"], value.get(each["name"], each.get("default")))
                for each in inner["fields"]
            }
        case "array":
            return [_default(inner["items"], each) for each in value]
        case "map":
            return [(key, _default(inner["values"], each)) for key, each in value.items()]
        case "bytes" | "fixed":
            data = value.encode("latin-1")
            if logical != "decimal":
                return data
            return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-inner.get("scale", 0), _CONTEXT)
        case "long" if logical.endswith("-millis"):
            return value * _THOUSAND
    if value is None:
        raise TypeError("null")
    return value


def _unqualified(name: str) -> str:
    return name.rpartition(".")[2]


def _logical(writer: dict[str, Any], reader: dict[str, Any]) -> dict[str, Any]:
    """What a number of the writer's means in the reader's column. A time in another unit is the same time, and a
    decimal may have fewer digits behind the point; those in all do not count, each value is checked to fit.
    """
    found: dict[str, Any] = {name: reader[name] for name in _LOGICAL if name in reader}
    if "logicalType" not in writer or "logicalType" not in found:  # the type below it is what counts
        return found
    names = {writer["logicalType"], reader["logicalType"]}
    if "decimal" not in names and writer["type"] not in {"int", "long"}:  # text and bytes count nothing
        return found
    shift, most = 0, 0
    if names == {"decimal"}:
        shift, most = (reader.get("scale") or 0) - (writer.get("scale") or 0), reader["precision"] - 1
    if (len(names) > 1 and names not in _SAME_TIMES) or not 0 <= shift <= most:
        raise Incompatible(f"is {_shown(writer)}, not {_shown(reader)}")
    return {**found, "logicalType": writer["logicalType"], **({SHIFT: shift} if shift else {})}


def _named_unit(avro: dict[str, Any]) -> str:
    """What a number counts by the name that Kafka Connect gives it, such as milliseconds; Debezium's are the same."""
    return _unqualified(avro.get(CONNECT_NAME, "")) if avro["type"] in {"int", "long"} else ""


def _shown(avro: dict[str, Any]) -> str:
    if avro.get("logicalType") == "decimal":
        return f"decimal({avro.get('precision')},{avro.get('scale') or 0})"
    return str(avro.get("logicalType") or avro["type"])
