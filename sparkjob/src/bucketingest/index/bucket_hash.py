"""Turns hash keys into bucket ids as Hudi does, for whole Arrow arrays: this runs on every row, so no row becomes a
Python object.

Hudi's rule (seen in Hudi 1.2.0, `BucketIdentifier.getBucketId`): `(List.hashCode(hash keys) & 0x7fffffff) % buckets`,
with `String.hashCode` over UTF-16 code units, and 0 for null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

import mmh3
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.hudi.base.string_bytes import offsets_and_bytes, plain_strings
from bucketingest.index.errors import InvalidKeyRule, InvalidKeyText

BucketHash: TypeAlias = Literal["hudi", "murmur3"]
Hashes: TypeAlias = npt.NDArray[np.int32]
BucketIds: TypeAlias = npt.NDArray[np.int32]
HashKeys: TypeAlias = tuple[str | None, ...]

_MASK: Final = 0xFFFFFFFF
_INVERSE_OF_31: Final = pow(31, -1, 1 << 32)
# Bytes handled at once: the temporaries (4 bytes per code unit each) stay in the processor's cache.
_BLOCK: Final = 1 << 15


def _powers(base: int, count: int) -> npt.NDArray[np.uint32]:
    factors = np.full(count, base, dtype=np.uint32)
    factors[0] = 1
    return np.multiply.accumulate(factors, dtype=np.uint32)


_POWERS: Final = _powers(31, _BLOCK + 1)
_INVERSES: Final = _powers(_INVERSE_OF_31, _BLOCK + 1)


def java_string_hash(values: pa.Array) -> Hashes:
    """Java's `String.hashCode` of every string.

    values: string, large_string, string_view or a dictionary of them, length n, slices and nulls allowed.
    Returns int32[n], 0 for null. Raises InvalidKeyText when a string is not valid UTF-8.
    """
    if pa.types.is_dictionary(values.type):
        codes = _codes(values)
        of_unique = java_string_hash(values.dictionary)
        return np.where(codes < 0, np.int32(0), of_unique[codes]) if len(of_unique) else np.zeros(len(values), np.int32)
    values = plain_strings(values)
    try:
        hashes = _hash_bytes(values)
    except InvalidKeyText:
        if not values.null_count:
            raise
        # Arrow allows any bytes under a null: in a copy without them, the rest is either text or really broken.
        return _hash_bytes(pc.fill_null(values, "")).view(np.int32)
    if values.null_count:
        hashes[_null_mask(values)] = 0
    return hashes.view(np.int32)


def java_list_hash(hashes: Sequence[Hashes]) -> Hashes:
    """Java's `List.hashCode` of rows whose elements have these hashes: 31-fold from 1, one int32[n] per element."""
    folded = np.ones(len(hashes[0]), dtype=np.uint32)
    for element in hashes:
        folded = folded * np.uint32(31) + element.view(np.uint32)
    return folded.view(np.int32)


def murmur3_hash(values: pa.Array) -> Hashes:
    """murmur3 (x86, 32 bits, seed 0) of every string's UTF-8 bytes; int32[n], 0 for null.

    mmh3 takes one value per call, so only distinct values are hashed: about 2M distinct short keys/s on one core, more
    with repeats.
    """
    encoded = values if pa.types.is_dictionary(values.type) else plain_strings(values).dictionary_encode()
    codes = _codes(encoded)
    distinct = encoded.dictionary.cast(pa.large_binary()).to_pylist()
    if not distinct:
        return np.zeros(len(values), dtype=np.int32)
    of_distinct = np.fromiter(
        (mmh3.hash(value) if value is not None else 0 for value in distinct), np.int32, len(distinct)
    )
    return np.where(codes < 0, np.int32(0), of_distinct[codes])


def bucket_of_hash(hashes: Hashes, buckets: int | npt.NDArray[np.int32]) -> BucketIds:
    """`(hash & 0x7fffffff) % buckets` as int32[n] in 0..buckets-1; `buckets` for all rows, or of each row, int32[n]."""
    counts = np.asarray(buckets, np.int32)
    if counts.size and counts.min() < 1:
        raise InvalidKeyRule(f"the bucket count must be at least 1, is {counts.min()}")
    return ((hashes & np.int32(0x7FFFFFFF)) % counts).astype(np.int32, copy=False)


def key_hashes(
    hash_keys: Sequence[pa.Array],
    hash: BucketHash = "hudi",  # noqa: A002 - the word of the spec and of the table property
    exceptions: Mapping[int, HashKeys] | None = None,
) -> Hashes:
    """Hash of every row's hash keys, int32[n]: a bucket id before the bucket count is applied.

    hash_keys: one array of strings (length n) per hash field, in RECORD-KEY order, null where the hash key is null.
    exceptions: rows whose hash keys are not those of the arrays, by row number (see `record_key`).

    murmur3 hashes the hash key's own text when there is one, else the hash keys joined without ambiguity: each as
    `<length in bytes>:<text>`, null as `-`. One null hash key alone has hash 0.
    """
    if not hash_keys:
        raise InvalidKeyRule("no hash field: name at least one in spec.table.index.hashFields")
    if hash == "hudi":
        hashes = java_list_hash([java_string_hash(keys) for keys in hash_keys])
    elif hash == "murmur3":
        hashes = murmur3_hash(hash_keys[0] if len(hash_keys) == 1 else _joined(hash_keys))
    else:
        raise InvalidKeyRule(f"unknown hash {hash!r}: known are hudi, murmur3")
    for row, keys in (exceptions or {}).items():
        hashes[row] = key_hashes([pa.array([key], pa.string()) for key in keys], hash)[0]
    return hashes


