"""Many messages at once to Arrow columns: field by field, so that no message becomes a Python object.

Whatever is not read as it looks, such as a field that occurs twice, is doubted: `exact` decodes it by itself.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from bucketingest.avro.cursors import Bools, Places, Words
from bucketingest.decode.protobuf.columns import type_of, value_type
from bucketingest.decode.protobuf.scanner import Found, WireCursors, scan
from bucketingest.decode.protobuf.schema import BYTES, FIXED32, FIXED64, Field, Message
from bucketingest.decode.protobuf.values import (
    fixed_words,
    is_default,
    micros,
    number_array,
    numbers_of,
    repeated_keys,
    symbols,
    texts,
    unpacked,
)

_WIDTHS: Final = {FIXED64: 8, FIXED32: 4}


def read_columns(cursors: WireCursors, message: Message) -> list[pa.Array]:
    """A column of each field. Of the messages in doubt they mean nothing."""
    found = scan(cursors, message)
    groups: dict[str, Any] = {}
    columns = []
    for field in message.fields:
        one = _Occurrences(cursors, field, found)
        if field.oneof and len(one.owners):
            counts = groups.setdefault(field.oneof, np.zeros(len(cursors), np.int32))
            counts += np.bincount(one.owners, minlength=len(cursors)).astype(np.int32)
        columns.append(_many(cursors, field, one) if field.repeated else _single(cursors, field, one))
    for counts in groups.values():
        if (counts > 1).any():
            cursors.refuse(counts > 1, "several of which one counts")
    return columns


class _Occurrences:
    """The values of a field in all messages: those of a message together, in their order."""

    def __init__(self, cursors: WireCursors, field: Field, found: dict[Any, Found]) -> None:
        single = found[field.number, field.wire]
        self.owners = _all(single.owners, np.int64)
        self.words: Words = _all(single.values, np.uint64)
        self.starts, self.ends = _all(single.starts, np.int64), _all(single.ends, np.int64)
        in_order = len(single.owners) <= 1
        if field.wire in _WIDTHS:
            self.words = fixed_words(cursors, self.starts, _WIDTHS[field.wire])
        packed = found[field.number, BYTES] if field.packable else Found()
        if packed.owners:
            in_order = self._add_packed(cursors, field, packed)
        if not in_order:
            order = np.argsort(self.owners, kind="stable")
            self.owners = self.owners[order]
            if field.wire == BYTES:
                self.starts, self.ends = self.starts[order], self.ends[order]
            else:
                self.words = self.words[order]

    def _add_packed(self, cursors: WireCursors, field: Field, packed: Found) -> bool:
        owners, starts, ends = (_all(each, np.int64) for each in (packed.owners, packed.starts, packed.ends))
        in_order = len(packed.owners) == 1
        if not in_order:
            order = np.argsort(owners, kind="stable")
            owners, starts, ends = owners[order], starts[order], ends[order]
        words, counts, odd = unpacked(cursors, field, starts, ends)
        if odd.any():
            cursors.refuse(owners[odd], "a packed field ends within an item")
        if len(self.owners):  # written both ways: which item is first is not known here
            both = np.intersect1d(self.owners, owners)
            if len(both):
                cursors.refuse(both, "packed items and single ones")
            in_order = False
        self.owners = np.concatenate([self.owners, np.repeat(owners, counts)])
        self.words = np.concatenate([self.words, words])
        return in_order or not len(packed.owners)

    def keep(self, kept: Bools) -> None:
        """Forget the others."""
        self.owners = self.owners[kept]
        if len(self.words):
            self.words = self.words[kept]
        if len(self.starts):
            self.starts, self.ends = self.starts[kept], self.ends[kept]


def _all(parts: list[Any], kind: Any) -> Any:
    return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.zeros(0, kind)


def _single(cursors: WireCursors, field: Field, one: _Occurrences) -> pa.Array:
    """One value of each message, null where there is none."""
    count = len(cursors)
    twice = np.flatnonzero(one.owners[1:] == one.owners[:-1])
    if len(twice):
        cursors.refuse(one.owners[twice], "a field that occurs twice")
        return _without(cursors, field, one, twice)
    if len(one.owners) < count and (field.required or (field.default is not None and field.message is not None)):
        absent = np.ones(count, np.bool_)
        absent[one.owners] = False
        cursors.refuse(absent, "a required field is absent")
    if field.kind in {"string", "bytes", "enum", "message"}:
        if not field.presence:
            _drop_defaults(field, one)
        return _placed(_items(cursors, field, one), field, one.owners, count)
    numbers = _numbers(cursors, field, one)
    lacking = None
    if len(one.owners) < count:
        filled = np.zeros(count, numbers.dtype)
        lacking = np.ones(count, np.bool_)
        lacking[one.owners] = False
        filled[one.owners] = numbers
        numbers = filled
        if field.default is not None:
            numbers[lacking] = field.default
            lacking = None
    if not field.presence:
        zero = is_default(numbers)
        lacking = zero if lacking is None else lacking | zero
    return number_array(field, numbers, lacking)


def _without(cursors: WireCursors, field: Field, one: _Occurrences, dropped: Places) -> pa.Array:
    """The same of the first occurrences."""
    kept = np.ones(len(one.owners), np.bool_)
    kept[dropped] = False
    one.keep(kept)
    return _single(cursors, field, one)


def _drop_defaults(field: Field, one: _Occurrences) -> None:
    """What is written of a field without presence is as absent if it is the default."""
    kept = one.starts < one.ends if field.enum is None else one.words.astype(np.uint32) != 0
    if not kept.all():
        one.keep(kept)


def _placed(values: pa.Array, field: Field, owners: Places, count: int) -> pa.Array:
    """The values at their messages."""
    if len(owners) < count:
        places = np.zeros(count, np.int64)
        lacking = np.ones(count, np.bool_)
        places[owners], lacking[owners] = np.arange(len(owners)), False
        values = values.take(pa.array(places, mask=lacking))
        if field.default is not None and field.kind != "message":
            values = values.fill_null(pa.scalar(field.default, values.type))
    return values


def _many(cursors: WireCursors, field: Field, one: _Occurrences) -> pa.Array:
    """A list of each message, or a map."""
    items = _items(cursors, field, one)
    offsets = np.zeros(len(cursors) + 1, np.int32)
    np.cumsum(np.bincount(one.owners, minlength=len(cursors)), out=offsets[1:])
    kind = type_of(field)
    if field.is_map:
        keys, values = items.flatten()
        twice = repeated_keys(keys, one.owners)
        if len(twice):
            cursors.refuse(twice, "a map with a key that occurs twice")
        entries = pa.struct([kind.key_field, kind.item_field])
        items = pa.Array.from_buffers(entries, len(items), [None], children=[keys, values])
    return pa.Array.from_buffers(kind, len(cursors), [None, pa.py_buffer(offsets)], children=[items])


def _items(cursors: WireCursors, field: Field, one: _Occurrences) -> pa.Array:
    """A value of each occurrence, none of them null but for those in doubt."""
    odd: Bools | None = None
    if field.kind == "message":
        assert field.message is not None, "its kind says so"
        inner = cursors.inside(one.starts.copy(), one.ends)
        columns = read_columns(inner, field.message)
        values = pa.StructArray.from_arrays(columns, fields=list(value_type(field)))
        odd = inner.doubted if inner.doubted.any() else None
    elif field.kind in {"string", "bytes"}:
        values, odd = texts(cursors, one.starts, one.ends, field.kind)
    elif field.enum is not None:
        values, odd = symbols(field.enum, numbers_of(field, one.words))
    else:
        return number_array(field, _numbers(cursors, field, one), None)
    if odd is not None:
        cursors.refuse(one.owners[odd], "a value that is decoded by itself")
    return values


def _numbers(cursors: WireCursors, field: Field, one: _Occurrences) -> Any:
    if field.message is None:
        return numbers_of(field, one.words)
    inner = cursors.inside(one.starts.copy(), one.ends)
    seconds, nanos = read_columns(inner, field.message)
    found, odd = micros(seconds, nanos)
    odd |= inner.doubted
    if odd.any():
        cursors.refuse(one.owners[odd], "a time that is decoded by itself")
    return found
