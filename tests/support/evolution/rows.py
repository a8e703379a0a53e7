"""Random rows of a version of a schema."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from support.evolution.chains import SYMBOLS, Field, FormatName

_ABSENT: Final = ("plain", "record")
"""Shapes of which Protobuf has none; of others it has nothing inside."""


def random_row(draw: random.Random, format_: FormatName, version: Sequence[Field], key: str) -> dict[str, Any]:
    return {"id": key, **{each.name: _value(draw, format_, each) for each in version}}


def _value(draw: random.Random, format_: FormatName, of: Field) -> Any:
    if of.nullable and draw.random() < 0.2 and (format_ != "protobuf" or of.shape in _ABSENT):
        return None
    match of.shape:
        case "plain":
            return _of_kind(draw, of)
        case "record":
            return {each: _of_kind(draw, of) for each in of.inside}
        case "array":
            return [{each: _of_kind(draw, of) for each in of.inside} for _ in range(draw.randint(0, 2))]
        case "map":
            return {key: _of_kind(draw, of) for key in "kl"[: draw.randint(0, 2)]}
    return [_of_kind(draw, replace(of, kind="time"))]


def _of_kind(draw: random.Random, of: Field) -> Any:
    number = draw.randrange(10**6)
    return {
        "int": draw.choice((number, -(2**31), 2**24 + 1)),
        "long": draw.choice((number, 2**60, 2**60 + 1)),
        "float": draw.choice((0.1, 0.5, -1e30)),
        "double": draw.choice((0.1, number / 7)),
        "string": f"s{number}",
        "boolean": bool(number % 2),
        "date": date(1970, 1, 1) + timedelta(days=number % 20000),
        "time": datetime(2024, 1, 1, tzinfo=UTC) + timedelta(milliseconds=number),
        "micros": datetime(2024, 1, 1, tzinfo=UTC) + timedelta(microseconds=number),
        "decimal": Decimal(number).scaleb(-2),
        "finer": Decimal(number).scaleb(-4),
        "enum": draw.choice(SYMBOLS[: of.symbols]),
        "bytes": str(number).encode(),
    }[of.kind]
