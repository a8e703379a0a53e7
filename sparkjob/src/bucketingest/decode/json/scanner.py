"""Jackson's grammar, as Spark uses it: JSON, and strings in single quotes, NaN and infinities, within Jackson's limits.

Text is as Java holds it: a character beyond U+FFFF is two surrogates. Its last character is a brace that the caller put
there, see `exact`. Everything here is a function of text and a position in it, returns the position behind what was
read, and raises `Undecodable` with the position of what is wrong.
"""

from __future__ import annotations

import re
from typing import Final

from bucketingest.decode.json.java_text import number_text, quoted
from bucketingest.decode.rows import Undecodable

DEPTH_MAX: Final = 1000
"""Objects and arrays inside each other."""
NUMBER_DIGITS_MAX: Final = 1000
NAME_LENGTH_MAX: Final = 50_000

NON_NUMERIC: Final = re.compile(r"NaN|[+-]?Infinity|[+-]INF")
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE][+-]?([0-9]+))?")
_PLAIN: Final = {'"': re.compile(r'"([^"\\\x00-\x1f]*)"'), "'": re.compile(r"'([^'\\\x00-\x1f]*)'")}
_CHUNK: Final = {'"': re.compile(r'[^"\\\x00-\x1f]*'), "'": re.compile(r"[^'\\\x00-\x1f]*")}
_ESCAPED: Final = {'"': '"', "'": "'", "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HEX: Final = {ord(digit): int(digit, 16) for digit in "0123456789abcdefABCDEF"}
_WORDS: Final = ("true", "false", "null")
_SHOWN: Final = 20


def as_java(text: str) -> str:
    """The text with each character beyond U+FFFF as two surrogates."""
    if text.isascii() or max(text) <= "\uffff":
        return text
    units = text.encode("utf-16-le", "surrogatepass")
    return "".join(chr(units[at] | units[at + 1] << 8) for at in range(0, len(units), 2))


def as_utf8(text: str) -> str:
    """The reverse; a surrogate without its other half becomes a question mark, as where Java encodes UTF-8."""
    if text.isascii():
        return text
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return joined.encode("utf-8", "replace").decode()


def skip_space(text: str, at: int) -> int:
    """Position of the next character that is not white space."""
    found = _SPACE.match(text, at)
    assert found is not None, "the pattern matches nothing, too"
    return found.end()


def kind_of(text: str, at: int) -> str:
    """What value begins here, in words: text, number, object, array, true, false, null. Raises if none does."""
    first = text[at : at + 1]
    if first in {'"', "'"} and first:
        return "text"
    if first == "{":
        return "object"
    if first == "[":
        return "array"
    for word in _WORDS:
        if text.startswith(word, at):
            return word
    if _NUMBER.match(text, at) or NON_NUMERIC.match(text, at):
        return "number"
    raise unexpected(text, at, "a value")


def read_string(text: str, at: int) -> tuple[str, int]:
    """The string that begins here, in double or single quotes."""
    quote = text[at]
    if found := _PLAIN[quote].match(text, at):
        return found[1], found.end()
    parts: list[str] = []
    at += 1
    while True:
        found = _CHUNK[quote].match(text, at)
        assert found is not None, "the pattern matches nothing, too"
        parts.append(found[0])
        at = found.end()
        character = text[at : at + 1]
        if character == quote:
            return "".join(parts), at + 1
        if character != "\\":
            what = "a control character in a string" if character else "the end inside a string"
            raise Undecodable(min(at, len(text) - 1), what)
        escaped, at = _read_escape(text, at)
        parts.append(escaped)


def read_number(text: str, at: int) -> tuple[str, bool, int]:
    """The number's text, whether it is a whole number (without point and exponent), and the position behind it."""
    found = _NUMBER.match(text, at)
    if found is None:
        found = NON_NUMERIC.match(text, at)
        if found is None:
            raise unexpected(text, at, "a number")
        return found[0], False, found.end()
    whole, fraction, exponent = found.groups()
    # Behind a leading zero, Jackson counts a part that is not there as -1.
    absent = -1 if whole == "0" else 0
    digits = len(whole) + sum(absent if part is None else len(part) for part in (fraction, exponent))
    if digits > NUMBER_DIGITS_MAX:
        raise Undecodable(at, f"a number of more than {NUMBER_DIGITS_MAX} digits")
    return found[0], fraction is None and exponent is None, found.end()


def as_float(number: str) -> float:
    """The value of a number's text, also of Jackson's words for infinity."""
    return float(number.replace("INF", "Infinity"))


def read_name(text: str, at: int) -> tuple[str, int]:
    """A member's name and the position of its value."""
    if text[at : at + 1] not in {'"', "'"} or at >= len(text):
        raise unexpected(text, at, "a name")
    start = at
    name, at = read_string(text, at)
    if len(name) > NAME_LENGTH_MAX:
        raise Undecodable(start, f"a name of more than {NAME_LENGTH_MAX} characters")
    at = skip_space(text, at)
    if text[at : at + 1] != ":":
        raise unexpected(text, at, "a colon")
    return name, skip_space(text, at + 1)


def next_member(text: str, at: int, *, closing: str, first: bool) -> tuple[bool, int]:
    """Behind a value or an opening bracket: whether another one follows, and its position, else that behind the end."""
    at = skip_space(text, at)
    character = text[at : at + 1]
    if character == closing:
        return False, at + 1
    if first:
        return True, at
    if character != ",":
        raise unexpected(text, at, f"a comma or {closing}")
    return True, skip_space(text, at + 1)


def read_any(text: str, at: int, depth: int, out: list[str] | None = None) -> int:
    """Read a value of any kind; `out` takes what Jackson's generator makes of it. `depth`: brackets open around it.

    Without recursion: a value may be nested more deeply than Python's stack.
    """
    closings: list[str] = []
    first = True
    while True:
        if closings:
            more, at = next_member(text, at, closing=closings[-1], first=first)
            if not more:
                _write(out, closings.pop())
                first = False
                if not closings:
                    return at
                continue
            if not first:
                _write(out, ",")
            if closings[-1] == "}":
                name, at = read_name(text, at)
                if out is not None:
                    out.append(quoted(name) + ":")
        kind = kind_of(text, at)
        first = kind in {"object", "array"}
        if first:
            if depth + len(closings) >= DEPTH_MAX:
                raise Undecodable(at, f"more than {DEPTH_MAX} levels")
            _write(out, text[at])
            closings.append("}" if kind == "object" else "]")
            at += 1
            continue
        at = _read_scalar(text, at, kind, out)
        if not closings:
            return at


def unexpected(text: str, at: int, wanted: str) -> Undecodable:
    """The error that something else stands here."""
    # The last character is not the message's.
    found = text[at : min(at + _SHOWN, len(text) - 1)].split("\n", maxsplit=1)[0]
    return Undecodable(at, f"{wanted} is expected, not " + (repr(as_utf8(found)) if found else "the end"))


def _read_scalar(text: str, at: int, kind: str, out: list[str] | None) -> int:
    if kind == "text":
        string, at = read_string(text, at)
        if out is not None:
            out.append(quoted(string))
        return at
    if kind != "number":
        _write(out, kind)
        return at + len(kind)
    number, is_whole, at = read_number(text, at)
    if out is not None:
        out.append(whole_text(number) if is_whole else number_text(as_float(number)))
    return at


def whole_text(number: str) -> str:
    """A whole number as Java writes it."""
    return "0" if number == "-0" else number


def _write(out: list[str] | None, text: str) -> None:
    if out is not None:
        out.append(text)


def _read_escape(text: str, at: int) -> tuple[str, int]:
    escaped = text[at + 1 : at + 2]
    if escaped in _ESCAPED and escaped:
        return _ESCAPED[escaped], at + 2
    if escaped != "u":
        raise Undecodable(at, f"an escape that JSON does not have: {as_utf8(text[at : at + 2])!r}")
    code = 0
    for offset in range(2, 6):
        # Jackson looks at the last byte of a character only.
        digit = _HEX.get(ord(text[at + offset]) & 0xFF) if at + offset < len(text) else None
        if digit is None:
            raise Undecodable(at, "an escape \\u without four hexadecimal digits")
        code = code * 16 + digit
    return chr(code), at + 6
