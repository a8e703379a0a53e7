"""JSON messages as nobody should send them: rows of a schema, built of odd values and then mutated."""

from __future__ import annotations

import random
from typing import Final

from support.decoding.json_values import GOOD, NAMES, NUMBERS, TEXTS

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
_FLAT: Final = [name for name, values in GOOD.items() if not {value[0] for value in values} & {"{", "["}]


class JsonMessages:
    """An endless source of messages, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def take(self, count: int) -> list[bytes | None]:
        """The next messages; None for one without a value."""
        return [self._message() for _ in range(count)]

    def alike(self, count: int) -> list[bytes | None]:
        """Messages of one producer: the same members in the same order and with the same white space; some are odd."""
        names = [name for name in _FLAT if self._random.random() < 0.7] or ["id"]
        names += self._random.sample(("unknown", "ü", "ID"), self._random.randrange(3))
        self._random.shuffle(names)
        befores = [f'"{name}"{self._space(0.05)}:{self._space(0.05)}' for name in names]
        befores[0] = self._random.choice(("{", "{ ", " {\t")) + befores[0]
        befores[1:] = [self._random.choice((",", ", ")) + before for before in befores[1:]]
        after = self._random.choice(("}", " }", "}\n"))
        oddity = self._random.choice((0.0, 0.01, 0.1))
        messages: list[bytes | None] = []
        for _ in range(count):
            values = [self._scalar(name, oddity) for name in names]
            message = ("".join(map("".join, zip(befores, values, strict=True))) + after).encode()
            messages.append(self._mutated(message) if self._random.random() < oddity else message)
        return messages

    def _scalar(self, name: str, oddity: float) -> str:
        if self._random.random() < oddity:
            return self._value(4)
        good = GOOD.get(name, ('"text"', '""', "null"))
        return self._random.choice(good if self._random.random() < 0.2 else good[:1])

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
            levels = self._random.choice((150, 400, 496, 497, 498, 499, 500, 501, 1500))
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
