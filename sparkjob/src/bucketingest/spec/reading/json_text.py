"""Reads JSON that someone else wrote: whatever the text is, there is a value of bounded depth, or one kind of error."""

from __future__ import annotations

import json
import math
from typing import Any, Final

TEXT_MAX: Final = 1024 * 1024
"""Characters: as much as fits into an object of Kubernetes."""
DEPTH_MAX: Final = 100
"""Levels of lists and objects: what goes through the value again may call itself for each."""
DIGITS_MAX: Final = 40
"""Of an integer: more than 128 bits have."""


def parse_json(text: str) -> Any:
    """The value of a JSON text. Numbers are finite. Raises ValueError, in words for people, if it is not JSON, or is
    larger or deeper than anything that is meant.
    """
    if len(text) > TEXT_MAX:
        raise ValueError(f"has more than {TEXT_MAX} characters")
    try:
        value = json.loads(text, parse_int=_integer, parse_float=_number, parse_constant=_constant)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if _is_deep(value):
        raise ValueError(_TOO_DEEP)
    return value


_TOO_DEEP: Final = f"has more than {DEPTH_MAX} levels of lists and objects"


def _integer(digits: str) -> int:
    if len(digits) > DIGITS_MAX:
        raise ValueError(f"has an integer of more than {DIGITS_MAX} digits")
    return int(digits)


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"has a number that is too large: {text[:DIGITS_MAX]}")
    return value


def _constant(word: str) -> float:
    raise ValueError(f"has {word}, which is no JSON")


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEPTH_MAX + 1):
        inside = (each.values() if isinstance(each, dict) else each for each in level if isinstance(each, (list, dict)))
        level = [inner for each in inside for inner in each]
        if not level:
            return False
    return True
