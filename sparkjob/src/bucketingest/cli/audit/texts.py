"""One text for each value, the same from PostgreSQL's SQL and from the table's Arrow columns: rows are compared by a
hash of their texts, made where the rows are.

Functions and casts as PostgreSQL 14 and newer have them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

BETWEEN: Final = "\x1f"
NULL: Final = "\x01"
"""Characters that no value has in practice. With them inside, two different rows might have one hash."""
_MICROS: Final = "(extract(epoch from {}) * 1000000)::bigint::text"
INTEGERS: Final = frozenset({"int2", "int4", "int8"})
_TEXTS: Final = frozenset({"text", "varchar", "bpchar", "name", "uuid", "json", "jsonb", "xml", "citext", "enum"})
_TIMES: Final = frozenset({"timestamp", "timestamptz"})
_NUMBERS: Final = frozenset({"numeric", *INTEGERS})


def sql_text(name: str, kind: str, column: pa.DataType) -> str | None:
    """SQL for the text of a source's column, null for null. `kind`: PostgreSQL's name of its type, `enum` for any enum;
    `column`: the table's. None: values of these two types are not compared.
    """
    quoted = quoted_name(name)
    checks = pa.types
    if checks.is_integer(column):
        return f"{quoted}::text" if kind in INTEGERS else _MICROS.format(quoted) if kind == "time" else None
    if checks.is_string(column) and kind in _TEXTS:
        return (
            f"CASE WHEN {quoted} IS NOT NULL THEN concat({quoted}, '') END" if kind == "bpchar" else f"{quoted}::text"
        )
    if checks.is_boolean(column) and kind == "bool":
        return f"{quoted}::text"
    if checks.is_decimal(column) and kind in _NUMBERS:
        return f"trim_scale(nullif({quoted}::numeric, 'NaN') * 1e{column.scale})::text"
    if checks.is_floating(column) and kind in {"float4", "float8", *_NUMBERS}:
        bits, number = (64, "bigint") if column == pa.float64() else (32, "int")
        send = f"float{bits // 8}send({quoted}::float{bits // 8})"
        return f"('x' || encode({send}, 'hex'))::bit({bits})::{number}::text"
    if checks.is_date(column) and kind == "date":
        return f"CASE WHEN isfinite({quoted}) THEN ({quoted} - DATE '1970-01-01')::text ELSE {quoted}::text END"
    if checks.is_timestamp(column) and kind in _TIMES:
        return f"CASE WHEN isfinite({quoted}) THEN {_MICROS.format(quoted)} ELSE {quoted}::text END"
    if checks.is_binary(column) and kind == "bytea":
        return f"encode({quoted}, 'hex')"
    return None


def quoted_name(name: str) -> str:
    """An identifier of SQL."""
    return '"{}"'.format(name.replace('"', '""'))


def sql_hash(texts: Sequence[str]) -> str:
    """SQL for the hash of a row, in hexadecimal digits."""
    parts = ", ".join(f"coalesce({text}, {_literal(NULL)})" for text in texts)
    return f"md5(concat_ws({_literal(BETWEEN)}, {parts}))"


def sql_number(digits: str) -> str:
    """SQL for the first half of a hash as a bigint."""
    return f"('x' || left({digits}, 16))::bit(64)::bigint"


def _literal(text: str) -> str:
    return f"chr({ord(text)})"


def text_of(values: pa.Array) -> pa.Array:
    """The texts of a column, as `sql_text` has them."""
    kind = values.type
    checks = pa.types
    if checks.is_dictionary(kind):
        return text_of(values.dictionary_decode())
    if checks.is_decimal(kind):
        whole = pa.decimal128(kind.precision, 0)
        return pa.Array.from_buffers(whole, len(values), values.buffers(), offset=values.offset).cast(pa.string())
    if checks.is_float64(kind) or checks.is_timestamp(kind):
        return values.view(pa.int64()).cast(pa.string())
    if checks.is_float32(kind) or checks.is_date32(kind):
        return values.view(pa.int32()).cast(pa.string())
    if checks.is_binary(kind):
        return pa.array([None if each is None else each.hex() for each in values.to_pylist()], pa.string())
    return values.cast(pa.string())


def hashes_of(columns: Sequence[pa.Array]) -> npt.NDArray[np.int64]:
    """The numbers of rows, int64[n], as `sql_number` of `sql_hash` has them."""
    texts = [pc.fill_null(text_of(each), NULL) for each in columns]
    joined: Any = pc.binary_join_element_wise(*texts, BETWEEN) if len(texts) > 1 else texts[0]
    md5 = hashlib.md5
    digests = b"".join([md5(each, usedforsecurity=False).digest() for each in joined.cast(pa.binary()).to_pylist()])
    return np.frombuffer(digests, ">i8")[::2].astype(np.int64)
