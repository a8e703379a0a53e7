"""Casts in ANSI mode. What Spark refuses, and what it may read otherwise than Arrow, is in doubt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.decode.sql.nodes import (
    Kernel,
    Node,
    Operand,
    arrays,
    checked,
    demand,
    from_numbers,
    is_text,
    numbers,
    types_of,
)
from bucketingest.decode.sql.times import DAY, SECOND, demand_civil, is_time, micros

_DIGITS_MAX: Final = 38


def _takes(node: Node) -> bool:
    """By the two types. A cast that changes nothing is fine for all of them."""
    source, target = types_of(node)[0], node.type
    if source == target or pa.types.is_null(source):
        return True
    if is_text(source):
        return takes_from_text(target)
    if is_text(target):
        return takes_to_text(source)
    if pa.types.is_boolean(source):
        return _is_number(target)
    if pa.types.is_integer(source):
        return _is_number(target) or pa.types.is_boolean(target) or pa.types.is_decimal(target) or is_time(target)
    if pa.types.is_floating(source):
        return _is_number(target) or pa.types.is_boolean(target)
    if pa.types.is_decimal(source):
        return _is_number(target) or (pa.types.is_decimal(target) and _fits(source, target))
    if pa.types.is_date32(source):
        return is_time(target)
    return is_time(source) and (pa.types.is_date32(target) or pa.types.is_int64(target))


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def _fits(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether there is room to round in."""
    return source.precision - source.scale + max(source.scale, target.scale) < _DIGITS_MAX


def _fails(node: Node) -> bool:
    """Whether Spark can fail, as far as it matters: too often is right too."""
    source, target = types_of(node)[0], node.type
    if source == target or pa.types.is_null(source) or is_text(target) or pa.types.is_boolean(source):
        return False
    if pa.types.is_integer(source):
        return not (
            pa.types.is_floating(target)
            or pa.types.is_boolean(target)
            or (pa.types.is_integer(target) and target.bit_width >= source.bit_width)
        )
    if pa.types.is_floating(source):
        return pa.types.is_integer(target)
    return not (is_time(source) or pa.types.is_floating(target))


def _cast(node: Node, operands: Sequence[Operand]) -> pa.Array:
    (array,) = arrays(operands)
    source, target = array.type, node.type
    if source == target:
        return array
    if pa.types.is_null(source):
        return pa.nulls(len(array), target)
    if is_text(source):
        return from_text(node, array)
    if is_text(target):
        return to_text(node, array)
    if pa.types.is_boolean(target):
        return pc.not_equal(array, pa.scalar(0, source))
    if pa.types.is_decimal(source):
        return _from_decimal(node, array)
    if pa.types.is_temporal(source) or pa.types.is_temporal(target):
        return _temporal(node, array)
    if pa.types.is_decimal(target):
        return checked(node, lambda: array.cast(pa.int64()).cast(pa.decimal128(_DIGITS_MAX, 0)).cast(target))
    if pa.types.is_floating(target):
        return array.cast(target, safe=False)
    if pa.types.is_floating(source):
        return _whole(node, array)
    return checked(node, lambda: array.cast(target))


def _whole(node: Node, array: pa.Array) -> pa.Array:
    """Cut towards zero. Raises RowsInDoubt for NaN and what does not fit."""
    values = np.trunc(numbers(array).astype(np.float64))
    half = 2.0 ** (node.type.bit_width - 1)
    if not ((values >= -half) & (values < half)).all():
        demand(node, pa.array([False]))
    return from_numbers(values.astype(np.int64).astype(_numpy(node.type)), node.type, array)


def _numpy(kind: pa.DataType) -> Any:
    return kind.to_pandas_dtype()


def _from_decimal(node: Node, array: pa.Array) -> pa.Array:
    source, target = array.type, node.type
    if pa.types.is_floating(target):  # the nearest, which Arrow's own cast does not always give
        return array.cast(pa.string()).cast(target)
    wide = array.cast(pa.decimal128(_DIGITS_MAX, source.scale))  # Arrow rounds wrongly at the limit of a precision
    if pa.types.is_integer(target):
        return checked(node, lambda: pc.trunc(wide).cast(pa.decimal128(_DIGITS_MAX, 0)).cast(target))
    if target.scale < source.scale:
        wide = pc.round(wide, ndigits=target.scale, round_mode="half_towards_infinity")
    return checked(node, lambda: wide.cast(target))


