"""Casts from and to text. Only text in the plain forms is read here; other text may still be a value to Spark."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.decode.sql.nodes import Node, checked, demand
from bucketingest.decode.sql.times import demand_civil, is_time

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
