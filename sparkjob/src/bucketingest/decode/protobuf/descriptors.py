"""Reads a message's fields from a descriptor set, as `protoc --include_imports --descriptor_set_out` writes it.

What no table's column can be, and what would never end, is refused.
"""

from __future__ import annotations

import base64
import binascii
from functools import lru_cache
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message import DecodeError

from bucketingest.decode.protobuf.schema import Enum, Field, Message, UnreadableDescriptors

FIELDS_MAX: Final = 5_000
"""Fields of a message and of all that it has inside, each as often as it occurs."""
_ZERO: Final = {"string": "", "bytes": b"", "bool": False, "float": 0.0, "double": 0.0}
_SPECIAL: Final = {"Timestamp": "timestamp", "Duration": "duration"}


@lru_cache(64)
def read_message(text: str, name: str | None, *, leaves_out: bool = False) -> Message:
    """The message of the name in a descriptor set in Base64; None: the first of its last file. `leaves_out`: a field
    that can be no column is left out.

    Raises UnreadableDescriptors.
    """
    return _Reading(leaves_out=leaves_out).message(descriptor_of(text, name), ())


def descriptor_of(text: str, name: str | None) -> Any:
    """The message's descriptor. Raises UnreadableDescriptors."""
    files = _files(text)
    pool = descriptor_pool.DescriptorPool()
    try:
        for each in files:
            pool.Add(each)
        if name is None:
            file = pool.FindFileByName(files[-1].name)
            return file.message_types_by_name[files[-1].message_type[0].name]
    except (TypeError, KeyError, ValueError) as error:
        raise UnreadableDescriptors(
            f"has descriptors that do not fit together, as without --include_imports: {_first_line(error)}"
        ) from error
    except IndexError as error:
        raise UnreadableDescriptors("has no message") from error
    try:
        return pool.FindMessageTypeByName(name)
    except KeyError as error:
        # The last file is the schema's own, and the others are what it imports.
        known = [f"{each.package}.{one.name}".lstrip(".") for each in files[::-1] for one in each.message_type]
        raise UnreadableDescriptors(f"has no message {name}, but {', '.join(known[:10]) or 'none'}") from error


def _files(text: str) -> list[Any]:
    try:
        found = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode("".join(text.split()), validate=True))
    except (binascii.Error, ValueError, DecodeError) as error:
        raise UnreadableDescriptors("is no descriptor set in Base64") from error
    if not found.file:
        raise UnreadableDescriptors("is a descriptor set without a file")
    return list(found.file)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]


class _Reading:
    def __init__(self, *, leaves_out: bool) -> None:
        self._leaves_out = leaves_out
        self._count = 0

    def message(self, found: Any, around: tuple[str, ...]) -> Message:
        """The fields of a message inside others."""
        if found.full_name in around:
            raise UnreadableDescriptors(
                f"has the message {found.full_name} inside itself, which would be columns without end"
            )
        fields: dict[str, Field] = {}
        left_out: list[tuple[str, str]] = []
        for each in found.fields:
            try:
                self._count += 1
                if self._count > FIELDS_MAX:
                    raise UnreadableDescriptors(f"has more than {FIELDS_MAX} fields in {around[0] if around else 'it'}")
                if (field := self._field(each, (*around, found.full_name))) is None:
                    continue
                if fields.setdefault(field.name.lower(), field) is not field:
                    raise UnreadableDescriptors(f"has names in {found.full_name} that differ in case only")
            except UnreadableDescriptors as error:
                if not self._leaves_out:
                    raise
                left_out.append((each.name, str(error)))
        if not around and not fields:
            raise UnreadableDescriptors(f"has the message {found.full_name} without fields")
        return Message(found.full_name, tuple(fields.values()), tuple(left_out))

    def _field(self, each: Any, around: tuple[str, ...]) -> Field | None:
        """None for a message without fields, of which Spark makes no column either."""
        kind = _KINDS[each.type]
        if kind == "group":
            raise UnreadableDescriptors(f"has the group {each.full_name}, which is not decoded here")
        is_entry = each.containing_type.GetOptions().map_entry
        of_map = False
        inner: Message | None = None
        if kind == "message":
            inner = self.message(each.message_type, around)
            of_map = each.message_type.GetOptions().map_entry
            if inner.left_out and (of_map or not inner.fields):
                raise UnreadableDescriptors(inner.left_out[0][1])
            if not inner.fields or (of_map and len(inner.fields) < 2):  # Spark leaves them out, too
                return None
            if (special := _special(each.message_type)) is not None:
                kind = special
                zeros = (Field("seconds", 1, "int64", default=0), Field("nanos", 2, "int32", default=0))
                inner = Message(inner.name, zeros)
        enum = _enum(each.enum_type) if kind == "enum" else None
        return Field(
            each.name,
            each.number,
            kind,
            repeated=each.is_repeated,
            required=each.is_required,
            presence=each.has_presence or is_entry,
            default=_default(each, kind, enum) if is_entry or each.has_default_value else None,
            oneof="" if each.containing_oneof is None else each.containing_oneof.name,
            enum=enum,
            message=inner,
            is_map=of_map,
        )


def _special(found: Any) -> str | None:
    """Spark knows them by name and fields, whatever their package."""
    if [field.name for field in found.fields] != ["seconds", "nanos"]:
        return None
    seconds, nanos = found.fields
    if (seconds.number, nanos.number, _KINDS[seconds.type], _KINDS[nanos.type]) != (1, 2, "int64", "int32"):
        return None
    return _SPECIAL.get(found.name)


def _enum(found: Any) -> Enum:
    symbols: dict[int, str] = {}
    for value in found.values:
        symbols.setdefault(value.number, value.name)
    return Enum(found.name, symbols, found.is_closed)


def _default(each: Any, kind: str, enum: Enum | None) -> Any:
    if kind == "message":
        return {}
    if kind in {"timestamp", "duration"}:
        return 0
    if enum is not None:
        return enum.symbols[each.default_value]
    if not each.has_default_value:
        return _ZERO.get(kind, 0)
    signed = {"uint32": 32, "fixed32": 32, "uint64": 64, "fixed64": 64}.get(kind)
    value = each.default_value
    return value - (1 << signed) if signed and value >= 1 << signed - 1 else value


_KINDS: Final[dict[int, str]] = {
    number: name.removeprefix("TYPE_").lower() for name, number in descriptor_pb2.FieldDescriptorProto.Type.items()
}
