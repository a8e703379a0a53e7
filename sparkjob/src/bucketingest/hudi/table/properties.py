"""Java's .properties text and Hudi's checksum over it: every reader of a table first reads hoodie.properties."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping

from bucketingest.hudi.errors import InvalidTable

_KEY_END = re.compile(r"(?:[^\\=: \t\f]|\\.)*", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u(.{0,4})|(.))", re.DOTALL)
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = {
    "\t": "\\t",
    "\n": "\\n",
    "\r": "\\r",
    "\f": "\\f",
    "\\": "\\\\",
    "=": "\\=",
    ":": "\\:",
    "#": "\\#",
    "!": "\\!",
}


def parse(text: str) -> dict[str, str]:
    """Keys and values of a .properties text by the rules of java.util.Properties; of a repeated key the last value
    counts.

    Raises `InvalidTable` for a broken unicode escape.
    """
    result: dict[str, str] = {}
    for line in _logical_lines(text):
        match = _KEY_END.match(line)
        key = match[0] if match is not None else ""
        rest = line[len(key) :].lstrip(" \t\f")
        if rest[:1] in {"=", ":"}:
            rest = rest[1:].lstrip(" \t\f")
        result[_unescape(key)] = _unescape(rest)
    return result


def serialise(properties: Mapping[str, str], comments: tuple[str, ...] = ()) -> str:
    """A .properties text that Java reads back to the same keys and values; sorted by key, ASCII only, with newlines."""
    lines = [f"#{comment}" for comment in comments]
    lines.extend(f"{_escape(key, is_key=True)}={_escape(properties[key], is_key=False)}" for key in sorted(properties))
    return "\n".join(lines) + "\n"


def checksum(database: str, table: str) -> str:
    """Value of hoodie.table.checksum: CRC-32 of `<database>.<table>` as an unsigned decimal; the database may be empty.

    Seen in tables that Hudi 1.2.0 wrote. Its readers refuse a table with a wrong checksum.
    """
    return str(zlib.crc32(f"{database}.{table}".encode()))


def _logical_lines(text: str) -> list[str]:
    """Lines without comments and blanks, with continuation lines joined."""
    result: list[str] = []
    pending: str | None = None
    for raw in re.split(r"\r\n|\r|\n", text):
        line = raw.lstrip(" \t\f")
        if pending is None and (not line or line[0] in "#!"):
            continue
        line = (pending or "") + line
        trailing_backslashes = len(line) - len(line.rstrip("\\"))
        if trailing_backslashes % 2 == 1:
            pending = line[:-1]
        else:
            result.append(line)
            pending = None
    if pending is not None:
        result.append(pending)
    return result


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    found = _ESCAPE.sub(lambda one: _ESCAPES.get(one[2], one[2]) if one[1] is None else _code_unit(one[1]), text)
    # Java escapes UTF-16 code units: two escapes are one character beyond the basic plane.
    return found.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "replace")


def _code_unit(digits: str) -> str:
    if re.fullmatch(r"[0-9a-fA-F]{4}", digits) is None:
        raise InvalidTable(
            f"a .properties file has the broken escape \\u{digits}: four hexadecimal digits must follow \\u"
        )
    return chr(int(digits, 16))


def _escape(text: str, *, is_key: bool) -> str:
    out: list[str] = []
    for index, character in enumerate(text):
        if character in _ESCAPED:
            out.append(_ESCAPED[character])
        elif character == " ":
            # Java would read a leading space of a value, and any space of a key, as part of the separator.
            out.append("\\ " if is_key or index == 0 else " ")
        elif " " < character <= "~":
            out.append(character)
        else:
            units = character.encode("utf-16-be", "surrogatepass")
            out.extend(f"\\u{units[i]:02X}{units[i + 1]:02X}" for i in range(0, len(units), 2))
    return "".join(out)
