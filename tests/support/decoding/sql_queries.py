"""Random SQL over random rows: what a transform may have."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

import pyarrow as pa

from support.decoding.sql_values import random_rows


class SqlCases:
    """The same seed makes the same rows and expressions."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def rows(self, count: int) -> pa.RecordBatch:
        """Rows of `COLUMNS`."""
        return random_rows(self.random, count)

    def select(self, count: int) -> list[str]:
        """Expressions."""
        return [self.expression(self.random.choice(list(_MAKERS)), self.random.randint(1, 3)) for _ in range(count)]

    def query(self, count: int) -> str:
        """A whole SELECT, with WHERE, and sometimes from another one."""
        made = ", ".join(f"{sql} AS made{at}" for at, sql in enumerate(self.select(count)))
        inner = "SELECT *, {} AS inner_whole, {} AS inner_text FROM source WHERE {}".format(
            *(self.expression(kind, 1) for kind in ("whole", "text", "flag"))
        )
        source = f"({inner})" if self.random.random() < 0.5 else "source"
        return f"SELECT number, {made} FROM {source} WHERE {self.expression('flag', 2)}"

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
    "nested": ("s", "l", "struct(n AS q, a)"),
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
        *(_call(f"CAST({{}} AS {kind})", "text") for kind in ("INT", "BIGINT", "SMALLINT", "TINYINT")),
        _call("named_struct('q', {}, 'r', {}).q", "whole", "text"),
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
            _call(f'date_format({{}}, "{form}")', "time")
            for form in ("yyyy-MM-dd", "yyyy-MM-dd HH:mm", "dd.MM, HH 'h'", "yyyyMMdd'T'HH:mm:ss")
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
    # PySpark cannot hand over a struct of which a field is never null, if the struct itself may be.
    "nested": (_call("struct(a, t, n + 0 AS q)"), _call("named_struct('q', s, 'r', l)")),
    "flag": (
        _compared,
        _compared,
        _compared,
        _listed,
        *(_call(f"({{}} {sign} {{}})", "flag", "flag") for sign in ("AND", "OR")),
        _call("(NOT {})", "flag"),
        *(_call(f"({{}} IS {sign}NULL)", kind) for sign in ("", "NOT ") for kind in ("number", "text", "nested")),
        *(_call("({} BETWEEN {} AND {})", kind, kind, kind) for kind in ("number", "text", "time")),
        *(_call(f"({{}} LIKE '{pattern}')", "text") for pattern in ("a%", "%b", "%a%", "abc", "%")),
        *(_call(f"{name}({{}}, 'a')", "text") for name in ("startswith", "endswith", "contains")),
        _call("isnan({})", "real"),
        _call("CAST({} AS BOOLEAN)", "number"),
        _call("CAST({} AS BOOLEAN)", "text"),
    ),
}