def _temporal(node: Node, array: pa.Array) -> pa.Array:
    source, target = array.type, node.type
    if is_time(source):
        if pa.types.is_date32(target):
            return from_numbers((micros(array) // DAY).astype(np.int32), pa.int32(), array).view(target)
        return from_numbers(micros(array) // SECOND, pa.int64(), array)
    unit = DAY if pa.types.is_date32(source) else SECOND
    whole = (array.view(pa.int32()) if pa.types.is_date32(source) else array).cast(pa.int64())
    return checked(node, lambda: pc.multiply_checked(whole, pa.scalar(unit, pa.int64()))).view(target)


KERNELS: Final = {"Cast": Kernel(_cast, _takes, fails=_fails, doubts=lambda node: is_text(node.type))}


_SPACES: Final = "".join(map(chr, range(0x21)))
"""What Spark cuts off at both ends before it reads a value, of any type."""
_WHOLE: Final = r"^[+-]?[0-9]{1,18}$"
_NUMBER: Final = r"^[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,3})?$"
_DATE: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_TIME: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?Z?$"
_TRUE: Final = ("t", "true", "y", "yes", "1")
_FALSE: Final = ("f", "false", "n", "no", "0")
_PLAIN_SCALE_MAX: Final = 6
"""A decimal of more digits after its point may be written with an exponent by Arrow, never by Spark."""


def takes_from_text(target: pa.DataType) -> bool:
    """Whether text is read as the type."""
    return (
        pa.types.is_integer(target)
        or pa.types.is_floating(target)
        or pa.types.is_decimal(target)
        or pa.types.is_boolean(target)
        or pa.types.is_date32(target)
        or is_time(target)
    )


def from_text(node: Node, array: pa.Array) -> pa.Array:
    """Raises RowsInDoubt for text of another form."""
    target = node.type
    text = pc.ascii_trim(array, characters=_SPACES)
    if pa.types.is_boolean(target):
        return _boolean(node, text)
    if pa.types.is_temporal(target):
        demand(node, pc.match_substring_regex(text, _DATE if pa.types.is_date32(target) else _TIME))
        if pa.types.is_date32(target):
            dates = checked(node, lambda: text.cast(target))
            demand_civil(node, dates)
            return dates
        times = checked(node, lambda: pc.ascii_rtrim(text, characters="Z").cast(pa.timestamp("us"))).view(target)
        demand_civil(node, times)
        return times
    if pa.types.is_decimal(target):
        fraction = rf"(?:\.[0-9]{{1,{target.scale}}})?" if target.scale else ""
        demand(
            node,
            pc.match_substring_regex(text, rf"^[+-]?[0-9]{{1,{max(1, target.precision - target.scale)}}}{fraction}$"),
        )
    else:
        demand(node, pc.match_substring_regex(text, _WHOLE if pa.types.is_integer(target) else _NUMBER))
    return checked(node, lambda: pc.ascii_ltrim(text, characters="+").cast(target))


def _boolean(node: Node, text: pa.Array) -> pa.Array:
    words = pc.ascii_lower(text)
    is_true = pc.is_in(words, value_set=pa.array(_TRUE))
    demand(node, pc.or_(pc.is_null(words), pc.or_(is_true, pc.is_in(words, value_set=pa.array(_FALSE)))))
    return pc.if_else(pc.is_null(words), pa.scalar(None, pa.bool_()), is_true)


def takes_to_text(source: pa.DataType) -> bool:
    """Whether values of the type are written as Spark writes them."""
    return (
        pa.types.is_integer(source)
        or pa.types.is_boolean(source)
        or (pa.types.is_decimal(source) and source.scale <= _PLAIN_SCALE_MAX)
        or pa.types.is_date32(source)
        or is_time(source)
    )


def to_text(node: Node, array: pa.Array) -> pa.Array:
    """Raises RowsInDoubt for years that are written otherwise."""
    if pa.types.is_temporal(array.type):
        demand_civil(node, array)
    if not is_time(array.type):
        return array.cast(pa.string())
    text = array.view(pa.timestamp("us")).cast(pa.string())  # always with six digits of a second
    return pc.ascii_rtrim(pc.ascii_rtrim(text, characters="0"), characters=".")
