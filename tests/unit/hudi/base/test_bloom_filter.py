"""The filter has the bytes that Hudi's own has: base files that Hudi wrote are the judges."""

from __future__ import annotations

import base64
import math
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.hudi.base.bloom_filter import BITS_MAX, FOOTER_KEY, BloomFilter
from support.tables.bloom_filters import might_contain
from support.tables.fixtures import unpack_fixture

HUDIS_DEFAULT = (60_000, 1e-9)
"""Keys and false positives for which Hudi makes a filter by default."""


def java_murmur(data: bytes, seed: int) -> int:
    """MurmurHash of Hudi 1.2.0, written down from its bytecode."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = (seed ^ len(data)) & mask
    whole = len(data) // 4 * 4
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        k = word * m & mask
        k = (k ^ (k >> 24)) * m & mask
        h = (h * m & mask) ^ k
    left = len(data) - whole
    if left:
        for back in range(1, left + 1):
            h ^= (int.from_bytes(data[-back : len(data) - back + 1], signed=True) << (8 * (back - 1))) & mask
        h = h * m & mask
    h = (h ^ (h >> 13)) * m & mask
    return h ^ (h >> 15)


def java_bits(key: str, hashes: int, bits: int) -> list[int]:
    found, seed = [], 0
    for _ in range(hashes):
        seed = java_murmur(key.encode(), seed)
        signed = seed - (1 << 32) if seed >> 31 else seed
        found.append(abs(int(math.fmod(signed, bits))))
    return found


def bits_of(text: str) -> tuple[tuple[int, ...], set[int]]:
    """Head and set bits of a filter's text."""
    data = base64.b64decode(text)
    bits = np.unpackbits(np.frombuffer(data[13:], np.uint8), bitorder="little")
    return struct.unpack(">iibi", data[:13]), set(np.flatnonzero(bits).tolist())


texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)


@given(
    st.lists(texts | st.sampled_from(["é", "日本語", "😀a", "key-😀", "ключ", "abc", "abcd"]), max_size=30),
    st.integers(1, 50),
)
def test_every_key_sets_the_bits_that_javas_hash_says(keys: list[str], count: int) -> None:
    built = BloomFilter.for_keys(count)
    for part in (keys[::2], keys[1::2]):
        built.add(pa.array(part, pa.string()))
    head, found = bits_of(built.text())
    assert head == (-1, built.hashes, 1, built.bits)
    assert found == {bit for key in keys for bit in java_bits(key, built.hashes, built.bits)}
    assert all(might_contain(built, pa.array(keys, pa.large_string())))


@pytest.mark.parametrize("name", ["java_v6_avro", "java_v8_avro", "java_v9_avro", "java_v9_parquet"])
def test_the_filter_of_a_base_file_that_hudi_wrote_has_the_same_bytes(tmp_path: Path, name: str) -> None:
    files = list(unpack_fixture(name, tmp_path).rglob("*.parquet"))
    assert files
    for path in files:
        footer = pq.read_metadata(path).metadata
        assert footer[b"hoodie_bloom_filter_type_code"] == b"DYNAMIC_V0"
        built = BloomFilter.for_keys(*HUDIS_DEFAULT)
        for keys in pq.read_table(path, columns=["_hoodie_record_key"], partitioning=None).column(0).chunks:
            built.add(keys)
        # A dynamic filter has a head of its own, then one simple filter for each 60,000 keys.
        theirs = base64.b64decode(footer[FOOTER_KEY.encode()])
        assert base64.b64decode(built.text()) == theirs[13 + 12 :]


def test_few_absent_keys_are_found() -> None:
    built = BloomFilter.for_keys(100_000)
    keys = pa.array([f"kéy-{number:09}" for number in range(200_000)])
    built.add(keys.slice(0, 100_000))
    found = might_contain(built, keys)
    assert all(found[:100_000])
    assert sum(found[100_000:]) <= 100_000 * 2e-3


def test_the_size_is_hudis_and_java_must_be_able_to_count_the_bits() -> None:
    assert (BloomFilter.for_keys(*HUDIS_DEFAULT).bits, BloomFilter.for_keys(*HUDIS_DEFAULT).hashes) == (2_587_966, 30)
    assert BloomFilter.for_keys(0).bits == BloomFilter.for_keys(1).bits > 0
    with pytest.raises(ValueError, match=f"Java counts up to {BITS_MAX}"):
        BloomFilter.for_keys(200_000_000)
    with pytest.raises(ValueError, match="1 of 2 record keys are null"):
        BloomFilter.for_keys(2).add(pa.array(["a", None]))
