"""The bucket index: which file id takes the rows of a bucket, so that an update lands beside the row it updates.

New file groups get the deterministic file id of Hudi's non-blocking mode; only file groups that others made have to be
remembered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from bucketingest.hudi.errors import InvalidName
from bucketingest.hudi.naming import bucket_of_file_id, deterministic_file_id
from bucketingest.index.errors import BucketLayoutMismatch, BucketOutOfRange, DuplicateFileGroup, ReplacedFileGroup

Place: TypeAlias = tuple[str, int]
"""(partition path, bucket id)"""


@dataclass(frozen=True, slots=True)
class FileIds:
    """What a write task needs of the index: small, picklable, and able to answer for every bucket."""

    buckets: int
    foreign: Mapping[Place, str]
    """File ids that are not the deterministic ones: file groups made by Hudi's own writers."""

    @property
    def fingerprint(self) -> str:
        """The same for equal file ids and hardly for others."""
        return hashlib.sha256(repr(sorted(self.foreign.items())).encode()).hexdigest()

    def file_id(self, partition_path: str, bucket: int) -> str:
        """File id of a bucket's file group, existing or not. Raises BucketOutOfRange."""
        if not 0 <= bucket < self.buckets:
            raise BucketOutOfRange(f"bucket {bucket} of partition {partition_path!r} is not in 0..{self.buckets - 1}")
        return self.foreign.get((partition_path, bucket)) or deterministic_file_id(bucket)


@dataclass(frozen=True, slots=True)
class BucketIndex:
    """(partition path, bucket id) -> file id of every file group with a committed file. Immutable; on the driver."""

    buckets: int
    known: Mapping[Place, str]

    @classmethod
    def bootstrap(cls, files: Iterable[tuple[str, str, str]], buckets: int) -> BucketIndex:
        """The index of a table whose committed files these are, each as (partition path, file id, file name).

        Files of pending or rolled back instants and of replaced file groups must not be among them. Raises
        DuplicateFileGroup, BucketOutOfRange, BucketLayoutMismatch (a file id that has no bucket).
        """
        return cls(buckets, {}).with_commit((partition, file_id) for partition, file_id, _ in files)

    def with_commit(self, file_groups: Iterable[tuple[str, str]]) -> BucketIndex:
        """The index after a completed instant, ours or another writer's, that wrote these (partition path, file id).

        Raises as `bootstrap` does: DuplicateFileGroup means that another writer gave a bucket of ours a second file
        group.
        """
        known = dict(self.known)
        for partition_path, file_id in file_groups:
            bucket = _bucket_in_range(partition_path, file_id, self.buckets)
            other = known.setdefault((partition_path, bucket), file_id)
            if other != file_id:
                raise DuplicateFileGroup(partition_path, bucket, (other, file_id))
        return BucketIndex(self.buckets, known)

    def without(self, file_groups: Collection[tuple[str, str]]) -> BucketIndex:
        """The index without these (partition path, file id), which a completed instant replaced."""
        known = {place: file_id for place, file_id in self.known.items() if (place[0], file_id) not in file_groups}
        return BucketIndex(self.buckets, known)

    def check_replaced(self, file_groups: Iterable[tuple[str, str]]) -> None:
        """Raise ReplacedFileGroup if rows would go into one of these replaced (partition path, file id).

        Readers leave a replaced file group out for good, whatever is written to it later.
        """
        for partition_path, file_id in file_groups:
            bucket = _bucket_in_range(partition_path, file_id, self.buckets)
            if self.file_id(partition_path, bucket) == file_id:
                raise ReplacedFileGroup(
                    f"file group {file_id} in partition {partition_path!r} was replaced by another writer "
                    "(delete_partition, insert_overwrite or clustering): rows written to its bucket would be "
                    "invisible. Restore the table, or write to another table.path"
                )

    @property
    def file_ids(self) -> FileIds:
        """The part to send to tasks."""
        return FileIds(self.buckets, self.foreign)

    @property
    def foreign(self) -> Mapping[Place, str]:
        """The entries whose file id is not the deterministic one."""
        return {place: file_id for place, file_id in self.known.items() if file_id != deterministic_file_id(place[1])}

    def file_id(self, partition_path: str, bucket: int) -> str:
        """File id of a bucket's file group, existing or not. Raises BucketOutOfRange."""
        known = self.known.get((partition_path, bucket))
        return known or FileIds(self.buckets, {}).file_id(partition_path, bucket)

    def exists(self, partition_path: str, bucket: int) -> bool:
        """Whether the bucket has a file group with a committed file."""
        return (partition_path, bucket) in self.known


def _bucket_in_range(partition_path: str, file_id: str, buckets: int) -> int:
    try:
        bucket = bucket_of_file_id(file_id)
    except InvalidName as error:
        raise BucketLayoutMismatch(
            f"partition {partition_path!r} holds file group {file_id!r}, which names no bucket: the table was not "
            "written with Hudi's simple bucket index, so this pipeline cannot add to it; write to another table.path"
        ) from error
    if bucket >= buckets:
        raise BucketOutOfRange(
            f"file group {file_id} in partition {partition_path!r} belongs to bucket {bucket}, but "
            f"spec.table.index.buckets is {buckets} (buckets 0..{buckets - 1}): the table has another bucket count; "
            "set the count it was made with"
        )
    return bucket
