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
from bucketingest.decode.sql.text_casts import from_text, takes_from_text, takes_to_text, to_text
from bucketingest.decode.sql.times import DAY, SECOND, is_time, micros

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
