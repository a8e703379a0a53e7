"""Checks an existing table's bucket count, hash and hash fields against its record keys: Hudi stores none of the three,
and a wrong one gives every key a second place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from bucketingest.hudi.naming import bucket_of_file_id
from bucketingest.index.bucket_hash import BucketHash, Hashes, bucket_of_hash, key_hashes
from bucketingest.index.errors import BucketLayoutMismatch
from bucketingest.index.record_key import KeyForm, RecordKeyRule, hash_keys_of_record_key

_COUNTS_TRIED = 4096
_KEYS_NEEDED_TO_GUESS = 8


def hashes_of_record_keys(
    record_keys: Sequence[str],
    rule: RecordKeyRule,
    hash: BucketHash = "hudi",  # noqa: A002 - the word of the spec and of the table property
) -> Hashes:
    """Hashes of a table's record keys, int32[len(record_keys)]; one Python step per key: for samples."""
    parsed = [hash_keys_of_record_key(key, rule.hash_fields) for key in record_keys]
    width = len(rule.hash_fields)
    regular = [keys if len(keys) == width else (None,) * width for keys in parsed]
    columns = [pa.array([keys[position] for keys in regular], pa.string()) for position in range(width)]
    odd = {row: keys for row, keys in enumerate(parsed) if len(keys) != width}
    return key_hashes(columns, hash, odd)


def verify_bucket_layout(
    sample: Iterable[tuple[str, str]],
    rule: RecordKeyRule,
    buckets: int,
    hash: BucketHash = "hudi",  # noqa: A002 - the word of the spec and of the table property
    remedy: str | None = None,
) -> int:
    """Check (record key, file id) pairs found in the table; returns how many were checked (0 proves nothing).

    Raises BucketLayoutMismatch, naming a key, where it is and where it should be. `remedy`: what to do then; None: set
    the spec's index to what fits.
    """
    pairs = list(sample)
    if not pairs:
        return 0
    record_keys = [key for key, _ in pairs]
    _refuse_other_form(record_keys, rule)
    hashes = hashes_of_record_keys(record_keys, rule, hash)
    expected = bucket_of_hash(hashes, buckets)
    found = np.array([bucket_of_file_id(file_id) for _, file_id in pairs], np.int32)
    wrong = np.flatnonzero(expected != found)
    if len(wrong):
        row = int(wrong[0])
        raise BucketLayoutMismatch(
            f"record key {record_keys[row]!r} is in bucket {found[row]} (file group {pairs[row][1]}), but {buckets} "
            f"buckets, hash {hash} and hash fields {list(rule.hash_fields)} put it into bucket {expected[row]}; "
            f"{len(wrong)} of {len(pairs)} checked keys are elsewhere. {remedy or _hint(hashes, found)}"
        )
    return len(pairs)


def _refuse_other_form(record_keys: Sequence[str], rule: RecordKeyRule) -> None:
    if rule.form is KeyForm.SIMPLE:
        return
    start = f"{rule.fields[0]}:"
    for key in record_keys:
        if not key.startswith(start):
            raise BucketLayoutMismatch(
                f"record key {key!r} does not start with {start!r}, but record keys of fields {list(rule.fields)} are "
                "written as field:value here: the table was written with other key fields or another key generator; "
                "set spec.table.recordKey to the table's key fields in their order"
            )


def _hint(hashes: Hashes, found: np.ndarray) -> str:
    """The bucket count that fits the checked keys, if there is one; else what to set."""
    if len(found) >= _KEYS_NEEDED_TO_GUESS:
        for buckets in range(int(found.max()) + 1, _COUNTS_TRIED + 1):
            if np.array_equal(bucket_of_hash(hashes, buckets), found):
                return f"A bucket count of {buckets} would fit: set spec.table.index.buckets to it."
    return "Set spec.table.index (buckets, hash, hashFields) to what the table was made with."
