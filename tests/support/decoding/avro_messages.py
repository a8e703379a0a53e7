"""Avro messages as nobody should send them, and schemas for them: values in odd encodings, then mutated bytes."""

from __future__ import annotations

import json
import random
import struct
from typing import Any, Final

from support.decoding.damage import damaged

LONGS: Final = (
    *(0, 1, -1, 63, 64, -64, -65, 127, 128, 8191, 8192, 2**31 - 1, -(2**31), 2**31, 2**32, 2**40, -(2**55), 2**56),
    *(2**62, 2**63 - 1, -(2**63), 9223372036854775, 9223372036854776, -9223372036854775, -9223372036854776),
    *(-719162, -719163, -141427, -141428, 2932896, 1767225600000, 1767225600000000, -62135596800000000),
)
TEXTS: Final = (
    *(b"", b"a", b"plain text", "Köln".encode(), "日本語 🦔".encode(), b"x" * 70, b"y" * 300, b"nul\x00", b"k1", b"k2"),
)
NOT_UTF8: Final = (b"\xff", b"\xc3", b"ab\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"ok \xe0\x80\x80")

_PLAIN: Final[tuple[Any, ...]] = (
    *("boolean", "int", "long", "float", "double", "string", "string", "bytes"),
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "local-timestamp-millis"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "string", "avro.java.string": "String"},
    {"type": "string", "logicalType": "uuid"},
    {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
    {"type": "bytes", "logicalType": "decimal", "precision": 18},
    {"type": "bytes", "logicalType": "decimal", "precision": 19, "scale": 3},
    {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 18},
)
EVERY: Final = 3
"""So many schemas have a field of each plain type, and so many more without one are made at random."""


class AvroMessages:
    """An endless source of schemas and their messages, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._names = 0

    def schema(self) -> dict[str, Any]:
        """The next schema: a record, one field of which is the string `id`."""
        kinds = [self._kind(0) for _ in range(self._random.randrange(1, 9))]
        if self._random.random() < 1 / EVERY:
            kinds += [self._maybe_union(kind) for kind in _PLAIN]
        fields = [{"name": f"c{number}", "type": kind} for number, kind in enumerate(kinds)]
        fields.insert(self._random.choice((0, len(fields))), {"name": "id", "type": "string"})
        return {"type": "record", "name": "Row", "namespace": "a.b", "fields": fields}

    def take(self, schema: dict[str, Any], count: int, *, well_formed: bool = False) -> list[bytes | None]:
        """The next messages of the schema; None for one without a value."""
        self._defined: dict[str, Any] = {}
        self._define(schema)
        return [self._value(schema, 0.0) if well_formed else self._message(schema) for _ in range(count)]

    def _define(self, schema: Any) -> None:
        if isinstance(schema, list):
            for branch in schema:
                self._define(branch)
        elif isinstance(schema, dict):
            if schema["type"] in {"record", "enum", "fixed"}:
                self._defined[schema["name"]] = schema
            for inner in (schema.get("items"), schema.get("values"), *(f["type"] for f in schema.get("fields", []))):
                self._define(inner)

    def _kind(self, depth: int) -> Any:
        choice = self._random.random()
        if choice < 0.5 or depth > 2:
            return self._maybe_union(self._random.choice(_PLAIN))
        self._names += 1
        name = f"N{self._names}"
        if choice < 0.56:
            return self._maybe_union({"type": "enum", "name": name, "symbols": ["A", "B", "C_x"]})
        if choice < 0.62:
            return self._maybe_union({"type": "fixed", "name": name, "size": self._random.choice((1, 5, 16, 20))})
        if choice < 0.7:
            size, precision = self._random.choice(((1, 2), (5, 10), (8, 18), (9, 18), (9, 20), (16, 38), (17, 38)))
            kind = {"type": "fixed", "name": name, "size": size, "logicalType": "decimal"}
            return self._maybe_union(kind | {"precision": precision, "scale": self._random.randrange(precision)})
        if choice < 0.8:
            return self._maybe_union({"type": "array", "items": self._kind(depth + 1)})
        if choice < 0.88:
            return self._maybe_union({"type": "map", "values": self._kind(depth + 1)})
        fields = [{"name": f"f{n}", "type": self._kind(depth + 1)} for n in range(self._random.randrange(1, 5))]
        record = {"type": "record", "name": name, "fields": fields}
        if depth == 0 and self._random.random() < 0.3:  # the same type again, by its name
            return {
                "type": "record",
                "name": f"{name}x",
                "fields": [{"name": "one", "type": record}, {"name": "two", "type": ["null", name]}],
            }
        return self._maybe_union(record)

    def _maybe_union(self, kind: Any) -> Any:
        choice = self._random.random()
        return ["null", kind] if choice < 0.4 else [kind, "null"] if choice < 0.5 else [kind] if choice < 0.53 else kind

    def _message(self, schema: dict[str, Any]) -> bytes | None:
        choice = self._random.random()
        if choice < 0.003:
            return None
        if choice < 0.01:
            return self._random.choice((b"", b"\x00", b"\xff" * 12, b"\x80" * 12))
        oddity = 0.0 if choice < 0.5 else self._random.choice((0.002, 0.01, 0.1))
        message = self._value(schema, oddity)
        while self._random.random() < (0.0 if choice < 0.75 else 0.4):
            message = damaged(message, self._random)
        return message

    def _odd(self, oddity: float) -> bool:
        return self._random.random() < oddity

    def _value(self, kind: Any, oddity: float) -> bytes:  # noqa: C901, PLR0912 - a case per type
        if isinstance(kind, list):
            branch = self._random.randrange(len(kind))
            if self._odd(oddity):
                return self._long(self._random.choice((2, -1, 3, 64)), oddity)
            inner = b"" if kind[branch] == "null" else self._value(kind[branch], oddity)
            return self._long(branch, oddity) + inner
        name, schema = (kind, {}) if isinstance(kind, str) else (kind["type"], kind)
        if name in self._defined:
            return self._value(self._defined[name], oddity)
        if schema.get("logicalType") == "decimal":
            return self._decimal(schema, oddity)
        match name:
            case "boolean":
                return bytes([self._random.choice((0, 1, 2, 255) if self._odd(oddity) else (0, 1))])
            case "int":
                number = self._random.choice(LONGS)
                fits = self._odd(oddity) or -(2**31) <= number < 2**31
                return self._long(number if fits else self._random.randrange(1000), oddity)
            case "long":
                number = self._random.choice(LONGS)
                fits = self._odd(oddity) or not schema.get("logicalType", "").endswith("-millis")
                return self._long(number if fits else number // 1024, oddity)
            case "float":
                return struct.pack("<f", self._random.choice((0.0, -0.0, 1.5, float("nan"), float("-inf"), 3e38)))
            case "double":
                return struct.pack("<d", self._random.choice((0.0, -0.0, 0.1, float("nan"), float("inf"), 1e-320)))
            case "string":
                return self._bytes(self._random.choice(NOT_UTF8 if self._odd(oddity) else TEXTS), oddity)
            case "bytes":
                return self._bytes(self._random.choice((*TEXTS, *NOT_UTF8)), oddity)
            case "fixed":
                return self._random.randbytes(schema["size"])
            case "enum":
                return self._long(self._random.choice((3, -1, 2**31) if self._odd(oddity) else (0, 1, 2)), oddity)
            case "array":
                return self._items(lambda: self._value(schema["items"], oddity), oddity)
            case "map":
                return self._items(lambda: self._entry(schema["values"], oddity), oddity)
        return b"".join(self._value(field["type"], oddity) for field in schema["fields"])

    def _entry(self, kind: Any, oddity: float) -> bytes:
        key = self._random.choice(TEXTS) if self._odd(oddity) else b"key%d" % self._random.randrange(10**6)
        return self._bytes(key, oddity) + self._value(kind, oddity)

    def _items(self, item: Any, oddity: float) -> bytes:
        found = b""
        for _ in range(self._random.choice((0, 1, 1, 1, 2))):
            items = [item() for _ in range(self._random.choice((1, 1, 2, 3, 150 if self._odd(oddity) else 4)))]
            if self._random.random() < 0.2:
                size = len(b"".join(items)) if not self._odd(oddity) else self._random.choice(LONGS)
                found += self._long(-len(items), oddity) + self._long(size, oddity) + b"".join(items)
            else:
                found += self._long(len(items), oddity) + b"".join(items)
        return found + self._long(0, oddity)

    def _bytes(self, value: bytes, oddity: float) -> bytes:
        length = self._random.choice((-1, -(2**63), len(value) + 1000)) if self._odd(oddity / 4) else len(value)
        return self._long(length, oddity) + value

    def _decimal(self, schema: dict[str, Any], oddity: float) -> bytes:
        digits = schema["precision"]
        most = 10**digits - 1
        number = self._random.choice(
            (0, 1, -1, most, -most, self._random.randrange(-most, most), 127, -128, 128, 12345)
        )
        number = max(-most, min(number, most))
        if self._odd(oddity):
            number = self._random.choice((most + 1, -most - 1, 2**64 + 5, -(2**64) + 5, 10 * most))
        if schema["type"] == "fixed":
            bits = 8 * schema["size"]
            number = (number + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
            return number.to_bytes(schema["size"], "big", signed=True)
        size = (number.bit_length() + 8) // 8 + self._random.choice((0, 0, 0, 1, 3))
        value = number.to_bytes(size + (20 if self._odd(oddity) else 0), "big", signed=True)
        return self._bytes(b"" if self._odd(oddity / 2) else value, oddity)

    def _long(self, number: int, oddity: float) -> bytes:
        left = ((number << 1) ^ (number >> 63)) & (2**64 - 1)
        found = bytearray()
        while left >= 0x80:
            found.append(left & 0x7F | 0x80)
            left >>= 7
        found.append(left)
        if self._odd(oddity / 4):  # longer than needed
            found[-1] |= 0x80
            found += b"\x80" * self._random.randrange(9) + bytes([self._random.choice((0, 0, 1, 2, 127))])
        return bytes(found)


def as_text(schema: dict[str, Any]) -> str:
    """The schema as a pipeline has it."""
    return json.dumps(schema)