def bucket_ids(
    hash_keys: Sequence[pa.Array],
    buckets: int | npt.NDArray[np.int32],
    hash: BucketHash = "hudi",  # noqa: A002 - the word of the spec and of the table property
    exceptions: Mapping[int, HashKeys] | None = None,
) -> BucketIds:
    """Bucket id of every row, int32[n]; arguments as for `key_hashes`."""
    return bucket_of_hash(key_hashes(hash_keys, hash, exceptions), buckets)


def _joined(hash_keys: Sequence[pa.Array]) -> pa.Array:
    parts: list[pa.Array | str] = []
    for keys in hash_keys:
        plain = plain_strings(keys)
        lengths = pc.cast(pc.binary_length(plain), plain.type)
        framed = pc.binary_join_element_wise(lengths, plain, pa.scalar(":", plain.type))
        parts.append(pc.cast(pc.fill_null(framed, "-"), pa.large_string()))
    return pc.binary_join_element_wise(*parts, pa.scalar("", pa.large_string()))


def _null_mask(values: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(values.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)


def _codes(encoded: pa.Array) -> npt.NDArray[np.int64]:
    indices = encoded.indices
    filled = pc.fill_null(pc.cast(indices, pa.int64()), -1)
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=np.int64)


def _hash_bytes(values: pa.Array) -> npt.NDArray[np.uint32]:
    """Hash of the bytes that the offsets enclose, null or not; uint32[n]."""
    offsets, data = offsets_and_bytes(values)
    hashes = np.zeros(len(values), dtype=np.uint32)
    row = 0
    while row < len(values):
        stop = int(np.searchsorted(offsets, offsets[row] + _BLOCK, side="right")) - 1
        if stop <= row:
            hashes[row] = _hash_of_long_string(data[offsets[row] : offsets[row + 1]], row)
            row += 1
            continue
        stop = min(stop, len(values))
        hashes[row:stop] = _hash_of_block(data, offsets[row : stop + 1], row)
        row = stop
    return hashes


def _hash_of_block(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], first_row: int
) -> npt.NDArray[np.uint32]:
    """Hashes of the rows between these byte offsets, which hold at most _BLOCK bytes; uint32[len(offsets) - 1].

    With c the code units of all rows, one after the other, the hash of the row [s, e) is the sum of c[i] * 31^(e-1-i),
    which modulo 2^32, where 31 has an inverse, is 31^(e-1) * (S(e) - S(s)) for the one running sum S(k) = sum of c[i] *
    31^-i over i < k.
    """
    block = data[offsets[0] : offsets[-1]]
    ends = offsets - offsets[0]
    units: npt.NDArray[np.uint8] | npt.NDArray[np.uint16] = block
    if block.size and block.max() >= 0x80:
        units = _code_units(block, first_row)
        ends = _code_units_before(block)[ends]
    sums = np.zeros(len(units) + 1, dtype=np.uint32)
    np.cumsum(units * _INVERSES[: len(units)], dtype=np.uint32, out=sums[1:])
    at = sums[ends]
    # The last code unit of a row is at end - 1; an empty row at the very start has none, but its difference is 0.
    return (at[1:] - at[:-1]) * _POWERS[np.maximum(ends[1:] - 1, 0)]


def _hash_of_long_string(data: npt.NDArray[np.uint8], row: int) -> int:
    units = data if data.max() < 0x80 else _code_units(data, row)
    hashed = 0
    for start in range(0, len(units), _BLOCK):
        part = units[start : start + _BLOCK]
        own = int(np.sum(part * _POWERS[: len(part)][::-1], dtype=np.uint32))
        hashed = (hashed * int(_POWERS[len(part)]) + own) & _MASK
    return hashed


def _code_units(block: npt.NDArray[np.uint8], first_row: int) -> npt.NDArray[np.uint16]:
    """UTF-16 code units of UTF-8 bytes, by one pass of the codec over the whole block."""
    try:
        return np.frombuffer(block.tobytes().decode("utf-8").encode("utf-16-le"), dtype="<u2")
    except UnicodeDecodeError as error:
        raise InvalidKeyText(
            f"a hash key at or after row {first_row} of the batch is not valid UTF-8 ({error.reason}); "
            "clean the column before it becomes a key"
        ) from error


def _code_units_before(block: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """How many UTF-16 code units are before each byte offset; int64[len(block) + 1]: 1 per character, 2 beyond the BMP
    (4 bytes).
    """
    counts = np.zeros(len(block) + 1, dtype=np.int64)
    np.cumsum(((block & 0xC0) != 0x80).view(np.uint8) + (block >= 0xF0).view(np.uint8), out=counts[1:])
    return counts
