"""The file that marks a directory as a partition: without it Hudi's Spark reader silently skips the rows in it."""

from __future__ import annotations

from bucketingest.hudi.naming import PARTITION_METADATA_NAME, join
from bucketingest.hudi.timeline.instant_time import parse_time
from bucketingest.storage.agreement import created
from bucketingest.storage.interface import Storage


def partition_depth(partition_path: str) -> int:
    """Directory levels between the table's root and the partition: 0 for an unpartitioned table."""
    return partition_path.count("/") + 1 if partition_path else 0


def partition_metadata(partition_path: str, instant_time: str) -> str:
    """Text of `.hoodie_partition_metadata`, as Hudi 1.2.0 writes it, for the instant that first wrote to the
    partition.
    """
    written = f"{parse_time(instant_time):%a %b %d %H:%M:%S UTC %Y}"
    depth = partition_depth(partition_path)
    return f"#partition metadata\n#{written}\ncommitTime={instant_time}\npartitionDepth={depth}\n"


def ensure_partition_metadata(storage: Storage, partition_path: str, instant_time: str) -> bool:
    """Mark the partition unless it is marked. Returns whether this call did it. Safe for concurrent callers."""
    path = join(partition_path, PARTITION_METADATA_NAME)
    return created(storage, path, partition_metadata(partition_path, instant_time).encode("ascii"))
