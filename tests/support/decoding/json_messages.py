"""JSON messages as nobody should send them: rows of a schema, built of odd values and then mutated."""

from __future__ import annotations

import random
from typing import Final

SCHEMA: Final = (
    "id STRING, small SMALLINT, quantity INT, big BIGINT, ratio FLOAT, weight DOUBLE, amount DECIMAL(10,2), "
    "wide DECIMAL(38,18), whole DECIMAL(5,0), paid BOOLEAN, day DATE, at TIMESTAMP, "
    "address STRUCT<city: STRING, zip: INT, since: DATE, inner: STRUCT<at: TIMESTAMP, score: DOUBLE>>, "
    "lines ARRAY<STRUCT<sku: STRING, price: DECIMAL(8,3), at: TIMESTAMP>>, tags ARRAY<STRING>, "
    "grid ARRAY<ARRAY<INT>>, days ARRAY<DATE>"
)

NAMES: Final = (
    *("id", "small", "quantity", "big", "ratio", "weight", "amount", "wide", "whole", "paid", "day", "at"),
    *("address", "lines", "tags", "grid", "days", "city", "zip", "since", "inner", "score", "sku", "price"),
    *("unknown", "ID", "", "a b", "_bucketingest_row", "_bucketingest_corrupt", "ü", "🦔"),
)

NUMBERS: Final = (
    *("0", "-0", "-0.0", "0.0", "1", "-1", "7", "42", "127", "128", "255", "256", "32767", "32768", "-32768", "-32769"),
    *("2147483647", "2147483648", "-2147483648", "-2147483649", "9223372036854775807", "9223372036854775808"),
    *("-9223372036854775808", "-9223372036854775809", "9007199254740993", "123456789012345678901234567890"),
    *("1.5", "0.005", "0.015", "2.675", "-0.005", "1.005", "99999999.99", "99999999.995", "99999999.994", "100000000"),
    *("1e2", "1E2", "1e+2", "1e-2", "1.5e3", "12345678.9e1", "1e400", "-1e400", "1e-400", "4.9e-324", "2e23", "1e23"),
    *("1.7976931348623157e308", "1.7976931348623159e308", "3.4028235e38", "3.4028236e38", "3.4028235677973366e38"),
    *(
        "1.17549435E-38",
        "1.401298464324817e-45",
        "16777217",
        "16777217.0000001",
        "8388608.5",
        "0.1",
        "0.30000000000000004",
    ),
    *("99999", "99999.4", "99999.5", "-99999.5", "100000", "12345.678", "12345.6785", "0.0005", "1e37", "1e19", "1e20"),
    *("1767225600", "1767225600000", "9223372036855", "-62135596800", "NaN", "Infinity", "-Infinity", "+Infinity"),
    *(
        "-INF",
        "+INF",
        "INF",
        "Inf",
        "-Inf",
        "-NaN",
        "nan",
        "+1",
        "01",
        "-01",
        "00",
        "1.",
        ".5",
        "-.5",
        "1e",
        "1e+",
        "-",
    ),
    *("0x10", "1_000", "1,5", "٣", "1" * 40, "1" * 999, "1" * 1000, "1" * 1001, "0." + "1" * 998, "0." + "1" * 999),
    *("0." + "1" * 1000, "1" * 997 + "e123", "1" * 997 + "e1234", "1" * 998 + "e+1", "1" * 999 + "e-10"),
)

