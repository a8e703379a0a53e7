"""Random rows and random SQL over them: what a transform may have, and values that are odd in some way."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

_TS: Final = pa.timestamp("us", "UTC")
_DAY: Final = 86_400_000_000
COLUMNS: Final = {
    "n": pa.int32(),
    "k": pa.int64(),
    "h": pa.int16(),
    "d": pa.float64(),
    "e": pa.float64(),
    "f": pa.float32(),
    "m": pa.decimal128(10, 2),
    "w": pa.decimal128(18, 6),
    "x": pa.decimal128(38, 10),
    "a": pa.string(),
    "c": pa.string(),
    "num": pa.string(),
    "t": _TS,
    "u": _TS,
    "day": pa.date32(),
    "b": pa.bool_(),
    "s": pa.struct([("x", pa.int32()), ("y", pa.string()), ("at", _TS), ("m", pa.decimal128(5, 0))]),
    "l": pa.list_(pa.int32()),
}
_TEXTS: Final = (
    *(
        "",
        " ",
        "a",
        "A",
        "b",
        " a ",
        "abc",
        "ABC%",
        "a_c",
        "äöü",
        "ÄÖÜß",
        "ß",
        "İ",
        "ſ",
        "Σίσυφος",
        "ПРИВЕТ",
        "日本",
        "😀x",
    ),
    *("e\u0301", "\ta\n", "x\x00y", "a'b", "a\\b", "%", "\u00a0", "true", "NaN", "Infinity"),
)
_NUMBERS: Final = (
    *(
        "0",
        "1",
        "-1",
        "+7",
        " 42 ",
        "007",
        "1.5",
        "-0.25",
        ".5",
        "1.",
        "1e3",
        "-1E-2",
        "2147483648",
        "9223372036854775808",
    ),
    *(
        "99999999.99",
        "123456789012345678",
        "",
        "abc",
        "1_0",
        "0x10",
        "1e400",
        "4.9e-324",
        "-0",
        "-0.0",
        "0.1",
        "1d",
        "٣",
    ),
    *(
        "2024-02-29",
        "2023-02-29",
        "1969-12-31 23:59:59.999999",
        "2024-02-29T12:00:00Z",
        "2024-1-1",
        "t",
        "False",
        "\t5\n",
    ),
)
_MICROS: Final = (
    *(
        0,
        -1,
        1,
        _DAY,
        _DAY - 1,
        -_DAY,
        -_DAY - 1,
        1_709_208_000_123_456,
        1_709_164_800_000_000,
        -1_000_000,
        951_782_400_000_000,
    ),
    *(
        -62_135_596_800_000_000,
        253_402_300_799_999_999,
        1_000_000_000_000_000,
        86_399_000_000,
        -999_999,
        1_700_000_000_120_000,
    ),
)
_FAR_MICROS: Final = (-62_135_596_800_000_001, 253_402_300_800_000_000, 2**62, -(2**62))
_DOUBLES: Final = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, 1e308, -1e308, 5e-324, float("nan"), float("inf"), float("-inf"), 0.1, 1e15),
    *(2147483647.5, -2147483648.9, 9.223372036854775e18, 9.3e18, 32767.9, 1e-7),
)


class SqlCases:
    """The same seed makes the same rows and expressions."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def rows(self, count: int) -> pa.RecordBatch:
        """Rows of `COLUMNS`: of usual values, or of odd ones."""
        calm = self.random.random() < 0.5
        arrays = [pa.array([self._value(kind, calm=calm) for _ in range(count)], kind) for kind in COLUMNS.values()]
        return pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS))

    def _value(self, kind: pa.DataType, *, calm: bool) -> Any:
        pick = self.random
        if pick.random() < 0.12:
            return None
        if pa.types.is_boolean(kind):
            return pick.random() < 0.5
        if pa.types.is_integer(kind):
            limit = 2 ** (kind.bit_width - 1)
            odd = (0, 1, -1, 2, limit - 1, -limit, limit // 2, 1000)
            return pick.randint(-100, 100) if calm or pick.random() < 0.5 else pick.choice(odd)
        if pa.types.is_floating(kind):
            return round(pick.uniform(-1000, 1000), 3) if calm or pick.random() < 0.4 else pick.choice(_DOUBLES)
        if pa.types.is_decimal(kind):
            limit = 10**kind.precision - 1
            whole = pick.randint(-99999, 99999) if calm else pick.choice((0, 1, -1, 5, -5, limit, -limit, 12345, 99999))
            return Decimal(f"{whole}E-{kind.scale}")
        if pa.types.is_string(kind):
            texts = (*_TEXTS, *_NUMBERS) if not calm else ("a", "b", "12", "-3", "3.25", "äöü", "2024-02-29", "0")
            return pick.choice(texts)
        if pa.types.is_date32(kind):
            return (
                self._micros(calm=calm) // _DAY if calm or pick.random() < 0.97 else pick.choice((-719_529, 5_000_000))
            )
        if pa.types.is_timestamp(kind):
            return self._micros(calm=calm)
        if pa.types.is_list(kind):
            return [self._value(kind.value_type, calm=calm) for _ in range(pick.randint(0, 3))]
        return {kind.field(at).name: self._value(kind.field(at).type, calm=calm) for at in range(kind.num_fields)}

    def _micros(self, *, calm: bool) -> int:
        pick = self.random
        if calm or pick.random() < 0.3:
            return pick.randint(-(2**51), 2**52)
        return pick.choice(_FAR_MICROS if pick.random() < 0.02 else _MICROS)

    def select(self, count: int) -> list[str]:
        """Expressions."""
        return [self.expression(self.random.choice(list(_MAKERS)), 3) for _ in range(count)]

    def expression(self, kind: str, depth: int) -> str:
        """Of a kind: whole, real, decimal, text, time, date or flag."""
        pick = self.random
        if depth <= 0 or pick.random() < 0.15:
            return pick.choice(_LEAVES[kind])
        if pick.random() < 0.25:
            return self._choice(kind, depth - 1)
        return pick.choice(_MAKERS[kind])(self, depth - 1)

    def number(self, depth: int) -> str:
        """Of any kind of number."""
        return self.expression(self.random.choice(("whole", "whole", "real", "decimal")), depth)

    def _choice(self, kind: str, depth: int) -> str:
        """One of several values."""

        def value() -> str:
            return self.expression(kind, depth)

        def flag() -> str:
            return self.expression("flag", depth)

        return self.random.choice(
            (
                lambda: f"CASE WHEN {flag()} THEN {value()} WHEN {flag()} THEN {value()} ELSE {value()} END",
                lambda: f"CASE WHEN {flag()} THEN {value()} END",
                lambda: f"CASE {value()} WHEN {value()} THEN {value()} ELSE {value()} END",
                lambda: f"if({flag()}, {value()}, {value()})",
                lambda: f"coalesce({value()}, {value()}, {value()})",
                lambda: f"nvl({value()}, {value()})",
                lambda: f"nullif({value()}, {value()})",
                lambda: f"nvl2({value()}, {value()}, NULL)",
            )
        )()


Maker = Callable[[SqlCases, int], str]
_LEAVES: Final = {
    "whole": ("n", "k", "h", "s.x", "0", "1", "-3", "100", "7L", "2147483647", "NULL", "n", "k"),
    "real": ("d", "e", "f", "1.5D", "0D", "1e3", "DOUBLE('NaN')", "d", "f", "float(0.1)"),
    "decimal": ("m", "w", "x", "s.m", "1.5", "0.01", "100", "-2.345", "0.0"),
    "text": ("a", "c", "num", "s.y", "'a'", "''", "'äß'", "' b '", "NULL", "'12'", "a", "num"),
    "time": ("t", "u", "s.at", "TIMESTAMP '1969-12-31 23:59:59.999999'", "TIMESTAMP '2024-02-29 00:00:00'"),
    "date": ("day", "day", "DATE '2024-02-29'", "DATE '0001-01-01'"),
    "flag": ("b", "b", "true", "NULL", "n > 0"),
}


def _call(template: str, *kinds: str) -> Maker:
    """An expression with operands of these kinds."""
    return lambda cases, depth: template.format(
        *(cases.number(depth) if kind == "number" else cases.expression(kind, depth) for kind in kinds)
    )


def _compared(cases: SqlCases, depth: int) -> str:
    kind = cases.random.choice(("number", "number", "text", "time", "date", "flag"))
    sign = cases.random.choice(("=", "<", ">", "<=", ">=", "<>", "<=>", "!="))
    return _call(f"({{}} {sign} {{}})", kind, kind)(cases, depth)


def _listed(cases: SqlCases, depth: int) -> str:
    kind = cases.random.choice(("whole", "text", "date", "decimal"))
    sign = cases.random.choice(("IN", "NOT IN"))
    leaves = ", ".join(cases.random.choice(_LEAVES[kind]) for _ in range(cases.random.randint(1, 4)))
    return f"({cases.expression(kind, depth)} {sign} ({leaves}))"


_MAKERS: Final[dict[str, tuple[Maker, ...]]] = {
    "whole": (
        *(_call(f"({{}} {sign} {{}})", "whole", "whole") for sign in ("+", "-", "*", "%", "div")),
        *(_call(f"CAST({{}} AS {kind})", "number") for kind in ("INT", "BIGINT", "SMALLINT", "TINYINT")),
        *(_call(f"CAST({{}} AS {kind})", "text") for kind in ("INT", "BIGINT")),
        *(_call(f"{name}({{}})", "time") for name in ("year", "month", "day", "hour", "minute", "second")),
        *(_call(f"{name}({{}})", "time") for name in ("unix_seconds", "unix_millis", "unix_micros")),
        *(_call(f"{name}({{}})", "date") for name in ("year", "month", "dayofmonth")),
        *(_call(f"{name}({{}})", "whole") for name in ("abs", "-", "INT")),
        _call("length({})", "text"),
        _call("CAST({} AS BIGINT)", "time"),
        _call("CAST({} AS INT)", "flag"),
    ),
    "real": (
        *(_call(f"({{}} {sign} {{}})", "real", "number") for sign in ("+", "-", "*", "/", "%")),
        *(_call(f"CAST({{}} AS {kind})", "number") for kind in ("DOUBLE", "FLOAT")),
        *(_call(f"CAST({{}} AS {kind})", "text") for kind in ("DOUBLE", "FLOAT")),
        *(_call(f"{name}({{}})", "real") for name in ("abs", "-")),
        _call("({} / {})", "whole", "whole"),
        _call("CAST({} AS DOUBLE)", "flag"),
    ),
    "decimal": (
        *(_call(f"({{}} {sign} {{}})", "decimal", "decimal") for sign in ("+", "-", "*", "/")),
        *(_call(f"({{}} {sign} {{}})", "decimal", "whole") for sign in ("+", "-", "*")),
        *(_call(f"CAST({{}} AS DECIMAL({size}))", "number") for size in ("10,2", "5,0", "20,4", "38,18", "9,6")),
        *(_call(f"CAST({{}} AS DECIMAL({size}))", "text") for size in ("10,2", "5,0")),
        *(_call(f"{name}({{}})", "decimal") for name in ("abs", "-")),
    ),
    "text": (
        *(_call(f"{name}({{}})", "text") for name in ("lower", "upper", "trim", "ltrim", "rtrim")),
        *(_call("concat({}, {}, {})", "text", kind, "text") for kind in ("text", "whole", "date", "flag")),
        *(_call("CAST({} AS STRING)", kind) for kind in ("whole", "decimal", "time", "date", "flag")),
        *(
            _call(f"date_format({{}}, '{form}')", "time")
            for form in ("yyyy-MM-dd", "yyyy-MM-dd HH", "yyyyMMdd'T'HH:mm:ss")
        ),
        _call("date_format({}, 'yyyy/MM')", "date"),
        _call("({} || '-' || {})", "text", "text"),
        _call("concat_ws('-', {}, {}, 'z')", "text", "whole"),
        _call("substring({}, 1, 2)", "text"),
        _call("substr({}, 3)", "text"),
        _call("left({}, 2)", "text"),
    ),
    "time": (
        *(
            _call(f"date_trunc('{unit}', {{}})", "time")
            for unit in ("DAY", "hour", "MINUTE", "SECOND", "MONTH", "year")
        ),
        *(_call(f"timestamp_{unit}({{}})", "whole") for unit in ("seconds", "millis", "micros")),
        _call("CAST({} AS TIMESTAMP)", "date"),
        _call("CAST({} AS TIMESTAMP)", "whole"),
        _call("CAST({} AS TIMESTAMP)", "text"),
    ),
    "date": (
        _call("to_date({})", "time"),
        _call("CAST({} AS DATE)", "time"),
        _call("CAST({} AS DATE)", "text"),
        _call("trunc({}, 'MM')", "date"),
        _call("trunc({}, 'YEAR')", "date"),
    ),
    "flag": (
        _compared,
        _compared,
        _compared,
        _listed,
        *(_call(f"({{}} {sign} {{}})", "flag", "flag") for sign in ("AND", "OR")),
        _call("(NOT {})", "flag"),
        *(_call(f"({{}} IS {sign}NULL)", kind) for sign in ("", "NOT ") for kind in ("number", "text", "flag")),
        *(_call("({} BETWEEN {} AND {})", kind, kind, kind) for kind in ("number", "text", "time")),
        *(_call(f"({{}} LIKE '{pattern}')", "text") for pattern in ("a%", "%b", "%a%", "abc", "%")),
        *(_call(f"{name}({{}}, 'a')", "text") for name in ("startswith", "endswith", "contains")),
        _call("isnan({})", "real"),
        _call("CAST({} AS BOOLEAN)", "whole"),
        _call("CAST({} AS BOOLEAN)", "text"),
    ),
}
