"""What was found in many messages to Arrow columns: numbers from words, texts from pieces of their bytes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.avro.cursors import PADDING, Bools, Places, Words
from bucketingest.decode.protobuf.columns import value_type
from bucketingest.decode.protobuf.scanner import WireCursors
from bucketingest.decode.protobuf.schema import FIXED32, VARINT, Enum, Field

_NOT_ASCII: Final = 0x80
_SECONDS_MAX: Final = 2**63 // 1_000_000 - 1
_DTYPES: Final[dict[str, Any]] = {
    **dict.fromkeys(["int32", "uint32", "sint32", "fixed32", "sfixed32", "enum"], np.int32),
    **dict.fromkeys(["int64", "uint64", "sint64", "fixed64", "sfixed64", "timestamp", "duration"], np.int64),
    "float": np.float32,
    "double": np.float64,
    "bool": np.bool_,
}
Numbers = npt.NDArray[Any]


def numbers_of(field: Field, words: Words) -> Numbers:
    """Values of a kind that is a number, from what a varint or the bytes of a fixed width say."""
    one = np.uint64(1)
    match field.kind:
        case "bool":
            return words != 0
        case "sint64":
            return ((words >> one) ^ (~(words & one) + one)).view(np.int64)
        case "sint32":
            low = words.astype(np.uint32)
            return ((low >> np.uint32(1)) ^ (~(low & np.uint32(1)) + np.uint32(1))).view(np.int32)
        case "whole uint64" | "whole fixed64":
            return words
        case "long uint32" | "long fixed32":
            return (words & np.uint64(0xFFFFFFFF)).view(np.int64)
    dtype = _DTYPES[field.kind]
    return words.astype(np.uint32).view(dtype) if np.dtype(dtype).itemsize == 4 else words.view(dtype)


def is_default(numbers: Numbers) -> Bools:
    """Whether a number is the default, bit for bit: -0.0 is not."""
    if numbers.dtype.kind == "f":
        return numbers.view(f"u{numbers.dtype.itemsize}") == 0
    return numbers == 0


def texts(cursors: WireCursors, starts: Places, ends: Places, kind: str) -> tuple[pa.Array, Bools | None]:
    """The pieces, which ascend, as strings or bytes; and which of them are no text, if there are any."""
    count = len(starts)
    if not count:
        return pa.array([], pa.string() if kind == "string" else pa.binary()), None
    found = _pieces(cursors.data, starts, ends)
    if kind == "bytes":
        return found, None
    data = found.buffers()[2]
    if data is None or np.frombuffer(data, np.uint8).max(initial=0) < _NOT_ASCII:  # faster than to look at each string
        return found.view(pa.string()), None
    try:
        return found.cast(pa.string()), None  # checks that it is UTF-8
    except pa.ArrowInvalid:
        odd = np.fromiter((not _is_text(each.as_py()) for each in found), np.bool_, count)
        # Nothing instead, not null: Arrow ends the process for a map with a null key.
        return pc.if_else(pa.array(odd), pa.scalar(b"", pa.binary()), found).cast(pa.string()), odd


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _pieces(data: npt.NDArray[np.uint8], starts: Places, ends: Places) -> pa.BinaryArray:
    # Every second string is one of these, the others are what is between them: Arrow copies those that count.
    count = len(starts)
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2], offsets[1::2] = starts, ends
    pieces = pa.BinaryArray.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return pieces.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))


def unpacked(
    cursors: WireCursors, field: Field, starts: Places, ends: Places
) -> tuple[Words, npt.NDArray[np.int64], Bools]:
    """The items of packed pieces, which ascend: their words, how many each piece has, and which pieces are odd and have
    none here.
    """
    lengths = ends - starts
    if field.wire == VARINT:
        odd = (lengths > 0) & (cursors.data[np.maximum(ends - 1, 0)] >= 0x80)
    else:
        odd = lengths % (4 if field.wire == FIXED32 else 8) != 0
    kept = ~odd
    data = _joined(cursors.data, starts[kept], ends[kept])
    counts = np.zeros(len(starts), np.int64)
    if field.wire != VARINT:
        width = 4 if field.wire == FIXED32 else 8
        counts[kept] = lengths[kept] // width
        return data.view(f"<u{width}").astype(np.uint64), counts, odd
    last = np.flatnonzero(data < 0x80)
    item_ends = last + 1
    item_starts = np.concatenate([np.zeros(1, np.int64), item_ends[:-1]]) if len(last) else item_ends
    piece_ends = np.cumsum(lengths[kept])
    so_far = np.searchsorted(last, piece_ends, side="left")
    counts[kept] = np.diff(so_far, prepend=0)
    items = WireCursors(np.append(data, np.zeros(PADDING, np.uint8)), item_starts.copy(), item_ends)
    words = items.numbers() if len(item_starts) else np.zeros(0, np.uint64)
    if items.doubted.any():  # more than 64 bits: the message is decoded by itself
        pieces = np.repeat(np.arange(len(starts)), counts)
        odd = odd.copy()
        odd[pieces[items.doubted]] = True
    return words, counts, odd


def _joined(data: npt.NDArray[np.uint8], starts: Places, ends: Places) -> npt.NDArray[np.uint8]:
    if not len(starts):
        return np.zeros(0, np.uint8)
    found = _pieces(data, starts, ends)
    offsets = np.frombuffer(found.buffers()[1], np.int32, len(found) + 1)
    buffer = found.buffers()[2]
    return np.frombuffer(buffer, np.uint8)[offsets[0] : offsets[-1]] if buffer is not None else np.zeros(0, np.uint8)


def fixed_words(cursors: WireCursors, starts: Places, width: int) -> Words:
    """The bytes of a fixed width at each place."""
    return cursors.inside(starts.copy(), starts + width).words(width, None)


def symbols(enum: Enum, numbers: Numbers) -> tuple[pa.Array, Bools | None]:
    """The names; and which numbers have none, if there are any."""
    known = np.array(sorted(enum.symbols), np.int64)
    names = pa.array([enum.symbols[int(number)] for number in known], pa.string())
    places = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
    odd = known[places] != numbers
    if not odd.any():
        return names.take(pa.array(places)), None
    return names.take(pa.array(places, mask=odd)), odd


def micros(seconds: pa.Array, nanos: pa.Array) -> tuple[npt.NDArray[np.int64], Bools]:
    """Of timestamps and durations; and which do not fit."""
    whole, rest = seconds.to_numpy(zero_copy_only=False), nanos.to_numpy(zero_copy_only=False).astype(np.int64)
    odd = (whole > _SECONDS_MAX - 3) | (whole < 3 - _SECONDS_MAX)
    whole = np.where(odd, 0, whole)
    return whole * 1_000_000 + np.where(rest < 0, -(-rest // 1000), rest // 1000), odd


def number_array(field: Field, values: Numbers, mask: Bools | None) -> pa.Array:
    """With nulls where the mask is set."""
    kind = value_type(field)
    if field.kind in {"timestamp", "duration"}:
        return pa.array(values, pa.int64(), mask=mask).view(kind)
    return pa.array(values, kind, mask=mask)


def repeated_keys(keys: pa.Array, owners: Places) -> Places:
    """The owners that have a key twice."""
    codes = keys.dictionary_encode()
    of_owner = owners * (len(codes.dictionary) + 1) + codes.indices.to_numpy(zero_copy_only=False)
    _, firsts, counts = np.unique(of_owner, return_index=True, return_counts=True)
    return owners[firsts[counts > 1]]
