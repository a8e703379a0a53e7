"""Values that are read from their text, as a message has it: msgspec reads decimals leniently and a FLOAT by way of a
double, knows other times than we, and has no text of what is no text.

All values of a column are read at once where their form is a usual one, and by themselves else.
"""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.decode.json.alike.text import Mask
from bucketingest.decode.json.reasons import kind_of, shortened, sql_type, unexpected
from bucketingest.decode.json.time_columns import converted
from bucketingest.decode.json.times import parse_date, parse_timestamp, timestamp_of_number

NULL: Final = msgspec.Raw(b"null")

Read: TypeAlias = tuple[pa.Array, dict[int, str]]
"""The values, and by its place why one is none."""

_TIMESTAMP: Final = pa.timestamp("us", "UTC")
_NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_DECIMAL_TEXT: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_DECIMAL_LIMIT: Final = 60
"""Digits before the point above which a number fits no column; the longest has 38."""
_CONTEXT: Final = decimal.Context(prec=2 * _DECIMAL_LIMIT, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_text_of: Final = msgspec.json.Decoder(str).decode


class _NoValueError(Exception):
    """The text is no value of the column."""


def strings(values: list[msgspec.Raw]) -> Read:
    """Text; of anything else but null what the message has there, character by character."""
    return _texts(values)[0], {}


def dates(values: list[str | None]) -> Read:
    """Days of texts."""
    return _times(pa.array(values, pa.string()), pa.date32(), parse_date)


def times(values: list[str | None]) -> Read:
    """Microseconds of texts."""
    return _times(pa.array(values, pa.string()), _TIMESTAMP, parse_timestamp)


def numbered_times(values: list[msgspec.Raw], unit: int) -> Read:
    """Microseconds of texts, and of numbers that count so many."""
    texts, quoted = _texts(values)
    if quoted.all():
        return _times(texts, _TIMESTAMP, parse_timestamp)
    whole = _have_form(texts, r"^-?[0-9]{1,18}$") & ~quoted
    made, doubts = converted(pc.if_else(pa.array(whole), texts, None).cast(pa.int64()), _TIMESTAMP, unit)
    doubted = _has_text(texts) & ~whole if doubts is None else _has_text(texts) & ~whole | doubts

    def read(text: str, *, quoted: bool) -> int:
        if quoted:
            return _time(text, _TIMESTAMP, parse_timestamp)
        if kind_of(text) != "number":
            raise _NoValueError(unexpected(_TIMESTAMP, kind_of(text), unit))
        value = timestamp_of_number(text, unit)
        if value is None:
            raise _NoValueError(
                f"{shortened(text)} is beyond the years 0001 to 9999: is its unit that of format.timestamps?"
            )
        return value

    return _completed(texts, quoted, made, doubted, read)


def floats(values: list[msgspec.Raw]) -> Read:
    """FLOAT, rounded once, from the text."""
    texts, quoted = _texts(values)
    numbers = _have_form(texts, "^[-0-9]") & ~quoted
    made = pc.if_else(pa.array(numbers), texts, None)
    # As msgspec reads it in a DOUBLE; `-0.0` has a sign.
    made = pc.if_else(pc.equal(made, "-0"), "0", made).cast(pa.float32())
    infinite = np.isinf(made.fill_null(0).to_numpy())
    doubted = _has_text(texts) & (~numbers | infinite)

    def read(text: str, *, quoted: bool) -> float:
        if quoted and text in _NOT_FINITE:
            return _NOT_FINITE[text]
        kind = "text" if quoted else kind_of(text)
        if kind != "number":
            raise _NoValueError(unexpected(pa.float32(), kind))
        raise _NoValueError(f"{shortened(text)} does not fit into FLOAT")

    return _completed(texts, quoted, made, doubted, read)


def decimals(values: list[msgspec.Raw], wanted: pa.Decimal128Type) -> Read:
    """DECIMAL, of numbers with and without quotes, rounded half up."""
    texts, quoted = _texts(values)
    whole = max(1, wanted.precision - wanted.scale)
    digits = f"[0-9]{{1,{whole}}}" if wanted.precision > wanted.scale else "0"
    fraction = rf"(?:\.[0-9]{{1,{wanted.scale}}})?" if wanted.scale else ""
    usual = _have_form(texts, f"^-?{digits}{fraction}$")
    made = pc.if_else(pa.array(usual), texts, None).cast(wanted)
    return _completed(texts, quoted, made, _has_text(texts) & ~usual, lambda text, quoted: _decimal(text, quoted, wanted))


def _decimal(text: str, quoted: bool, wanted: pa.Decimal128Type) -> decimal.Decimal:  # noqa: FBT001
    kind = "number" if quoted else kind_of(text)
    if kind != "number":
        raise _NoValueError(unexpected(wanted, kind))
    if _DECIMAL_TEXT.fullmatch(text) is None:
        raise _NoValueError(unexpected(wanted, repr(shortened(text))))
    value = _CONTEXT.create_decimal(text) if len(text) < _DECIMAL_LIMIT else decimal.Decimal(text)
    if not value or value.adjusted() <= _DECIMAL_LIMIT:
        value = value.quantize(decimal.Decimal(1).scaleb(-wanted.scale), decimal.ROUND_HALF_UP, context=_CONTEXT)
        if not value or value.adjusted() < wanted.precision - wanted.scale:
            return value
    raise _NoValueError(f"{shortened(text)} does not fit into {sql_type(wanted)}")


def _times(texts: pa.StringArray, wanted: pa.DataType, parse: Callable[[str], int | None]) -> Read:
    made, doubted = converted(texts, wanted)
    if doubted is None:
        return made, {}
    return _completed(texts, doubted, made, doubted, lambda text, quoted: _time(text, wanted, parse))  # noqa: ARG005


def _time(text: str, wanted: pa.DataType, parse: Callable[[str], int | None]) -> int:
    value = parse(text)
    if value is None:
        raise _NoValueError(f"{shortened(text)!r} is no {sql_type(wanted)}")
    return value


def _texts(values: list[msgspec.Raw]) -> tuple[pa.StringArray, Mask]:
    """Text without its quotes and escapes, all else as it is written; and which had quotes. Null is null."""
    raw = pa.array(list(map(bytes, values)), pa.binary()).cast(pa.string())
    has_quotes = pc.starts_with(raw, '"')
    is_null = pc.equal(raw, "null")
    quoted = has_quotes.to_numpy(zero_copy_only=False)
    texts = raw
    if quoted.any():
        texts = pc.if_else(has_quotes, pc.utf8_slice_codeunits(raw, 1, -1), raw)
        escaped = pc.and_(has_quotes, pc.match_substring(raw, "\\"))
        if pc.any(escaped).as_py():
            meant = [_text_of(values[at]) for at in np.flatnonzero(escaped.to_numpy(zero_copy_only=False)).tolist()]
            texts = pc.replace_with_mask(texts, escaped, pa.array(meant, pa.string()))
    return pc.if_else(is_null, None, texts), quoted


def _have_form(texts: pa.StringArray, form: str) -> Mask:
    found: Mask = pc.match_substring_regex(texts, form).fill_null(False).to_numpy(zero_copy_only=False)  # noqa: FBT003
    return found


def _has_text(texts: pa.StringArray) -> Mask:
    found: Mask = texts.is_valid().to_numpy(zero_copy_only=False)
    return found


def _completed(texts: pa.StringArray, quoted: Mask, made: pa.Array, doubted: Mask, read: Callable[..., Any]) -> Read:
    """With the doubted ones, read by themselves. `read`: of a text, and whether it had quotes; raises _NoValueError."""
    if not doubted.any():
        return made, {}
    values, refused = [], {}
    for at in np.flatnonzero(doubted).tolist():
        try:
            values.append(read(texts[at].as_py(), quoted=bool(quoted[at])))
        except _NoValueError as error:
            values.append(None)
            refused[at] = str(error)
    return pc.replace_with_mask(made, pa.array(doubted), pa.array(values, made.type)), refused
