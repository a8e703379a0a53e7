"""Protobuf messages as nobody should send them, and schemas for them."""

from __future__ import annotations

import base64
import random
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto

from support.decoding.damage import damaged

KINDS: Final = (
    *("int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32", "sfixed64"),
    *("bool", "float", "double", "string", "string", "bytes", "enum"),
)
INTEGERS: Final = (0, 1, 2, 63, 64, 127, 128, 300, 8191, 8192, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1)
TEXTS: Final = ("", "a", "plain text", "Köln", "日本語 🦔", "x" * 70, "y" * 300, "nul\x00")
FLOATS: Final = (0.0, -0.0, 1.5, -2.25, float("inf"), 1e-40)
KEYS: Final = ("int32", "int64", "uint64", "sint32", "fixed32", "bool", "string")


class ProtobufMessages:
    """An endless source of schemas and their messages, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._schemas = 0

    def schema(self) -> Schema:
        """The next schema, of either syntax. One field is the string `id`."""
        self._schemas += 1
        is_proto3 = self._random.random() < 0.65
        file = descriptor_pb2.FileDescriptorProto(name=f"s{self._schemas}.proto", package="a.b")
        file.syntax = "proto3" if is_proto3 else "proto2"
        file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"])
        kind = file.enum_type.add(name="Kind")
        for number, name in ((0, "NONE"), (1, "ONE"), (7, "SEVEN"), (-3, "LESS")):
            kind.value.add(number=number, name=name)
        inner = [self._message(file, f"M{n}", [f"M{m}" for m in range(n)], is_proto3=is_proto3) for n in range(3)]
        row = self._message(file, "Row", [each.name for each in inner], is_proto3=is_proto3)
        self._field(row, "id", "string", self._free_number(row), FieldDescriptorProto.LABEL_OPTIONAL)
        return Schema(file, "a.b.Row")

    def take(self, schema: Schema, count: int, *, well_formed: bool = False) -> list[bytes | None]:
        """The next messages of the schema; None for one without a value."""
        found: list[bytes | None] = []
        for _ in range(count):
            choice = self._random.random()
            message = self._filled(schema.new(), 0).SerializePartialToString(deterministic=True)
            if not well_formed and choice > 0.5:
                message = self._odd(schema, message)
            found.append(None if not well_formed and choice < 0.005 else message)
        return found

    def _message(self, file: Any, name: str, others: list[str], *, is_proto3: bool) -> Any:
        message = file.message_type.add(name=name)
        for n in range(self._random.randrange(1, 9)):
            self._any_field(file, message, f"f{n}", others, is_proto3=is_proto3)
        if self._random.random() < 0.4:
            message.oneof_decl.add(name="choice")
            for n in range(2):
                kind = self._random.choice((*KINDS, *(f".a.b.{other}" for other in others)))
                field = self._field(message, f"o{n}", kind, self._free_number(message), 1)
                field.oneof_index = len(message.oneof_decl) - 1
        return message

    def _any_field(self, file: Any, message: Any, name: str, others: list[str], *, is_proto3: bool) -> None:
        choice, number = self._random.random(), self._free_number(message)
        known = (".google.protobuf.Timestamp", ".google.protobuf.Int64Value", ".google.protobuf.StringValue")
        kinds = (*KINDS, *KINDS, *known, *(f".a.b.{other}" for other in others))
        kind = self._random.choice(kinds)
        if choice < 0.12:
            entry = message.nested_type.add(name=f"{name.capitalize()}Entry")
            entry.options.map_entry = True
            self._field(entry, "key", self._random.choice(KEYS), 1, 1)
            self._field(entry, "value", kind, 2, 1)
            self._field(message, name, f".{file.package}.{message.name}.{entry.name}", number, 3)
        elif choice < 0.35:
            field = self._field(message, name, kind, number, FieldDescriptorProto.LABEL_REPEATED)
            if self._random.random() < 0.4 and field.type not in {9, 11, 12}:
                field.options.packed = self._random.random() < 0.5
        else:
            field = self._field(message, name, kind, number, FieldDescriptorProto.LABEL_OPTIONAL)
            if is_proto3 and self._random.random() < 0.3 and not kind.startswith("."):
                field.proto3_optional = True
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{name}")
                # Synthetic ones come last.
            elif not is_proto3 and self._random.random() < 0.15:
                field.label = FieldDescriptorProto.LABEL_REQUIRED
            elif not is_proto3 and self._random.random() < 0.3 and field.type not in {11, 12}:
                field.default_value = {8: "true", 9: "dflt", 14: "SEVEN"}.get(field.type, "12")

    def _field(self, message: Any, name: str, kind: str, number: int, label: int) -> Any:
        field = message.field.add(name=name, number=number, label=label)
        if kind.startswith("."):
            field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, kind
        else:
            field.type = FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")
            if kind == "enum":
                field.type_name = ".a.b.Kind"
        return field

    def _free_number(self, message: Any) -> int:
        taken = {field.number for field in message.field}
        numbers = (*range(1, 18), 100, 2047, 2048, 300_000, 2**29 - 1)
        return self._random.choice([number for number in numbers if number not in taken])

    def _filled(self, message: Any, depth: int) -> Any:
        for field in message.DESCRIPTOR.fields:
            if self._random.random() < (0.15 if not field.is_required else 0.02):
                continue
            if field.message_type is not None and field.message_type.GetOptions().map_entry:
                self._fill_map(message, field, depth)
            elif field.is_repeated:
                for _ in range(self._random.choice((0, 1, 2, 3, 20))):
                    if field.message_type is not None:
                        self._filled(getattr(message, field.name).add(), depth + 1)
                    else:
                        getattr(message, field.name).append(self._scalar(field))
            elif field.message_type is not None:
                getattr(message, field.name).SetInParent()
                self._filled(getattr(message, field.name), depth + 1)
            else:
                setattr(message, field.name, self._scalar(field))
        return message

    def _fill_map(self, message: Any, field: Any, depth: int) -> None:
        key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
        found = getattr(message, field.name)
        for _ in range(self._random.choice((0, 1, 2, 5))):
            if value.message_type is not None:
                self._filled(found[self._scalar(key)], depth + 1)
            else:
                found[self._scalar(key)] = self._scalar(value)

    def _scalar(self, field: Any) -> Any:
        name = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
        pick = self._random.choice
        match name:
            case "bool":
                return pick((True, False))
            case "float" | "double":
                return pick(FLOATS) if name == "double" else pick((0.0, -0.0, 1.5, -2.25, float("inf")))
            case "string":
                return pick(TEXTS)
            case "bytes":
                return pick((b"", b"\xff\x00", b"abc", b"z" * 40))
            case "enum":
                return pick((0, 1, 7, -3))
        bits = 32 if name.endswith("32") else 64
        number = pick(INTEGERS) % (1 << bits)
        if not name.startswith(("u", "fixed")):
            number -= 1 << (bits - 1) if pick((True, False)) else 0
            number = max(-(1 << bits - 1), min(number, (1 << bits - 1) - 1))
        return number

    def _odd(self, schema: Schema, message: bytes) -> bytes:
        """The bytes as another serializer may write them, or none."""
        match self._random.randrange(6):
            case 0:  # fields twice, and in another order
                return message + self._filled(schema.new(), 0).SerializePartialToString(deterministic=True)
            case 1:  # unknown fields
                extra = (b"\xf8\x3f\x05", b"\xfa\x3f\x02ab", b"\xfd\x3f\x01\x02\x03\x04", b"\xfb\x3f\x08\x01\xfc\x3f")
                return self._random.choice(extra) + message + self._random.choice(extra)
        while True:
            message = damaged(message, self._random)
            if self._random.random() < 0.5:
                return message


class Schema:
    """A message of a file, with Google's own classes."""

    def __init__(self, file: Any, name: str) -> None:
        for message in file.message_type:
            _synthetic_last(message)
        self.name = name
        known = [descriptor_pb2.FileDescriptorProto() for _ in range(2)]
        timestamp_pb2.DESCRIPTOR.CopyToProto(known[0])
        wrappers_pb2.DESCRIPTOR.CopyToProto(known[1])
        self.files = descriptor_pb2.FileDescriptorSet(file=[*known, file])
        pool = descriptor_pool.DescriptorPool()
        for each in self.files.file:
            pool.Add(each)
        self.new: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))

    @property
    def text(self) -> str:
        """As a pipeline has it."""
        return base64.b64encode(self.files.SerializeToString()).decode()


def _synthetic_last(message: Any) -> None:
    names = [each.name for each in message.oneof_decl]
    order = sorted(names, key=lambda name: name.startswith("_"))
    for field in message.field:
        if field.HasField("oneof_index"):
            field.oneof_index = order.index(names[field.oneof_index])
    del message.oneof_decl[:]
    for name in order:
        message.oneof_decl.add(name=name)
