"""The regular expressions of bucket rules: those that Java, in which Hudi is written, and RE2 take alike.

What only one of them has, or takes otherwise, is refused: a rule that two writers read differently would put one key
into two file groups.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NoReturn

PATTERN_MAX: Final = 256
"""Characters of one pattern."""
COUNT_MAX: Final = 1000
"""Largest number in braces: RE2's limit."""

_CLASSES: Final = {"d": "0-9", "w": "0-9A-Z_a-z", "s": r"\t\n\x{b}\f\r "}
"""Java's classes without its flag for Unicode."""
_LINE_END: Final = r"\n\r\x{85}\x{2028}\x{2029}"
"""What Java's dot does not match, and its dollar sign matches before."""
_SPECIAL: Final = frozenset("\\^$.|?*+()[]{}")
_SPECIAL_IN_CLASS: Final = frozenset("\\^[]&-")
_HEX: Final = re.compile(r"[0-9a-fA-F]{2}")


class InvalidPattern(ValueError):
    """The pattern is not one that Hudi and bucketingest read alike; the message says where and why."""


@dataclass(frozen=True, slots=True)
class PartitionPattern:
    """A pattern that is searched for in a partition path."""

    re2: str
    """The same pattern for RE2."""
    literal: str | None
    """The only path that has a match, if the pattern is one whole path."""


def read_pattern(text: str) -> PartitionPattern:
    r"""Read a pattern: text, `.`, `^` at the start, `$` or `\z` at the end, `[a-z]`, `\d \w \s \D \W \S`, `( )`, `|`,
    `? * + {3}`, `\x2C`, and `\` before punctuation. Raises InvalidPattern.
    """
    if len(text) > PATTERN_MAX * 16:  # room for the escapes of a whole path
        raise InvalidPattern(f"has more than {PATTERN_MAX * 16} characters")
    return _Reader(text).read()


def literal_pattern(path: str) -> str:
    r"""The pattern that only this partition path matches: `^2026\x2d11\z` for `2026-11`."""
    return "^" + "".join(_escaped(each) for each in path) + r"\z"


def _escaped(character: str) -> str:
    if character.isascii():
        return character if character.isalnum() else f"\\x{ord(character):02x}"
    return character


