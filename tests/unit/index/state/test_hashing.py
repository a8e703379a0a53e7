from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.index.errors import InvalidKeyText
from bucketingest.index.state.hashing import KeyHasher

SEED = bytes(range(32))
LAYOUTS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]


def defined(key: str) -> tuple[int, int]:
    """Hash and check of a key of at most 4,096 bytes, written down as their definition."""
    raw = key.encode()
    padded = raw + bytes(-len(raw) % 4)
    words = [len(raw), *np.frombuffer(padded, "<u4").tolist()]
    found = []
    for function in range(3):
        derived = hashlib.shake_256(bytes([function]) + SEED).digest(8 * (len(words) + 1))
        factors = np.frombuffer(derived, "<u8").tolist()
        found.append(((factors[0] + sum(f * w for f, w in zip(factors[1:], words, strict=True))) % 2**64) >> 32)
    return (found[0] << 32) | found[1], found[2]


@given(
    st.lists(
        st.text(max_size=40) | st.text(st.characters(min_codepoint=0x800, codec="utf-8"), max_size=9), max_size=40
    ),
    st.sampled_from(LAYOUTS),
    st.integers(0, 5),
    st.integers(0, 5),
)
def test_every_key_has_the_hash_of_its_definition_in_every_layout_and_slice(
    keys: list[str], kind: pa.DataType, skipped: int, cut: int
) -> None:
    part = slice(skipped, max(skipped, len(keys) - cut))
    array = pa.array(keys, pa.string()).cast(kind) if not pa.types.is_dictionary(kind) else pa.array(keys, kind)
    found = KeyHasher(SEED).hash(array[part])
    assert list(zip(found.hashes.tolist(), found.checks.tolist(), strict=True)) == [defined(k) for k in keys[part]]


@pytest.mark.parametrize("length", [1, 36, 37, 4096])
def test_blocks_of_keys_of_one_length_hash_by_the_same_definition(length: int) -> None:
    keys = [f"{number:0{length}}"[-length:] for number in range(70_000 if length < 40 else 600)]
    found = KeyHasher(SEED).hash(pa.array(keys))
    for row in (0, 1, len(keys) // 2, len(keys) - 1):
        assert (int(found.hashes[row]), int(found.checks[row])) == defined(keys[row])


def test_long_keys_beside_short_ones_have_hashes_of_their_own() -> None:
    keys = ["a", "b" * 4096, "c" * 4097, "", "c" * 1_000_000, "d"]
    found = KeyHasher(SEED).hash(pa.array(keys))
    assert len(set(found.hashes.tolist())) == len(keys)
    for row in (0, 1, 3, 5):
        assert (int(found.hashes[row]), int(found.checks[row])) == defined(keys[row])
    alone = KeyHasher(SEED).hash(pa.array([keys[4]]))
    assert (alone.hashes[0], alone.checks[0]) == (found.hashes[4], found.checks[4])


def test_keys_that_differ_in_zero_bytes_at_the_end_differ() -> None:
    found = KeyHasher(SEED).hash(pa.array(["", "\0", "\0\0", "\0" * 4, "\0" * 5]))
    assert len(set(found.hashes.tolist())) == 5


def test_another_seed_gives_other_hashes() -> None:
    keys = pa.array(["k1", "k2"])
    assert not set(KeyHasher(SEED).hash(keys).hashes.tolist()) & set(KeyHasher(SEED[::-1]).hash(keys).hashes.tolist())


def test_a_null_is_no_key_and_a_short_seed_no_seed() -> None:
    with pytest.raises(InvalidKeyText, match="1 of 2 record keys are null"):
        KeyHasher(SEED).hash(pa.array(["a", None]))
    with pytest.raises(ValueError, match="32 bytes"):
        KeyHasher(b"short")


def test_parts_of_keys_that_are_counted_up_are_even_with_any_seed() -> None:
    keys = pa.array([f"k{number}" for number in range(1500)])
    for number in range(200):
        hashes = KeyHasher(hashlib.sha256(b"%d" % number).digest()).hash(keys)
        assert np.bincount(hashes.parts(8).astype(np.int64), minlength=8).max() < 260