TEXTS: Final = (
    *(
        "",
        " ",
        "a",
        "plain",
        "NaN",
        "Infinity",
        "+INF",
        "-INF",
        "-Infinity",
        "INF",
        "true",
        "null",
        "1",
        "1.5",
        "-1.005",
    ),
    *("1,234.5", "1e3", " 1", "1 ", "+1.5", "1.", ".5", "1_0", "٣", "1e99999999999", "0e99", "x" * 300),
    *("Info, Inf , NaN ", "foo: Inf, bar", 'quote\\"d', "back\\\\slash", "sl\\/ash", "tab\\t", "nul\\u0000", "\\u00e9"),
    *(
        "\\ud83d\\ude00",
        "\\ud83d",
        "\\ude00",
        "\\ude00\\ud83d",
        "\\ud83dx",
        "\\uD83D\\u0041",
        "\\\\ud83d",
        "\\u12",
        "\\x",
    ),
    *(
        "\\'",
        "'",
        "🦔",
        "日本語",
        "e\u0301",
        "\u2028",
        "\ufeff",
        "\x7f",
        "\x01",
        "\t",
        "line\nbreak",
        "\r\n",
        "\\u0130030",
    ),
    *("2026-01-01T00:00:00Z", "2026-01-01 00:00:00", "2026-01-01T00:00:00.123456Z", "2026-01-01T00:00:00.123456789Z"),
    *("2026-01-01T00:00:00.", "2026-01-01T00:00:00.Z", "2026-01-01T00:00:00.1+02:00", "2026-01-01T00:00:00+0230"),
    *("2026-01-01T00:00:00+02", "2026-01-01T00:00:00+2:00", "2026-01-01T00:00:00-17:59", "2026-01-01T00:00:00+18:00"),
    *("2026-01-01T00:00:00+18:01", "2026-01-01T00:00:00+19:00", "2026-01-01T00:00:00 +01:00", "2026-01-01T00:00Z"),
    *(
        "2026-01-01T00:00",
        "2026-01-01T00",
        "2026-01-01T00Z",
        "2026-01-01T0:0:0",
        "2026-01-01T",
        "2026-01-01",
        "2026-1-1",
    ),
    *(
        "2026-01",
        "2026",
        "26-01-01",
        "02026-01-01",
        "+2026-01-01",
        "-2026-01-01",
        "0000-01-01",
        "0001-01-01",
        "9999-12-31",
    ),
    *("10000-01-01", "294247-01-10T04:00:54.775807Z", "294247-01-10T04:00:54.775808Z", "999999-01-01", "9999999-01-01"),
    *("2026-02-29", "2024-02-29", "1900-02-29", "2000-02-29", "2026-13-01", "2026-00-01", "2026-01-00", "2026-01-32"),
    *(
        "2026-01-01T24:00:00Z",
        "2026-01-01T23:59:60Z",
        "2026-01-01T23:60:00Z",
        " 2026-01-01 ",
        "2026-01-01 x",
        "2026-01-01Tx",
    ),
    *("2026-01-01T00:00:00 Europe/Berlin", "2026-03-29 02:30:00 Europe/Berlin", "2026-10-25 02:30:00 Europe/Berlin"),
    *("1883-11-18 12:00:00 America/New_York", "1500-01-01 00:00:00 Europe/Berlin", "2026-01-01T00:00:00 PST"),
    *("2026-01-01T00:00:00UTC", "2026-01-01T00:00:00 GMT", "2026-01-01T00:00:00GMT+01:00", "2026-01-01T00:00GMT+01:00"),
    *(
        "2026-01-01T00:00:00 UTC+1",
        "2026-01-01T00:00:00UT-3",
        "2026-01-01T00:00:00 Nowhere/Land",
        "2026-01-01T00:00:00ZZ",
    ),
    *("2026-01-01T00:00:00z", "2026-01-01t00:00:00Z", "2026-01-01  00:00:00", "2026/01/01", "01.01.2026", "20260101"),
    *(
        "2026-01-01 00:00:00 EST",
        "2026-01-01 00:00:00 ROC",
        "2026-01-01 00:00:00+01:00:30",
        "2026-01-01 00:00:00+013015",
    ),
    *("GMT2026-01-01", "2026-GMT01-01", "17", "-17", "+17", "-141427", "-141428", "-200000", "-719163", "-719164"),
    *(
        "-1000000",
        "2147483647",
        "2147483648",
        "-2147483648",
        "12345678",
        "-12345678",
        "-00141427",
        "-00141428",
        "-00719163",
        "-00800000",
        "-00577738",
        "2026-01-01T00:00:00,5Z",
        "2026-01-01T00:00:00:00",
    ),
    *(
        "2026-01-01T00:00:00.1234567+01:00",
        "1969-12-31T23:59:59.999999Z",
        "1582-10-10",
        "1500-02-29",
        "2026-01-01T1:2:3Z",
    ),
    *("yesterday", "epoch", "now", "today", "\\u0020 2026-01-01\\u0000", "2026-01-01\\u007f", "2026-01-01\u00a0"),
)

GOOD: Final = {
    "id": ('"k1"', '"bestellung-ß-🦔"', '"x\\n\\"y\\""', "null"),
    "small": ("1", "-32768", "null"),
    "quantity": ("17", "-1", "null"),
    "big": ("9007199254740993", "null"),
    "ratio": ("0.1", "3.5", "2"),
    "weight": ("0.14285714285714285", "1e-7", "3", "null"),
    "amount": ("12.5", "-99999999.99", '"3.14"', "null"),
    "wide": ("0.123456789012345678", '"12345678901234567890.5"'),
    "whole": ("12345", "-1"),
    "paid": ("true", "false", "null"),
    "day": ('"2026-03-29"', '"1969-07-20"', "null"),
    "at": ('"2026-03-29T00:59:59.123456Z"', '"2026-01-01 00:00:00"', '"2026-01-01T00:00:00+05:30"', "null"),
    "address": ('{"city": "Köln", "zip": 50667, "since": "2001-01-01"}', "{}", "null", '{"inner": {"score": 1.5}}'),
    "lines": ('[{"sku": "a", "price": 1.125, "at": "2026-01-01T00:00:00Z"}, null, {}]', "[]", "null"),
    "tags": ('["x", "y", null]', "[]"),
    "grid": ("[[1, 2], [], null, [3]]", "[]"),
    "days": ('["2026-01-01", null]', "[]"),
}