class _Reader:
    """A recursive descent over the pattern, which writes RE2's text as it reads."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def read(self) -> PartitionPattern:
        if self._text != self._text.strip(" "):
            self._refuse("starts or ends with a space, which Hudi cuts off: write \\x20")
        for separator in ",;":
            if separator in self._text:
                self._at = self._text.index(separator) + 1
                self._refuse(f"has {separator}, at which Hudi splits rules: write \\x{ord(separator):02X}")
        re2 = self._alternatives()
        if self._at < len(self._text):
            self._refuse("has a closing parenthesis without an opening one")
        return PartitionPattern(re2, self._literal())

    def _literal(self) -> str | None:
        """The path, if the text is what `literal_pattern` makes."""
        if not (self._text.startswith("^") and self._text.endswith(r"\z")):
            return None
        path = re.sub(r"\\x([0-9a-f]{2})", lambda found: chr(int(found[1], 16)), self._text[1:-2])
        return path if literal_pattern(path) == self._text else None

    def _alternatives(self) -> str:
        parts = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        return "|".join(parts)

    def _sequence(self) -> str:
        parts: list[str] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            if self._take("^"):
                if parts:
                    self._refuse("has ^ after something: it matches at the start only")
                parts.append("^")
            elif (end := self._end()) is not None:
                parts.append(end)
            else:
                parts.append(self._atom() + self._quantifier())
        return "".join(parts)

    def _end(self) -> str | None:
        if self._take("$"):
            end = rf"(?:\r\n|[{_LINE_END}])?\z"
        elif self._text.startswith(r"\z", self._at):
            self._at += 2
            end = r"\z"
        else:
            return None
        if self._at < len(self._text) and self._text[self._at] not in "|)":
            self._refuse("has something after the end: $ and \\z match at the end only")
        return end

    def _atom(self) -> str:
        character = self._next()
        if character == ".":
            return f"[^{_LINE_END}]"
        if character == "[":
            return self._class()
        if character == "(":
            return self._group()
        if character == "\\":
            return self._escape(in_class=False)
        if character in _SPECIAL:
            self._refuse(f"has {character} where it has no meaning: write \\{character} for the character itself")
        return self._character(character)

    def _group(self) -> str:
        if self._take("?") and not self._take(":"):
            self._refuse("has a group (? of a kind that is not known here: use ( ) or (?: )")
        self._depth += 1
        if self._depth > 16:
            self._refuse("has more than 16 groups in each other")
        inner = self._alternatives()
        if not self._take(")"):
            self._refuse("has an opening parenthesis without a closing one")
        self._depth -= 1
        return f"(?:{inner})"

    def _quantifier(self) -> str:
        quantifier = ""
        if self._at < len(self._text) and self._text[self._at] in "?*+":
            quantifier = self._next()
        elif self._take("{"):
            end = self._text.find("}", self._at)
            digits = self._text[self._at : max(end, self._at)]
            if not (digits.isascii() and digits.isdecimal()) or not 1 <= int(digits) <= COUNT_MAX:
                self._refuse(f"has braces without one number from 1 to {COUNT_MAX} (Hudi splits rules at commas)")
            self._at = end + 1
            quantifier = f"{{{int(digits)}}}"
        if quantifier and self._at < len(self._text) and self._text[self._at] in "?*+{":
            self._refuse("has two quantifiers, one after the other")
        return quantifier

    def _class(self) -> str:
        start = "[^" if self._take("^") else "["
        parts: list[str] = []
        while not self._take("]"):
            part = self._class_member()
            if self._take("-"):
                low, high = part, self._class_member()
                if len(low) != 1 or len(high) != 1 or low > high:
                    self._refuse("has a range in brackets that does not go from a character to a later one")
                part = f"{self._character(low)}-{self._character(high)}"
            elif len(part) == 1:
                part = self._character(part)
            parts.append(part)
        if not parts:
            self._refuse("has empty brackets")
        return f"{start}{''.join(parts)}]"

    def _class_member(self) -> str:
        """One character as it is, or a class's members."""
        character = self._next()
        if character == "\\":
            return self._escape(in_class=True)
        if character in _SPECIAL_IN_CLASS:
            self._refuse(f"has {character} in brackets: write \\{character} for the character itself")
        return character

    def _escape(self, *, in_class: bool) -> str:
        """The members of a class, or a character: as it is in brackets, else as RE2's text."""
        character = self._next()
        if character in _CLASSES:
            return _CLASSES[character] if in_class else f"[{_CLASSES[character]}]"
        if character.lower() in _CLASSES and not in_class:
            return f"[^{_CLASSES[character.lower()]}]"
        if character == "x":
            found = _HEX.match(self._text, self._at)
            if found is None:
                self._refuse("has \\x without two hexadecimal digits")
            self._at += 2
            character = chr(int(found[0], 16))
        elif not character.isascii() or character.isalnum() or character == "_" or character <= " ":
            self._refuse(f"has \\{character}, which is not known here")
        return character if in_class else self._character(character)

    def _character(self, character: str) -> str:
        if character < " " or character == "\x7f" or "\ud800" <= character <= "\udfff":
            self._refuse(f"has the control character U+{ord(character):04X}")
        return f"\\x{{{ord(character):x}}}"

    def _next(self) -> str:
        if self._at == len(self._text):
            self._refuse("ends too early")
        self._at += 1
        return self._text[self._at - 1]

    def _take(self, wanted: str) -> bool:
        if not self._text.startswith(wanted, self._at):
            return False
        self._at += len(wanted)
        return True

    def _refuse(self, why: str) -> NoReturn:
        raise InvalidPattern(f"{why} (at character {self._at} of {self._text!r})")
