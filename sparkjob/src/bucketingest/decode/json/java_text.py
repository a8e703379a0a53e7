"""Text that Java makes of values: a number or an object in a STRING column becomes the text that Jackson writes."""

from __future__ import annotations

import math
import struct
from typing import Final

_FRACTION_BITS: Final = 52
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_ESCAPE_TABLE: Final = (
    {code: f"\\u{code:04X}" for code in range(32)}
    | {ord(character): escape for character, escape in _ESCAPES.items()}
    | {code: f"\\u{code:04X}" for code in range(0xD800, 0xE000)}
)


def quoted(text: str) -> str:
    """A JSON string as Jackson's generator writes it; `text` as Java holds it, surrogates one by one."""
    return f'"{text.translate(_ESCAPE_TABLE)}"'


def number_text(value: float) -> str:
    """A number with a fraction or an exponent as Jackson's generator writes it."""
    if math.isnan(value):
        return '"NaN"'
    if math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    return double_text(value)


def double_text(value: float) -> str:
    """Double.toString of Java 17, which gives more digits than are needed for some values, such as 2E23."""
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if value == 0:
        return f"{sign}0.0"
    digits, exponent = _digits(abs(value))
    if 0 < exponent < 8:
        digits = digits.ljust(exponent, "0")
        return f"{sign}{digits[:exponent]}.{digits[exponent:] or '0'}"
    if -3 < exponent <= 0:
        return f"{sign}0.{'0' * -exponent}{digits}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent - 1}"


def _digits(value: float) -> tuple[str, int]:
    """Decimal digits, and the exponent with the point before the first of them."""
    (bits,) = struct.unpack(">q", struct.pack(">d", value))
    exponent = (bits >> _FRACTION_BITS) - 1023
    fraction = bits & ((1 << _FRACTION_BITS) - 1)
    significant_bits = _FRACTION_BITS + 1
    if exponent == -1023:  # subnormal: shifted until its first bit is where that of others is
        shift = significant_bits - fraction.bit_length()
        fraction <<= shift
        exponent, significant_bits = -1022 - shift, significant_bits - shift
    else:
        fraction |= 1 << _FRACTION_BITS
    zeros = (fraction & -fraction).bit_length() - 1
    fraction_bits = _FRACTION_BITS + 1 - zeros
    tiny_bits = max(0, fraction_bits - exponent - 1)
    if -21 <= exponent <= 62 and tiny_bits == 0 and fraction_bits < 64:
        return _whole_digits(fraction, exponent, significant_bits)
    mantissa = fraction / (1 << _FRACTION_BITS)
    point = math.floor((mantissa - 1.5) * 0.289529654 + 0.176091259 + exponent * 0.301029995663981)
    return _developed(fraction >> zeros, exponent, significant_bits, tiny_bits, point)


def _whole_digits(fraction: int, exponent: int, significant_bits: int) -> tuple[str, int]:
    """Digits of a whole number that fits in a long; those that no double could distinguish are rounded."""
    shift = exponent - _FRACTION_BITS
    whole = fraction << shift if shift >= 0 else fraction >> -shift
    power = exponent - significant_bits - 1
    dropped = int(power * math.log10(2)) if power > 1 else 0
    if dropped:
        whole, rest = divmod(whole, 10**dropped)
        whole += rest >= 10**dropped // 2
    text = str(whole)
    return text.rstrip("0"), len(text) + dropped


def _developed(odd: int, exponent: int, significant_bits: int, tiny_bits: int, point: int) -> tuple[str, int]:
    """One digit after the other, until what is left is less than half the distance to the next double. `point`: an
    estimate of the decimal exponent, too large by one at most.
    """
    fraction_bits = odd.bit_length()
    fives, tens_fives = max(0, -point), max(0, point)
    twos, tens_twos = fives + tiny_bits + exponent, tens_fives + tiny_bits
    half_twos = twos - significant_bits
    twos -= fraction_bits - 1
    common = min(twos, tens_twos)
    twos, tens_twos, half_twos = twos - common, tens_twos - common, half_twos - common
    if fraction_bits == 1:
        half_twos -= 1
    if half_twos < 0:
        twos, tens_twos, half_twos = twos - half_twos, tens_twos - half_twos, 0
    is_long = _is_small(fraction_bits, twos, fives, tens_twos, tens_fives)
    rest, unit, half = (odd * 5**fives) << twos, 5**tens_fives << tens_twos, 5**fives << half_twos
    tens = unit * 10

    def is_high() -> bool:
        return _as_long(rest + half) > tens if is_long else rest + half >= tens

    digit, rest = divmod(rest, unit)
    rest, half = rest * 10, half * 10
    low, high = rest < half, is_high()
    digits: list[int] = []
    if digit == 0 and not high:
        point -= 1
    else:
        digits.append(digit)
    if point < -3 or point >= 8:  # there will be an exponent, and at least one digit behind the point
        low = high = False
    while not low and not high:
        digit, rest = divmod(rest, unit)
        rest, half = rest * 10, half * 10
        if is_long and _as_long(half) <= 0:
            half = _as_long(half)
            low = high = True
        else:
            low, high = rest < half, is_high()
        digits.append(digit)
    beyond = 2 * rest - tens
    if high and (not low or beyond > 0 or (beyond == 0 and digits[-1] % 2)):
        point += _round_up(digits)
    return "".join(map(str, digits)).rstrip("0") or "0", point + 1


def _is_small(fraction_bits: int, twos: int, fives: int, tens_twos: int, tens_fives: int) -> bool:
    """Whether Java computes in a long, where it compares a little differently."""
    bits = fraction_bits + twos + _bits_of_fives(fives)
    tens_bits = tens_twos + 1 + _bits_of_fives(tens_fives + 1)
    return bits < 64 and tens_bits < 64


def _as_long(number: int) -> int:
    """What a sum in a long is after it has overflowed, which Java's digits depend on (3.06E25)."""
    return (number + 2**63) % 2**64 - 2**63


def _bits_of_fives(power: int) -> int:
    if power == 0:
        return 0
    return (5**power).bit_length() if power < 27 else power * 3


def _round_up(digits: list[int]) -> int:
    """Add one to the last digit; returns 1 if all were nines, so that the point moves."""
    at = len(digits) - 1
    while digits[at] == 9 and at > 0:
        digits[at] = 0
        at -= 1
    if digits[at] == 9:
        digits[at] = 1
        return 1
    digits[at] += 1
    return 0
