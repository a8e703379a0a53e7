"""Text to the values of a column: the cells of CSV, the values in names of directories.

In bulk where all of a column have a plain form, else one by one. Text is trimmed before it becomes a number, a time or
a truth value.
"""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.decode.json.columns import converted

Mask = npt.NDArray[np.bool_]

_SPACES: Final = "".join(map(chr, range(0x21)))
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,40}")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_SPECIAL: Final = {"nan": math.nan, "inf": math.inf, "infinity": math.inf}
_LENGTH_MAX: Final = 1000
"""Characters of a number: a longer text is no number."""
_CONTEXT: Final = decimal.Context(prec=80, rounding=decimal.ROUND_HALF_UP)
_WHOLE_TEXT: Final = r"^[+-]?[0-9]{1,18}$"
_NUMBER_TEXT: Final = r"^[+-]?[0-9]{1,40}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,3})?$"


def unreadable_type(columns: pa.Schema) -> pa.DataType | None:
    """The first type that cannot be read from text; None if all can."""
    return next((kind for kind in columns.types if not (_is_text(kind) or _is_time(kind) or _one_of(kind))), None)


def column_of_text(text: pa.StringArray, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    """The values, and which texts are none; null is null."""
    if _is_text(kind):
        return text.cast(kind), np.zeros(len(text), np.bool_)
    trimmed = pc.utf8_trim(text, characters=_SPACES)
    if _is_time(kind):
        made, bad = converted(trimmed, kind)
        return made, np.zeros(len(text), np.bool_) if bad is None else bad
    if (made := _in_bulk(trimmed, kind)) is not None:
        return made, np.zeros(len(text), np.bool_)
    return _one_by_one(trimmed, kind)


def text_of(cells: pa.BinaryArray) -> tuple[pa.StringArray, Mask]:
    """Cells as text, null where they are none; and which are none."""
    bad = np.zeros(len(cells), np.bool_)
    try:
        return cells.cast(pa.string()), bad
    except pa.ArrowInvalid:
        for at, cell in enumerate(cells.to_pylist()):
            try:
                (cell or b"").decode()
            except UnicodeDecodeError:
                bad[at] = True
    return pc.if_else(pa.array(bad), pa.scalar(None, pa.binary()), cells).cast(pa.string()), bad


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date32(kind) or pa.types.is_timestamp(kind))


def _in_bulk(text: pa.StringArray, kind: pa.DataType) -> pa.Array | None:
    """None if a text has another form, or is no value."""
    if pa.types.is_boolean(kind):
        return None
    form = _WHOLE_TEXT if pa.types.is_integer(kind) else _NUMBER_TEXT
    if not pc.all(pc.match_substring_regex(text, form), min_count=0).as_py():
        return None
    if pa.types.is_decimal(kind):
        fraction = rf"(?:\.[0-9]{{1,{kind.scale}}})?" if kind.scale else ""
        whole = max(1, kind.precision - kind.scale)
        if not pc.all(pc.match_substring_regex(text, rf"^[+-]?[0-9]{{1,{whole}}}{fraction}$"), min_count=0).as_py():
            return None
    try:
        return pc.utf8_ltrim(text, characters="+").cast(kind)
    except pa.ArrowInvalid:
        return None


def _one_by_one(text: pa.StringArray, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    read = _one_of(kind)
    assert read is not None, "other types are refused before anything is read"
    bad = np.zeros(len(text), np.bool_)
    values: list[Any] = []
    for at, each in enumerate(text.to_pylist()):
        value = None if each is None else read(each)
        bad[at] = each is not None and value is None
        values.append(value)
    return pa.array(values, kind), bad


def _one_of(kind: pa.DataType) -> Callable[[str], Any] | None:
    """Reads one text, without spaces around it, as Arrow takes it; None: it is no value."""
    if pa.types.is_integer(kind):
        low, high = -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1
        return lambda text: _whole(text, low, high)
    if pa.types.is_floating(kind):
        return _number
    if pa.types.is_decimal(kind):
        return lambda text: _decimal(text, kind.precision, kind.scale)
    if pa.types.is_boolean(kind):
        return lambda text: {"true": True, "false": False}.get(text.lower())
    return None


def _whole(text: str, low: int, high: int) -> int | None:
    if _WHOLE.fullmatch(text) is None:
        return None
    value = int(text)
    return value if low <= value <= high else None


def _number(text: str) -> float | None:
    sign, special = (-1.0, text[1:]) if text[:1] == "-" else (1.0, text.removeprefix("+"))
    if special.lower() in _SPECIAL:
        return sign * _SPECIAL[special.lower()]
    return float(text) if len(text) <= _LENGTH_MAX and _NUMBER.fullmatch(text) else None


def _decimal(text: str, precision: int, scale: int) -> decimal.Decimal | None:
    if len(text) > _LENGTH_MAX or _NUMBER.fullmatch(text) is None:
        return None
    try:
        value = decimal.Decimal(text).quantize(decimal.Decimal(1).scaleb(-scale), context=_CONTEXT)
    except decimal.InvalidOperation:  # more digits than any column has
        return None
    return value if abs(value) < decimal.Decimal(10) ** (precision - scale) else None
