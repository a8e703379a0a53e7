from __future__ import annotations

import io
import tarfile

import pyarrow.parquet as pq
import pytest

from bucketingest.hudi.naming import BaseFileName, deterministic_file_id
from bucketingest.index.bucket_hash import bucket_of_hash
from bucketingest.index.errors import BucketLayoutMismatch
from bucketingest.index.layout_check import hashes_of_record_keys, verify_bucket_layout
from bucketingest.index.record_key import RecordKeyRule
from support.tables.fixtures import HUDI_FIXTURES

RULE = RecordKeyRule.of(["id"])


def base_file_keys(archive: str) -> list[tuple[str, str]]:
    """(record key, file id) of every row in the base files of a table that Hudi wrote."""
    pairs = []
    with tarfile.open(HUDI_FIXTURES / archive) as tar:
        for member in tar:
            name = BaseFileName.try_parse(member.name.rsplit("/", 1)[-1])
            content = tar.extractfile(member) if name and "/.hoodie/" not in member.name else None
            if name and content:
                table = pq.read_table(io.BytesIO(content.read()), columns=["_hoodie_record_key"])
                pairs += [(key, name.file_id) for key in table.column(0).to_pylist()]
    return pairs


def pairs_with(buckets: int, keys: list[str], rule: RecordKeyRule = RULE) -> list[tuple[str, str]]:
    ids = bucket_of_hash(hashes_of_record_keys(keys, rule), buckets).tolist()
    return [(key, deterministic_file_id(bucket)) for key, bucket in zip(keys, ids, strict=True)]


@pytest.mark.parametrize("archive", ["java_v8_avro.tar.gz", "java_v9_parquet.tar.gz", "py_then_java_archived.tar.gz"])
def test_a_table_that_hudi_wrote_is_where_we_would_put_its_keys(archive: str) -> None:
    sample = base_file_keys(archive)
    assert verify_bucket_layout(sample, RULE, 4) == len(sample) > 0


def test_another_bucket_count_is_refused_with_the_key_and_the_count_that_fits() -> None:
    sample = base_file_keys("java_v9_parquet.tar.gz")
    with pytest.raises(BucketLayoutMismatch) as caught:
        verify_bucket_layout(sample, RULE, 8)
    message = str(caught.value)
    wrong = [
        key for key, file_id in sample if dict(pairs_with(8, [key])) != {key: deterministic_file_id(int(file_id[:8]))}
    ]
    assert repr(wrong[0]) in message
    assert f"{len(wrong)} of {len(sample)} checked keys" in message
    assert "A bucket count of 4 would fit" in message


def test_another_hash_is_refused() -> None:
    with pytest.raises(BucketLayoutMismatch, match="hash murmur3"):
        verify_bucket_layout(base_file_keys("java_v9_parquet.tar.gz"), RULE, 4, "murmur3")


def test_other_hash_fields_are_refused() -> None:
    keys = [f"id:{row},sub:{row * 7}" for row in range(20)]
    sample = pairs_with(16, keys, RecordKeyRule.of(["id", "sub"], hash_fields=["sub"]))
    assert verify_bucket_layout(sample, RecordKeyRule.of(["id", "sub"], hash_fields=["sub"]), 16) == 20
    with pytest.raises(BucketLayoutMismatch, match=r"hash fields \['id'\] put it into bucket"):
        verify_bucket_layout(sample, RecordKeyRule.of(["id", "sub"], hash_fields=["id"]), 16)


def test_the_message_says_where_the_key_is_and_where_it_should_be() -> None:
    with pytest.raises(BucketLayoutMismatch, match=r"'key-0001' is in bucket 5 .* put it into bucket 6"):
        verify_bucket_layout([("key-0001", deterministic_file_id(5))], RULE, 8)


def test_keys_without_their_field_names_are_refused_for_a_composite() -> None:
    with pytest.raises(BucketLayoutMismatch, match="'k1' does not start with 'a:'"):
        verify_bucket_layout([("k1", deterministic_file_id(5))], RecordKeyRule.of(["a"], ["p", "q"]), 8)


def test_nothing_to_look_at_proves_nothing() -> None:
    assert verify_bucket_layout([], RULE, 8) == 0
