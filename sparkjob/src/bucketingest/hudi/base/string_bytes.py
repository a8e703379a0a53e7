"""Arrow strings as the bytes that hash functions work on: no row becomes a Python object."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]


def plain_strings(values: pa.Array) -> pa.Array:
    """The same strings as string or large_string; a dictionary or a view is copied."""
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return values
    if pa.types.is_dictionary(values.type):
        return plain_strings(values.dictionary_decode())
    return pc.cast(values, pa.large_string())


def offsets_and_bytes(values: pa.Array) -> tuple[Offsets, Bytes]:
    """Byte offsets (int64[n+1]) into the data buffer, and that buffer; the array's own offset is applied."""
    _, offsets_buffer, data_buffer = values.buffers()
    width = np.int64 if pa.types.is_large_string(values.type) else np.int32
    if offsets_buffer is None or offsets_buffer.size == 0:
        return np.zeros(len(values) + 1, np.int64), np.zeros(0, np.uint8)
    offsets = np.frombuffer(offsets_buffer, dtype=width)[values.offset : values.offset + len(values) + 1]
    data = np.zeros(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, dtype=np.uint8)
    return offsets.astype(np.int64), data


def words_by_length(
    offsets: Offsets, data: Bytes, lengths: npt.NDArray[np.int64]
) -> Iterator[tuple[int, npt.NDArray[np.uint32]]]:
    """The little-endian 32-bit words of strings, padded with zero bytes: for word 0, 1, ... how many strings have it
    (a count m) and that word of the first m strings, uint32[m].

    `lengths`: bytes of each string, in descending order, at most those between its offset and the end of `data`.
    `offsets`: where each string starts.
    """
    if not len(lengths) or not lengths[0]:
        return
    counts = -(-lengths // 4)
    longest = int(counts[0])
    # How many strings have more than i words, for each i: lengths descend, so these are the first ones.
    having = len(lengths) - np.searchsorted(counts[::-1], np.arange(longest + 1), side="right")
    uniform = lengths[0] == lengths[-1] and lengths[0] % 4 == 0 and bool((np.diff(offsets) == lengths[0]).all())
    if uniform:
        first = int(offsets[0])
        columns = data[first : first + int(lengths.sum())].view("<u4").reshape(len(lengths), longest).T
        for word in range(longest):
            yield len(lengths), np.ascontiguousarray(columns[word])
        return
    padded = np.concatenate([data, np.zeros(4, np.uint8)])
    # Words that start at every byte; numpy reads unaligned words.
    at_byte = np.ndarray((len(data) + 1,), np.dtype("<u4"), padded, strides=(1,))
    for word in range(longest):
        have, whole = int(having[word]), int(having[word + 1])
        values = at_byte[offsets[:have] + 4 * word]
        # Strings that end within this word: those that have no further one.
        missing = 8 * (4 * (word + 1) - lengths[whole:have])
        values[whole:] &= (np.uint64(0xFFFFFFFF) >> missing.astype(np.uint64)).astype(np.uint32)
        yield have, values
