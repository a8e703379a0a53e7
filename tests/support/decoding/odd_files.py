"""Odd values of each type in files of CSV and Parquet, and what becomes of each: a row's value, or a dead letter with
its reason. The one table for tests without Spark, and for those through a whole run and both of Hudi's readers.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from support.decoding.odd_values import LONGEST, Case, Letter, utc

NOT_UTF8: Final = pa.Array.from_buffers(pa.string(), 1, pa.array([b"a\xff"]).buffers())

CSV: Final = [
    Case("STRING", "a", "a"),
    Case("STRING", "", None),
    Case("STRING", '""', ""),
    Case("STRING", '" a, ""b"" "', ' a, "b" '),
    Case("STRING", '"a\nb"', "a\nb"),
    Case("STRING", "12.50", "12.50"),
    Case("STRING", "'a'", "'a'"),
    Case("STRING", "🦔", "🦔"),
    Case("STRING", b"\xff", Letter("a byte that is not UTF-8")),
    Case("TINYINT", "-128", -128),
    Case("TINYINT", "128", Letter("is no TINYINT")),
    Case("SMALLINT", " 32767 ", 32767),
    Case("INT", "+1", 1),
    Case("INT", "01", 1),
    Case("INT", "1.0", Letter("is no INT")),
    Case("INT", "1e2", Letter("is no INT")),
    Case("INT", "0x10", Letter("is no INT")),
    Case("BIGINT", "9223372036854775807", 2**63 - 1),
    Case("BIGINT", "9223372036854775808", Letter("is no BIGINT")),
    Case("FLOAT", "0.5", 0.5),
    Case("DOUBLE", "5e-324", 5e-324),
    Case("DOUBLE", "-Infinity", -math.inf),
    Case("DOUBLE", "NaN", math.nan),
    Case("DOUBLE", "1_000", Letter("is no DOUBLE")),
    Case("DECIMAL(10,2)", "12.5", Decimal("12.50")),
    Case("DECIMAL(10,2)", "0.005", Decimal("0.01")),
    Case("DECIMAL(10,2)", '"12,50"', Letter("is no DECIMAL(10,2)")),
    Case("DECIMAL(10,2)", "123456789", Letter("is no DECIMAL(10,2)")),
    Case("DECIMAL(38,18)", str(LONGEST), LONGEST),
    Case("BOOLEAN", "TRUE", True),
    Case("BOOLEAN", "1", Letter("is no BOOLEAN")),
    Case("DATE", "2024-02-29", dt.date(2024, 2, 29)),
    Case("DATE", "2023-02-29", Letter("is no DATE")),
    Case("DATE", "10000-01-01", Letter("is no DATE")),
    Case("TIMESTAMP", "2026-01-01T00:00:00.1234567+01:00", utc(2025, 12, 31, 23, 0, 0, 123456)),
    Case("TIMESTAMP", "1767225600000", Letter("is no TIMESTAMP")),
    Case("BINARY", "a", b"a"),
]
PARQUET: Final = [
    Case("STRING", pa.array(["🦔"]), "🦔"),
    Case("STRING", pa.array([""]), ""),
    Case("STRING", pa.array(["a"], pa.large_string()), "a"),
    Case("STRING", NOT_UTF8, Letter("a byte that is not UTF-8")),
    Case("BINARY", pa.array([b"\x00\xff"]), b"\x00\xff"),
    Case("TINYINT", pa.array([-128], pa.int8()), -128),
    Case("INT", pa.array([-(2**15)], pa.int16()), -(2**15)),
    Case("BIGINT", pa.array([-(2**31)], pa.int32()), -(2**31)),
    Case("BIGINT", pa.array([2**63 - 1]), 2**63 - 1),
    Case("DOUBLE", pa.array([1.5], pa.float32()), 1.5),
    Case("DOUBLE", pa.array([math.nan]), math.nan),
    Case("DECIMAL(38,18)", pa.array([LONGEST]), LONGEST),
    Case("BOOLEAN", pa.array([False]), False),
    Case("DATE", pa.array([dt.date(1, 1, 1)]), dt.date(1, 1, 1)),
    Case("TIMESTAMP", pa.array([utc(9999, 12, 31)], pa.timestamp("ms", "UTC")), utc(9999, 12, 31)),
    Case("TIMESTAMP", pa.array([utc(1900, 1, 1, 0, 0, 0, 1)], pa.timestamp("us", "UTC")), utc(1900, 1, 1, 0, 0, 0, 1)),
    Case("ARRAY<INT>", pa.array([[1, None]], pa.list_(pa.int32())), [1, None]),
    Case("STRUCT<x: INT, y: STRING>", pa.array([{"x": 1, "y": None}], pa.struct({"x": pa.int32(), "y": pa.string()})),
         {"x": 1, "y": None}),
]  # fmt: skip

Kind = Literal["csv", "parquet"]
TABLES: Final[dict[Kind, list[Case]]] = {"csv": CSV, "parquet": PARQUET}


def schema_of(kind: Kind) -> str:
    """The columns: the key `id`, and `c<n>` of each type."""
    return ", ".join(["id STRING", *(f"c{at} {each}" for at, each in enumerate(_kinds(kind)))])


def files_of(kind: Kind, folder: Path) -> Iterator[Path]:
    """The files, in a folder that is there: a CSV file of all cases, a Parquet file of each."""
    kinds = _kinds(kind)
    if kind == "csv":
        path = folder / "odd.csv"
        path.write_bytes(b"".join(_line(number, case, kinds) for number, case in enumerate(CSV)))
        yield path
        return
    for number, case in enumerate(PARQUET):
        path = folder / f"odd-{number}.parquet"
        pq.write_table(pa.table({"id": [str(number)], f"c{kinds.index(case.kind)}": case.given}), path)
        yield path


def expected_of_files(kind: Kind) -> dict[str, dict[str, Any]]:
    """The rows by their `id`: the columns with a value."""
    kinds = _kinds(kind)
    return {
        str(number): {} if case.becomes is None else {f"c{kinds.index(case.kind)}": case.becomes}
        for number, case in enumerate(TABLES[kind])
        if not isinstance(case.becomes, Letter)
    }


def reasons_of_files(kind: Kind) -> list[str]:
    """Part of the detail of each dead letter, in the order of the cases."""
    return [case.becomes.why for case in TABLES[kind] if isinstance(case.becomes, Letter)]


def _kinds(kind: Kind) -> list[str]:
    return list(dict.fromkeys(case.kind for case in TABLES[kind]))


def _line(number: int, case: Case, kinds: list[str]) -> bytes:
    cells = [str(number).encode(), *[b""] * len(kinds)]
    cells[kinds.index(case.kind) + 1] = case.given if isinstance(case.given, bytes) else case.given.encode()
    return b",".join(cells) + b"\n"
