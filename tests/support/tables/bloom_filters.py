"""What a bloom filter says of keys: Hudi's readers ask it, and the product only makes it."""

from __future__ import annotations

import pyarrow as pa

from bucketingest.hudi.base.bloom_filter import BloomFilter


def might_contain(built: BloomFilter, keys: pa.Array) -> list[bool]:
    """Whether each key may have been added: true for each that was."""
    found: list[bool] = []
    for positions in built._positions(keys):
        found.extend(bool(hashes_set.all()) for hashes_set in built._set[positions].T)
    return found
