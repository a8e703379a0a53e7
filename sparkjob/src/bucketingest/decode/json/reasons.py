"""Why a message is no row, in words for a person who has the columns before them."""

from __future__ import annotations

import re
from typing import Final

import msgspec
import pyarrow as pa

_PLACE: Final = re.compile(r"(.*?)(?: - at `\$\.?(.*)`)?", re.DOTALL)
_KINDS: Final = re.compile(r"Expected `.*`, got `(\w+)`")
_BYTE: Final = re.compile(r"(?:JSON is malformed: )?(.*) \(byte ([0-9]+)\)", re.DOTALL)
_ITEM: Final = re.compile(r"\[(?:[0-9]+|\.\.\.)\]")
_WORDS: Final = {"str": "text", "int": "number", "float": "number", "bool": "true or false"}
_KIND_OF_FIRST: Final = {'"': "text", "{": "object", "[": "array", "t": "true or false", "f": "true or false"}
_SQL_TYPES: Final = {
    pa.bool_(): "BOOLEAN",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.date32(): "DATE",
    pa.timestamp("us", "UTC"): "TIMESTAMP",
}


def why_refused(error: Exception, message: bytes, row: pa.DataType, unit: int) -> str:
    """What msgspec found wrong with a message. `row`: the columns; `unit`: see `times.MICROS_OF`."""
    if isinstance(error, RecursionError):
        return "it has too many levels of objects and arrays"
    if not isinstance(error, msgspec.ValidationError):
        return _why_no_json(str(error), message)
    found = _PLACE.fullmatch(str(error))
    assert found is not None, "the pattern matches all"
    what, path = found[1], found[2] or ""
    kinds = _KINDS.fullmatch(what)
    if not path:
        got = kinds[1] if kinds else what
        return "null instead of a row" if got == "null" else f"an object is expected, not {_WORDS.get(got, got)}"
    wanted = _type_at(row, path)
    return f"field {path}: {_why_not(what, kinds and kinds[1], wanted, unit)}"


def kind_of(text: str) -> str:
    """Of a JSON value that is not null, in words."""
    return _KIND_OF_FIRST.get(text[:1], "number")


def unexpected(wanted: pa.DataType, kind: str, unit: int = 0) -> str:
    """That a value of this kind is none of the column."""
    if pa.types.is_timestamp(wanted) and kind == "number":
        return "a number is no TIMESTAMP: format.timestamps says whether numbers are seconds, millis or micros"
    return f"{_expected(wanted, unit)} is expected, not {kind}"


def sql_type(wanted: pa.DataType) -> str:
    """Of a column that has no columns inside."""
    if pa.types.is_decimal(wanted):
        return f"DECIMAL({wanted.precision},{wanted.scale})"
    return _SQL_TYPES[wanted]


def shortened(text: str) -> str:
    """As much of a text as one wants to read."""
    return text if len(text) <= 40 else f"{text[:37]}..."


def _why_no_json(what: str, message: bytes) -> str:
    if not message.strip():
        return "the message is empty"
    if found := _BYTE.fullmatch(what):
        return f"byte {int(found[2]) + 1}: it is no JSON: {found[1]}"
    return "it is no JSON: it ends too early, or an escape \\u is half of a character"


def _why_not(what: str, got: str | None, wanted: pa.DataType, unit: int) -> str:
    if got is None:
        if pa.types.is_binary(wanted):
            return "the text is not Base64"
        if pa.types.is_floating(wanted) and what.startswith("Invalid enum value"):
            return unexpected(wanted, "text")
        return f"the number does not fit into {sql_type(wanted)}"
    if pa.types.is_integer(wanted) and got == "float":
        return f"a whole number ({sql_type(wanted)}) is expected, not one with a point or an exponent"
    return unexpected(wanted, _WORDS.get(got, got), unit)


def _expected(wanted: pa.DataType, unit: int) -> str:
    if pa.types.is_struct(wanted) or pa.types.is_map(wanted):
        return "an object"
    if pa.types.is_list(wanted):
        return "an array"
    if pa.types.is_boolean(wanted):
        return "true or false"
    if pa.types.is_binary(wanted):
        return "text in Base64"
    if pa.types.is_temporal(wanted):
        return f"text with a {sql_type(wanted)}" + (", or a number," if unit else "")
    return f"a number ({sql_type(wanted)})"


def _type_at(wanted: pa.DataType, path: str) -> pa.DataType:
    """The type of the field at a path of msgspec, which may be within names that have points or brackets."""
    if not path:
        return wanted
    if pa.types.is_struct(wanted):
        fields = [wanted.field(at) for at in range(wanted.num_fields)]
        fitting = [field for field in fields if _begins(path, field.name)]
        field = max(fitting, key=lambda each: len(each.name))
        return _type_at(field.type, path[len(field.name) :].removeprefix("."))
    item = _ITEM.match(path)
    assert item is not None, path
    inner = wanted.value_type if pa.types.is_list(wanted) else wanted.item_type
    return _type_at(inner, path[item.end() :].removeprefix("."))


def _begins(path: str, name: str) -> bool:
    return path.startswith(name) and path[len(name) : len(name) + 1] in {"", ".", "["}
