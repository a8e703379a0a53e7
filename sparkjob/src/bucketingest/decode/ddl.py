"""Columns in Spark's DDL, `id STRING, tags ARRAY<STRING>`, as Arrow types, those that a table can have, and back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa

_TOKEN: Final = re.compile(
    r"\s*(?:(`(?:[^`]|``)+`)|([A-Za-z_0-9]+)|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|([<>(),:]))"
)
_TYPES: Final = {
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "BOOLEAN": pa.bool_(),
    **dict.fromkeys(["TINYINT", "BYTE"], pa.int8()),
    **dict.fromkeys(["SMALLINT", "SHORT"], pa.int16()),
    **dict.fromkeys(["INT", "INTEGER"], pa.int32()),
    **dict.fromkeys(["BIGINT", "LONG"], pa.int64()),
    **dict.fromkeys(["FLOAT", "REAL"], pa.float32()),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    **dict.fromkeys(["TIMESTAMP", "TIMESTAMP_LTZ"], pa.timestamp("us", "UTC")),
}
_FURTHER: Final = {"TIMESTAMP_NTZ": pa.timestamp("us")}
_NAMES: Final = {kind: name for name, kind in reversed([*_TYPES.items(), *_FURTHER.items()])}
_DECIMALS: Final = frozenset({"DECIMAL", "DEC", "NUMERIC"})
_DIGITS_MAX: Final = 38
_NESTED: Final = ("ARRAY", "MAP", "STRUCT")


class UnreadableDdl(Exception):
    """The text names no columns that can be read. Its words follow the field that has it."""


def columns_of(ddl: str, *, typed: bool = False) -> pa.Schema:
    """The columns, all of them nullable, whatever the text says: what is read may have nulls. Raises UnreadableDdl.

    `typed`: of values that bring their types, as those of Parquet do; they have further ones.
    """
    tokens = _Tokens(ddl, typed=typed)
    found = _columns(tokens, closing="")
    if tokens.next:
        raise UnreadableDdl(f"has {tokens.next!r} where it should end")
    return pa.schema(found)


def type_in_ddl(kind: pa.DataType) -> str:
    """A type as a schema names it; one that has no name there in Arrow's words. Pure."""
    t = pa.types
    if t.is_decimal128(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if t.is_list(kind):
        return f"ARRAY<{type_in_ddl(kind.value_type)}>"
    if t.is_map(kind):
        return f"MAP<{type_in_ddl(kind.key_type)},{type_in_ddl(kind.item_type)}>"
    if t.is_struct(kind):
        return f"STRUCT<{', '.join(f'{field.name}: {type_in_ddl(field.type)}' for field in kind)}>"
    return _NAMES.get(kind, str(kind))


class _Tokens:
    def __init__(self, ddl: str, *, typed: bool) -> None:
        self._tokens = _tokens(ddl)
        self.typed = typed
        self.next = ""
        self.take()

    def take(self) -> str:
        taken, self.next = self.next, next(self._tokens, "")
        return taken

    def take_if(self, *wanted: str) -> bool:
        if self.next.upper() not in wanted:
            return False
        self.take()
        return True

    def expect(self, wanted: str) -> None:
        if not self.take_if(wanted):
            raise UnreadableDdl(f"has {self.next!r} instead of {wanted!r}" if self.next else f"ends without {wanted!r}")


def _tokens(ddl: str) -> Iterator[str]:
    at, end = 0, len(ddl.rstrip())
    while at < end:
        found = _TOKEN.match(ddl, at)
        if found is None:
            raise UnreadableDdl(f"has {ddl[at:].strip()[:20]!r}, which is no part of a column")
        yield found[found.lastindex or 0]
        at = found.end()


def _columns(tokens: _Tokens, *, closing: str) -> list[pa.Field]:
    found: dict[str, pa.Field] = {}
    while True:
        name = tokens.take()
        if not name or name in {"<", ">", "(", ")", ",", ":"}:
            raise UnreadableDdl(f"has {name!r} instead of a column's name" if name else "ends before a column's name")
        if name.startswith("`"):
            name = name[1:-1].replace("``", "`")
        if (other := found.get(name.lower())) is not None:
            raise UnreadableDdl(same_names(other.name, name))
        tokens.take_if(":")
        found[name.lower()] = pa.field(name, _type(tokens, name))
        if tokens.take_if("NOT"):
            tokens.expect("NULL")
        if tokens.take_if("COMMENT"):
            tokens.take()
        if tokens.next == closing:
            return list(found.values())
        if tokens.next not in {",", "", ">"}:
            raise UnreadableDdl(
                f"has {tokens.next!r} behind the type of {name}: only NOT NULL and COMMENT may follow it"
            )
        tokens.expect(",")


def _type(tokens: _Tokens, column: str) -> pa.DataType:
    name = tokens.take().upper()
    if name in _NESTED:
        tokens.expect("<")
        kind = _READERS[name](tokens, column)
        tokens.expect(">")
        return kind
    if name in _DECIMALS:
        return _decimal(tokens, column)
    if name in {"VARCHAR", "CHAR"}:
        raise UnreadableDdl(f"has the type {name} in {column}, whose length nothing would check: use STRING")
    if (kind := _TYPES.get(name) or (_FURTHER.get(name) if tokens.typed else None)) is None:
        what = f"has the type {name}" if name else "ends before the type"
        known = ", ".join([*_TYPES, *(_FURTHER if tokens.typed else ()), "DECIMAL", *_NESTED])
        raise UnreadableDdl(f"{what} of {column}, which is not decoded; known are {known}")
    return kind


def _decimal(tokens: _Tokens, column: str) -> pa.DataType:
    digits = [10, 0]
    if tokens.take_if("("):
        written = [tokens.take()]
        if tokens.take_if(","):
            written.append(tokens.take())
        tokens.expect(")")
        if not all(each.isdecimal() for each in written):
            raise UnreadableDdl(f"has a DECIMAL of {', '.join(written)} in {column}")
        digits[: len(written)] = map(int, written)
    precision, scale = digits
    if not 1 <= precision <= _DIGITS_MAX or scale > precision:
        allowed = f"1 to {_DIGITS_MAX} digits, of which no more are behind the point"
        raise UnreadableDdl(f"has DECIMAL({precision},{scale}) in {column}; a decimal has {allowed}")
    return pa.decimal128(precision, scale)


def _array(tokens: _Tokens, column: str) -> pa.DataType:
    return pa.list_(pa.field("element", _type(tokens, f"{column}[]")))


def _map(tokens: _Tokens, column: str) -> pa.DataType:
    if (key := _type(tokens, f"the keys of {column}")) != pa.string() and not tokens.typed:
        raise UnreadableDdl(f"has a MAP with keys of another type than STRING in {column} ({key})")
    tokens.expect(",")
    return pa.map_(key, _type(tokens, f"{column}[]"))


def _struct(tokens: _Tokens, _column: str) -> pa.DataType:
    return pa.struct(_columns(tokens, closing=">"))


_READERS: Final[dict[str, Callable[[_Tokens, str], pa.DataType]]] = {"ARRAY": _array, "MAP": _map, "STRUCT": _struct}


def same_names(one: str, other: str) -> str:
    """Why these two cannot be in one table, in words that follow the field that has them."""
    if one == other:
        return f"has the column {one} twice"
    return f"has the columns {one} and {other}, which differ in case only: Spark cannot tell them apart"
