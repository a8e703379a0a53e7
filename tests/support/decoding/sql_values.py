"""Random rows for SQL: of usual values, or of values that are odd in some way."""

from __future__ import annotations

import random
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
        *(
            "\x7f5",
            "5\x7f",
            " 2024-02-29\t",
            "2024-02-29 24:00:00",
            "2024-02-29 23:59:60",
            "0000-01-01",
            "0001-01-01T00:00:00",
            "2024-02-29 12:00:00.1234567",
        ),
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


def random_rows(pick: random.Random, count: int) -> pa.RecordBatch:
    """Rows of `COLUMNS`: of usual values, or of odd ones."""
    calm = pick.random() < 0.5
    arrays = [pa.array([_value(pick, kind, calm=calm) for _ in range(count)], kind) for kind in COLUMNS.values()]
    return pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS))


def _value(pick: random.Random, kind: pa.DataType, *, calm: bool) -> Any:
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
        return _micros(pick, calm=calm) // _DAY if calm or pick.random() < 0.97 else pick.choice((-719_529, 5_000_000))
    if pa.types.is_timestamp(kind):
        return _micros(pick, calm=calm)
    if pa.types.is_list(kind):
        return [_value(pick, kind.value_type, calm=calm) for _ in range(pick.randint(0, 3))]
    return {kind.field(at).name: _value(pick, kind.field(at).type, calm=calm) for at in range(kind.num_fields)}


def _micros(pick: random.Random, *, calm: bool) -> int:
    if calm or pick.random() < 0.3:
        return pick.randint(-(2**51), 2**52)
    return pick.choice(_FAR_MICROS if pick.random() < 0.02 else _MICROS)
