from __future__ import annotations

import mmh3
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.index.bucket_hash import bucket_ids, bucket_of_hash, java_list_hash, java_string_hash, murmur3_hash
from bucketingest.index.errors import InvalidKeyRule, InvalidKeyText


def java_hash(text: str | None) -> int:
    """String.hashCode, written down as its definition."""
    units = np.frombuffer((text or "").encode("utf-16-le"), "<u2").tolist()
    hashed = 0
    for unit in units:
        hashed = (31 * hashed + unit) & 0xFFFFFFFF
    return hashed - (1 << 32) if hashed >> 31 else hashed


def java_list(texts: list[str | None]) -> int:
    hashed = 1
    for text in texts:
        hashed = (31 * hashed + java_hash(text)) & 0xFFFFFFFF
    return hashed - (1 << 32) if hashed >> 31 else hashed


texts = st.lists(
    st.none() | st.text(max_size=12) | st.text(st.characters(min_codepoint=0x10000), max_size=4), max_size=30
)


@given(texts, st.sampled_from([pa.string(), pa.large_string(), pa.string_view()]), st.integers(0, 5), st.integers(0, 5))
def test_every_string_has_javas_hash_in_every_layout_and_slice(
    values: list[str | None], kind: pa.DataType, skipped: int, cut: int
) -> None:
    part = slice(skipped, max(skipped, len(values) - cut))
    array = pa.array(values, kind)[part]
    assert java_string_hash(array).tolist() == [java_hash(value) for value in values[part]]


@given(texts)
def test_a_dictionary_hashes_as_its_values(values: list[str | None]) -> None:
    array = pa.array(values, pa.string())
    assert java_string_hash(array.dictionary_encode()).tolist() == java_string_hash(array).tolist()


@pytest.mark.parametrize("unit", ["x", "é", "語", "😀"])
@pytest.mark.parametrize("length", [16_383, 32_767, 32_768, 32_769, 100_001])
def test_strings_around_and_beyond_the_block_size_hash_right(unit: str, length: int) -> None:
    values = ["before", unit * length, "", "after", None, "y" + unit * length]
    assert java_string_hash(pa.array(values)).tolist() == [java_hash(value) for value in values]


def test_many_rows_in_several_blocks_hash_right() -> None:
    values = [f"key-{row}" if row % 7 else f"ключ-{row}-😀" for row in range(20_000)]
    assert java_string_hash(pa.array(values)).tolist() == [java_hash(value) for value in values]


def test_bytes_under_a_null_do_not_count() -> None:
    offsets, data = np.array([0, 2, 4], np.int32), b"abcd"
    validity = pa.py_buffer(bytes([0b10]))
    array = pa.Array.from_buffers(pa.string(), 2, [validity, pa.py_buffer(offsets), pa.py_buffer(data)])
    assert java_string_hash(array).tolist() == [0, java_hash("cd")]


def test_bytes_under_a_null_need_not_be_text() -> None:
    offsets = pa.py_buffer(np.array([0, 2, 4], np.int32))
    array = pa.Array.from_buffers(pa.string(), 2, [pa.py_buffer(bytes([0b10])), offsets, pa.py_buffer(b"\xff\xfecd")])
    assert java_string_hash(array).tolist() == [0, java_hash("cd")]


def test_bytes_that_are_not_text_are_refused() -> None:
    offsets = pa.py_buffer(np.array([0, 1, 3], np.int32))
    array = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"a\xff\xfe")])
    with pytest.raises(InvalidKeyText, match="not valid UTF-8"):
        java_string_hash(array)


@given(st.lists(st.tuples(st.none() | st.text(max_size=5), st.none() | st.text(max_size=5)), min_size=1, max_size=10))
def test_composite_keys_fold_as_javas_list_hash(rows: list[tuple[str | None, str | None]]) -> None:
    columns = [java_string_hash(pa.array([row[position] for row in rows], pa.string())) for position in (0, 1)]
    assert java_list_hash(columns).tolist() == [java_list(list(row)) for row in rows]


def test_bucket_ids_are_never_negative_for_the_smallest_hash() -> None:
    assert bucket_of_hash(np.array([-(2**31), -1, 2**31 - 1], np.int32), 7).tolist() == [
        0,
        0x7FFFFFFF % 7,
        0x7FFFFFFF % 7,
    ]


def test_murmur3_of_one_hash_key_is_that_of_its_utf8_bytes() -> None:
    values = ["a", "日本語", "", "a", None]
    expected = [mmh3.hash(value.encode()) if value is not None else 0 for value in values]
    assert murmur3_hash(pa.array(values)).tolist() == expected
    assert murmur3_hash(pa.array(values).dictionary_encode()).tolist() == expected
    assert bucket_ids([pa.array(values)], 16, "murmur3").tolist() == [(h & 0x7FFFFFFF) % 16 for h in expected]


def test_murmur3_of_several_hash_keys_is_that_of_their_framed_text() -> None:
    keys = [pa.array(["ключ", None, ""]), pa.array(["b", "c", "d"])]
    framed = ["8:ключ1:b", "-1:c", "0:1:d"]
    expected = [(mmh3.hash(text.encode()) & 0x7FFFFFFF) % 1009 for text in framed]
    assert bucket_ids(keys, 1009, "murmur3").tolist() == expected


def test_murmur3_distinguishes_composites_that_join_to_one_text() -> None:
    ids = bucket_ids([pa.array(["a", "a1:b", "a", None]), pa.array(["1:bc", "c", "", "-"])], 1 << 30, "murmur3")
    assert len(set(ids.tolist())) == 4


def test_exceptions_replace_the_hash_keys_of_their_rows() -> None:
    columns = [pa.array(["a", "b"]), pa.array(["c", "d"])]
    ids = bucket_ids(columns, 1009, "hudi", {1: ("x", None, "y")})
    rows: list[list[str | None]] = [["a", "c"], ["x", None, "y"]]
    expected = [(java_list(keys) & 0x7FFFFFFF) % 1009 for keys in rows]
    assert ids.tolist() == expected


@pytest.mark.parametrize("buckets", [0, -4])
def test_a_bucket_count_below_one_is_refused(buckets: int) -> None:
    with pytest.raises(InvalidKeyRule, match="at least 1"):
        bucket_ids([pa.array(["a"])], buckets)


def test_an_unknown_hash_is_refused() -> None:
    with pytest.raises(InvalidKeyRule, match="crc"):
        bucket_ids([pa.array(["a"])], 4, "crc")  # type: ignore[arg-type]
