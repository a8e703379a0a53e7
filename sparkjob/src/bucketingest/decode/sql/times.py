"""Functions of dates and times. The session's time zone is always UTC.

Years of the civil calendar before 1 and after 9999 are in doubt: Spark and Arrow write and count them differently.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.decode.sql.nodes import (
    Kernel,
    Node,
    Operand,
    RowsInDoubt,
    always,
    arrays,
    checked,
    from_numbers,
    numbers,
    types_of,
)

SECOND: Final = 1_000_000
DAY: Final = 86_400 * SECOND
_FIRST_DAY: Final = -719_162  # 0001-01-01
_LAST_DAY: Final = 2_932_896  # 9999-12-31
_LETTERS: Final = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
_PATTERN: Final = re.compile(r"(?:yyyy(?!y)|MM(?!M)|dd(?!d)|HH(?!H)|mm(?!m)|ss(?!s)|'[^'%]+'|[-/:._, ])+")
_PART: Final = re.compile(r"yyyy|MM|dd|HH|mm|ss|'[^']*'|.")
_UNITS: Final = {
    "DAY": DAY,
    "DD": DAY,
    "HOUR": 3600 * SECOND,
    "MINUTE": 60 * SECOND,
    "SECOND": SECOND,
}
_MONTHS: Final = {"MONTH": "M", "MM": "M", "MON": "M", "YEAR": "Y", "YYYY": "Y", "YY": "Y"}


def is_time(kind: pa.DataType) -> bool:
    """Whether it is Spark's TIMESTAMP."""
    return pa.types.is_timestamp(kind) and kind.tz is not None


def micros(array: pa.Array) -> npt.NDArray[Any]:
    """Microseconds since 1970, 0 for nulls."""
    return numbers(array.view(pa.int64()))


def demand_civil(node: Node, array: pa.Array) -> None:
    """Raises RowsInDoubt for a year before 1 or after 9999."""
    is_date = pa.types.is_date32(array.type)
    ends = pc.min_max(array.view(pa.int32() if is_date else pa.int64())).as_py()
    if ends["min"] is None:
        return
    unit = 1 if is_date else DAY
    if ends["min"] < _FIRST_DAY * unit or ends["max"] >= (_LAST_DAY + 1) * unit:
        raise RowsInDoubt(f"{node.text}: a year before 1 or after 9999")


def _takes_time(node: Node) -> bool:
    return is_time(types_of(node)[0])


def _formatted(node: Node, operands: Sequence[Operand]) -> pa.Array:
    """Each different text is made once."""
    array = arrays(operands)[0]
    demand_civil(node, array)
    pattern = node.nodes[1].value
    unit = SECOND if "ss" in pattern else 60 * SECOND if "mm" in pattern else 3600 * SECOND if "HH" in pattern else DAY
    floored = np.floor_divide(micros(array), unit) * (unit // SECOND)
    coded = from_numbers(floored, pa.int64(), array).dictionary_encode()
    seconds = coded.dictionary.cast(pa.timestamp("s"))
    format_ = "".join(_LETTERS.get(part, part.strip("'")) for part in _PART.findall(pattern))
    return pc.strftime(seconds, format=format_, locale="C").take(coded.indices)


def _has_plain_pattern(node: Node) -> bool:
    pattern = node.nodes[1]
    is_plain = pattern.is_literal and pattern.value is not None and _PATTERN.fullmatch(pattern.value) is not None
    return _takes_time(node) and is_plain and "''" not in pattern.value


def _part(count: Callable[[pa.Array], pa.Array]) -> Kernel:
    def run(node: Node, operands: Sequence[Operand]) -> pa.Array:
        (array,) = arrays(operands)
        demand_civil(node, array)
        return count(array).cast(pa.int32())

    return Kernel(run, lambda node: pa.types.is_date32(types_of(node)[0]), doubts=always)


def _clock(unit: int, modulus: int) -> Kernel:
    def run(_: Node, operands: Sequence[Operand]) -> pa.Array:
        (array,) = arrays(operands)
        return from_numbers((micros(array) // unit % modulus).astype(np.int32), pa.int32(), array)

    return Kernel(run, _takes_time)


def _truncated(node: Node, operands: Sequence[Operand]) -> pa.Array:
    array = arrays(operands[1:])[0]
    demand_civil(node, array)
    values, unit = micros(array), node.nodes[0].value.upper()
    if unit in _UNITS:
        cut = values - values % _UNITS[unit]
    else:
        cut = values.astype("M8[us]").astype(f"M8[{_MONTHS[unit]}]").astype("M8[us]").astype(np.int64)
    return from_numbers(cut, pa.int64(), array).view(node.type)


def _truncated_date(node: Node, operands: Sequence[Operand]) -> pa.Array:
    array = arrays(operands[:1])[0]
    demand_civil(node, array)
    days = numbers(array.view(pa.int32()))
    unit = _MONTHS[node.nodes[1].value.upper()]
    cut = days.astype("M8[D]").astype(f"M8[{unit}]").astype("M8[D]").astype(np.int64).astype(np.int32)
    return from_numbers(cut, pa.int32(), array).view(node.type)


def _is_unit(node: Node, known: Sequence[str]) -> bool:
    return node.is_literal and node.value is not None and node.value.upper() in known


def _of_epoch(unit: int) -> Kernel:
    def run(node: Node, operands: Sequence[Operand]) -> pa.Array:
        whole = arrays(operands)[0].cast(pa.int64())
        return checked(node, lambda: pc.multiply_checked(whole, pa.scalar(unit, pa.int64()))).view(node.type)

    return Kernel(run, lambda node: pa.types.is_integer(types_of(node)[0]), fails=always)


def _since_epoch(unit: int) -> Kernel:
    def run(_: Node, operands: Sequence[Operand]) -> pa.Array:
        (array,) = arrays(operands)
        return from_numbers(micros(array) // unit, pa.int64(), array)

    return Kernel(run, _takes_time)


KERNELS: Final = {
    "DateFormatClass": Kernel(_formatted, _has_plain_pattern, doubts=always),
    "Year": _part(pc.year),
    "Month": _part(pc.month),
    "DayOfMonth": _part(pc.day),
    "Hour": _clock(3600 * SECOND, 24),
    "Minute": _clock(60 * SECOND, 60),
    "Second": _clock(SECOND, 60),
    "TruncTimestamp": Kernel(
        _truncated,
        lambda node: is_time(types_of(node)[1]) and _is_unit(node.nodes[0], [*_UNITS, *_MONTHS]),
        doubts=always,
    ),
    "TruncDate": Kernel(
        _truncated_date,
        lambda node: pa.types.is_date32(types_of(node)[0]) and _is_unit(node.nodes[1], list(_MONTHS)),
        doubts=always,
    ),
    "SecondsToTimestamp": _of_epoch(SECOND),
    "MillisToTimestamp": _of_epoch(1000),
    "MicrosToTimestamp": _of_epoch(1),
    "UnixSeconds": _since_epoch(SECOND),
    "UnixMillis": _since_epoch(1000),
    "UnixMicros": _since_epoch(1),
}
