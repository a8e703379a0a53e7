"""JSON's grammar (RFC 8259), and nothing beyond it: no single quotes, no NaN, no comments. Within limits.

Everything here is a function of text and a position in it, returns the position behind what was read, and raises
`Undecodable` with the position of what is wrong.
"""

from __future__ import annotations

import re
from typing import Final

from bucketingest.decode.rows import Undecodable

DEPTH_MAX: Final = 1000
"""Objects and arrays inside each other."""
NUMBER_LENGTH_MAX: Final = 1000
"""Characters of a number."""

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_PLAIN: Final = re.compile(r'"([^"\\\x00-\x1f]*)"')
_CHUNK: Final = re.compile(r'[^"\\\x00-\x1f]*')
_ESCAPED: Final = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_CODE: Final = re.compile(r"u([0-9a-fA-F]{4})")
_WORDS: Final = ("true", "false", "null")
_SHOWN: Final = 20


def skip_space(text: str, at: int) -> int:
    """Position of the next character that is not white space."""
    found = _SPACE.match(text, at)
    assert found is not None, "the pattern matches nothing, too"
    return found.end()


def kind_of(text: str, at: int) -> str:
    """What value begins here, in words: text, number, object, array, true, false, null. Raises if none does."""
    match text[at : at + 1]:
        case '"':
            return "text"
        case "{":
            return "object"
        case "[":
            return "array"
    for word in _WORDS:
        if text.startswith(word, at):
            return word
    if _NUMBER.match(text, at):
        return "number"
    raise unexpected(text, at, "a value")


def read_string(text: str, at: int) -> tuple[str, int]:
    """The string that begins here."""
    if found := _PLAIN.match(text, at):
        return found[1], found.end()
    parts: list[str] = []
    start = at
    at += 1
    while True:
        found = _CHUNK.match(text, at)
        assert found is not None, "the pattern matches nothing, too"
        parts.append(found[0])
        at = found.end()
        character = text[at : at + 1]
        if character == '"':
            return _joined(parts, start), at + 1
        if character != "\\":
            what = "a control character in a string" if character else "the end inside a string"
            raise Undecodable(at, what)
        escaped, at = _read_escape(text, at)
        parts.append(escaped)


def read_number(text: str, at: int) -> tuple[str, bool, int]:
    """The number's text, whether it is a whole number (without point and exponent), and the position behind it."""
    found = _NUMBER.match(text, at)
    if found is None:
        raise unexpected(text, at, "a number")
    if len(found[0]) > NUMBER_LENGTH_MAX:
        raise Undecodable(at, f"a number of more than {NUMBER_LENGTH_MAX} characters")
    return found[0], found[1] is None and found[2] is None, found.end()


def read_name(text: str, at: int) -> tuple[str, int]:
    """A member's name and the position of its value."""
    if text[at : at + 1] != '"':
        raise unexpected(text, at, "a name")
    name, at = read_string(text, at)
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


def read_any(text: str, at: int, depth: int) -> int:
    """Pass a value of any kind. `depth`: brackets open around it.

    Without recursion: a value may be nested more deeply than Python's stack.
    """
    closings: list[str] = []
    first = True
    while True:
        if closings:
            more, at = next_member(text, at, closing=closings[-1], first=first)
            if not more:
                closings.pop()
                first = False
                if not closings:
                    return at
                continue
            if closings[-1] == "}":
                _, at = read_name(text, at)
        kind = kind_of(text, at)
        first = kind in {"object", "array"}
        if first:
            if depth + len(closings) >= DEPTH_MAX:
                raise Undecodable(at, f"more than {DEPTH_MAX} levels")
            closings.append("}" if kind == "object" else "]")
            at += 1
            continue
        at = _read_scalar(text, at, kind)
        if not closings:
            return at


def unexpected(text: str, at: int, wanted: str) -> Undecodable:
    """The error that something else stands here."""
    found = text[at : at + _SHOWN].split("\n", maxsplit=1)[0]
    return Undecodable(at, f"{wanted} is expected, not " + (repr(found) if found else "the end"))


def _read_scalar(text: str, at: int, kind: str) -> int:
    if kind == "text":
        return read_string(text, at)[1]
    return read_number(text, at)[2] if kind == "number" else at + len(kind)


def _read_escape(text: str, at: int) -> tuple[str, int]:
    escaped = text[at + 1 : at + 2]
    if escaped in _ESCAPED and escaped:
        return _ESCAPED[escaped], at + 2
    if escaped != "u":
        raise Undecodable(at, f"an escape that JSON does not have: {text[at : at + 2]!r}")
    found = _CODE.match(text, at + 1)
    if found is None:
        raise Undecodable(at, "an escape \\u without four hexadecimal digits")
    return chr(int(found[1], 16)), found.end()


def _joined(parts: list[str], start: int) -> str:
    """One text, in which two escapes may be the halves of one character. One half alone is no text."""
    text = "".join(parts)
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise Undecodable(start, "an escape \\u that is half of a character") from None