_SPACES: Final = ("", "", "", "", " ", "  ", "\t", "\n", "\r\n", "\x0b", "\u00a0")
_PIECES: Final = (
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b'"',
        b"'",
        b"\\",
        b"\\u",
        b"null",
        b"{}",
        b"[]",
        b"\xff",
        b"\xc3",
        b"\xed\xa0\x80",
    ),
    *(
        b"\xf0\x9f\xa6\x94",
        b"\x00",
        b"\n",
        b" ",
        b"0",
        b"-",
        b".",
        b"e",
        b"}}",
        b"}} {",
        b'},"x":{',
        b"//",
        b"/**/",
        b"#",
    ),
    *(b"\xef\xbb\xbf", b"\xe0\x80\xaf", b"\xf4\x90\x80\x80", b'}, "_bucketingest_row": {"id": "other"'),
)


class JsonMessages:
    """An endless source of messages, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def take(self, count: int) -> list[bytes | None]:
        """The next messages; None for one without a value."""
        return [self._message() for _ in range(count)]

    def _message(self) -> bytes | None:
        choice = self._random.random()
        if choice < 0.002:
            return None
        if choice < 0.02:
            return self._value(0).encode()
        oddity = 0.0 if choice < 0.3 else self._random.choice((0.03, 0.1, 0.5))
        message = self._row(oddity).encode()
        while self._random.random() < (0.0 if choice < 0.6 else 0.5):
            message = self._mutated(message)
        return message

    def _row(self, oddity: float) -> str:
        names = [name for name in GOOD if self._random.random() < 0.7]
        self._random.shuffle(names)
        members = []
        for name in names:
            value = self._random.choice(GOOD[name])
            if self._random.random() < oddity:
                value = self._value(0)
            members.append(f'"{name}"{self._space(oddity)}:{self._space(oddity)}{value}{self._space(oddity)}')
        if self._random.random() < oddity:
            members.append(self._member(1))
        row = f"{{{self._space(oddity)}{(',' + self._space(oddity)).join(members)}}}"
        around = ("", "") if self._random.random() > oddity else (self._space(oddity), self._space(oddity))
        return f"{around[0]}{row}{around[1]}"

    def _space(self, oddity: float) -> str:
        return self._random.choice(_SPACES) if self._random.random() < oddity else self._random.choice(("", " "))

    def _member(self, depth: int) -> str:
        quote = "'" if self._random.random() < 0.05 else '"'
        return f"{quote}{self._random.choice(NAMES)}{quote}: {self._value(depth)}"

    def _value(self, depth: int) -> str:
        kind = self._random.random()
        if kind < 0.35:
            return self._random.choice(NUMBERS)
        if kind < 0.75:
            quote = "'" if self._random.random() < 0.05 else '"'
            return quote + self._random.choice(TEXTS) + quote
        if kind < 0.8:
            return self._random.choice(("true", "false", "null", "True", "nul", "truefalse"))
        if kind < 0.801:
            levels = self._random.choice((150, 890, 996, 997, 998, 999, 1000, 1500))
            return "[" * levels + "]" * levels
        if depth > 3:
            return "{}"
        inner = self._random.randrange(4)
        if kind < 0.9:
            return "[" + ", ".join(self._value(depth + 1) for _ in range(inner)) + "]"
        return "{" + ", ".join(self._member(depth + 1) for _ in range(inner)) + "}"

    def _mutated(self, message: bytes) -> bytes:
        start = self._random.randrange(len(message) + 1)
        end = min(len(message), start + self._random.choice((0, 1, 1, 2, 5, 20)))
        kind = self._random.random()
        if kind < 0.25:
            return message[:start] + message[end:]
        if kind < 0.6:
            return message[:start] + self._random.choice(_PIECES) + message[end:]
        if kind < 0.7:
            return message[:start] + bytes([self._random.randrange(256)]) + message[end:]
        if kind < 0.8:
            return message[:start] + message[start:end] * 2 + message[end:]
        if kind < 0.9:
            return message + message[start:]
        return message[:start]
