"""Every change of a column's type that a producer may make, and when the table takes it: what decides is which reader
reads the files of before beside those of after.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final, Literal

import pyarrow as pa

When = Literal["at once", "after a merge", "never"]
"""At once: log files of both are read together. After a merge: log files of before are merged into base files first."""

INT, LONG, FLOAT, DOUBLE, TEXT = pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string()
BYTES, DATE, BOOLEAN, TIME = pa.binary(), pa.date32(), pa.bool_(), pa.timestamp("us", "UTC")
AT: Final = datetime(2024, 1, 2, tzinfo=UTC)
SMALL, MORE, FINER = pa.decimal128(9, 2), pa.decimal128(25, 2), pa.decimal128(13, 4)


@dataclass(frozen=True)
class Change:
    """A column's type and a value, before and after. None: there is no such column."""

    name: str
    before: pa.DataType | None
    after: pa.DataType | None
    value: Any
    other: Any
    when: When

    def field(self, *, after: bool) -> pa.Field | None:
        kind = self.after if after else self.before
        return None if kind is None else pa.field(self.name, kind)


def _struct(kind: pa.DataType, **more: pa.DataType) -> pa.DataType:
    return pa.struct([("x", kind), *more.items()])


def _list(kind: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", kind))


def _inside() -> Iterator[Change]:
    """Changes of what is in a record, an array and a map."""
    taken: tuple[tuple[str, pa.DataType, pa.DataType, Any, Any, When], ...] = (
        ("int_long", INT, LONG, -(2**31), 2**60, "after a merge"),
        ("int_double", INT, DOUBLE, 2**31 - 1, 0.5, "after a merge"),
        ("decimal_digits", SMALL, MORE, Decimal("-1.25"), Decimal("12345678901234567890.12"), "after a merge"),
        ("float_double", FLOAT, DOUBLE, 0.1, 0.1, "after a merge"),
        ("decimal_scale", SMALL, FINER, Decimal("-1.25"), Decimal("12345678.1234"), "after a merge"),
        ("long_string", LONG, TEXT, 1, "x", "never"),
        ("added", _struct(INT), _struct(INT, y=TEXT), {"x": 1}, {"x": 2, "y": "n"}, "after a merge"),
    )
    for name, old, new, value, other, when in taken:
        yield Change(f"record_{name}", _struct(old), _struct(new), {"x": value}, {"x": other}, when)
        yield Change(f"array_{name}", _list(old), _list(new), [value, None], [other], when)
        yield Change(f"map_{name}", pa.map_(TEXT, old), pa.map_(TEXT, new), [("k", value)], [("k", other)], when)


CHANGES: Final[tuple[Change, ...]] = (
    *(
        Change(f"added_{name}", None, kind, None, value, "at once")
        for name, kind, value in (
            ("int", INT, 1),
            ("double", DOUBLE, 0.1),
            ("text", TEXT, "x"),
            ("bytes", BYTES, b"x"),
            ("boolean", BOOLEAN, True),
            ("date", DATE, date(2024, 1, 2)),
            ("time", TIME, AT),
            ("decimal", SMALL, Decimal("1.25")),
            ("record", _struct(INT), {"x": 1}),
            ("array", _list(INT), [1, None]),
            ("map", pa.map_(TEXT, INT), [("k", 1)]),
        )
    ),
    Change("dropped", INT, None, 1, None, "at once"),
    Change("long_int", LONG, INT, 2**40, 5, "at once"),
    Change("double_float", DOUBLE, FLOAT, 0.1, 0.5, "at once"),
    Change("decimal_less_digits", MORE, SMALL, Decimal("12345678901234567890.12"), Decimal("1.25"), "at once"),
    Change("int_long", INT, LONG, -(2**31), 2**60, "after a merge"),
    Change("int_double", INT, DOUBLE, 2**31 - 1, 0.5, "after a merge"),
    Change("float_double", FLOAT, DOUBLE, 0.1, 0.1, "after a merge"),
    Change("decimal_digits", SMALL, MORE, Decimal("-1.25"), Decimal("12345678901234567890.12"), "after a merge"),
    Change("decimal_scale", SMALL, FINER, Decimal("-1.25"), Decimal("12345678.1234"), "after a merge"),
    *_inside(),
    *(
        Change(name, old, new, None, None, "never")
        for name, old, new in (
            ("int_float", INT, FLOAT),
            ("long_float", LONG, FLOAT),
            ("long_double", LONG, DOUBLE),
            ("int_string", INT, TEXT),
            ("long_string", LONG, TEXT),
            ("float_string", FLOAT, TEXT),
            ("double_string", DOUBLE, TEXT),
            ("date_string", DATE, TEXT),
            ("boolean_string", BOOLEAN, TEXT),
            ("string_bytes", TEXT, BYTES),
            ("bytes_string", BYTES, TEXT),
            ("string_int", TEXT, INT),
            ("decimal_less_before_the_point", SMALL, pa.decimal128(9, 4)),
            ("int_decimal", INT, SMALL),
            ("long_time", LONG, TIME),
            ("date_time", DATE, TIME),
            ("record_text", _struct(INT), TEXT),
            ("array_map", _list(INT), pa.map_(TEXT, INT)),
        )
    ),
)
