"""Text as values of a column: of each form the value, and none for what is no value."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from typing import Any

import pyarrow as pa
import pytest

from bucketingest.decode.files.text_values import column_of_text, unreadable_type

UTC = dt.UTC
BAD = object()
CASES: list[tuple[pa.DataType, dict[str, Any]]] = [
    (pa.int8(), {"127": 127, " -128 ": -128, "+1": 1, "128": BAD, "1.0": BAD, "": BAD, "x": BAD, "\u0661": BAD}),
    (pa.int64(), {"9223372036854775807": 2**63 - 1, "9223372036854775808": BAD, "1_0": BAD}),
    (pa.float64(), {"1.5": 1.5, "-1e3": -1000.0, "Infinity": math.inf, "-inf": -math.inf, "1,5": BAD, "0x1": BAD}),
    (
        pa.decimal128(5, 2),
        {"1.5": decimal.Decimal("1.50"), "1.005": decimal.Decimal("1.01"), "999.99": decimal.Decimal("999.99")}
        | {"999.995": BAD, "1e9": BAD, "NaN": BAD, "1e-3": decimal.Decimal("0.00")},
    ),
    (pa.bool_(), {"true": True, "FALSE": False, "1": BAD, "yes": BAD}),
    (pa.date32(), {"2026-01-31": dt.date(2026, 1, 31), "2026-02-30": BAD, "31.1.2026": BAD, "": BAD}),
    (
        pa.timestamp("us", "UTC"),
        {
            "2026-01-31T12:00:00Z": dt.datetime(2026, 1, 31, 12, tzinfo=UTC),
            "2026-01-31 12:00:00.5": dt.datetime(2026, 1, 31, 12, 0, 0, 500_000, UTC),
            "2026-01-31 12:00:00+02:00": dt.datetime(2026, 1, 31, 10, tzinfo=UTC),
            "2026-01-31 25:00:00": BAD,
            "yesterday": BAD,
        },
    ),
    (pa.string(), {" a ": " a ", "": ""}),
]


@pytest.mark.parametrize(("kind", "texts"), CASES, ids=[str(kind) for kind, _ in CASES])
def test_each_text_alone_and_among_others(kind: pa.DataType, texts: dict[str, Any]) -> None:
    alone = [column_of_text(pa.array([text], pa.string()), kind) for text in texts]
    values, bad = column_of_text(pa.array([*texts, None], pa.string()), kind)
    expected = [None if value is BAD else value for value in texts.values()]
    assert values.to_pylist() == [*expected, None]
    assert bad.tolist() == [*(value is BAD for value in texts.values()), False]
    assert [each[0].to_pylist()[0] for each in alone] == expected
    assert values.type == kind


def test_types_that_no_text_has_are_named() -> None:
    good = pa.schema([(str(at), kind) for at, (kind, _) in enumerate(CASES)])
    assert unreadable_type(good) is None
    assert unreadable_type(pa.schema([*good, ("l", pa.list_(pa.int32()))])) == pa.list_(pa.int32())
