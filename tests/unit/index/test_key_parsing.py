from __future__ import annotations

import pytest

from bucketingest.index.bucket_hash import bucket_of_hash
from bucketingest.index.layout_check import hashes_of_record_keys
from bucketingest.index.record_key import RecordKeyRule, hash_keys_of_record_key
from support.tables.hudi_vectors import BucketVector, composite_vectors, single_vectors


def rule_of(vector: BucketVector) -> RecordKeyRule:
    if len(vector.hash_fields) == 1 and vector.record_key.startswith(("id:", "sub:")):
        return RecordKeyRule.of(["id", "sub"], hash_fields=vector.hash_fields)
    return RecordKeyRule.of(vector.hash_fields)


VECTORS = [*single_vectors(), *composite_vectors()]


@pytest.mark.parametrize("vector", VECTORS, ids=[f"{row} {v.record_key}" for row, v in enumerate(VECTORS)])
def test_a_record_keys_bucket_is_that_of_hudi(vector: BucketVector) -> None:
    assert hash_keys_of_record_key(vector.record_key, vector.hash_fields) == vector.hash_keys
    hashes = hashes_of_record_keys([vector.record_key], rule_of(vector))
    found = {count: int(bucket_of_hash(hashes, count)[0]) for count in vector.buckets}
    assert found == vector.buckets


# What KeyGenUtils.extractRecordKeysByFields of Hudi 1.2.0 returned for these.
@pytest.mark.parametrize(
    ("record_key", "hash_fields", "expected"),
    [
        ("x:y,z", ["id"], ("x:y,z",)),
        ("id:1,z:2", ["id"], ("1",)),
        ("a:k,1", ["a"], ("k,1",)),
        ("a:x,y:z", ["a"], ("x",)),
        ("id:a,b:c,sub:d", ["id", "sub"], ("a", "d")),
        ("id:a:b,c,sub:d", ["id", "sub"], ("a:b,c", "d")),
        ("id:a,sub:b,sub:c", ["id", "sub"], ("a", "b", "c")),
        (":a,b", ["id"], (":a,b",)),
        ("a,b:c", ["id"], ("a,b:c",)),
        ("a:1,", ["a"], ("1,",)),
        ("a:,b", ["a"], (",b",)),
        ("q:1,id:5:6,7", ["id"], ("5:6,7",)),
        (",id:3", ["id"], (",id:3",)),
        ("id:,:", ["id"], ("",)),
        ("id::,", ["id"], (":,",)),
        ("id:__null__,sub:__empty__", ["id", "sub"], (None, "")),
        ("__null__", ["id"], ("__null__",)),
    ],
)
def test_ambiguous_record_keys_are_read_as_hudi_reads_them(
    record_key: str, hash_fields: list[str], expected: tuple[str | None, ...]
) -> None:
    assert hash_keys_of_record_key(record_key, hash_fields) == expected


@pytest.mark.parametrize(
    ("record_key", "expected"), [("id:1,sub:a:b", ("1",)), ("a:b:c,d", ("a:b:c,d",)), ("id:1,at:10:30:00,7", ("1",))]
)
def test_reading_ends_where_hudi_itself_would_never_return(record_key: str, expected: tuple[str, ...]) -> None:
    assert hash_keys_of_record_key(record_key, ["id"]) == expected
