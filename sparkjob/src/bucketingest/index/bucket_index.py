"""The bucket index: which file id takes the rows of a bucket, so that an update is in the file group of its row.

New file groups get the deterministic file id of Hudi's non-blocking mode; only other writers' file groups must be
remembered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import TypeAlias

import numpy as np

from bucketingest.hudi.bucket_rules.counts import BucketCounts
from bucketingest.hudi.bucket_rules.hashing_config import CONFIG_DIRECTORY
from bucketingest.hudi.errors import InvalidName
from bucketingest.hudi.naming import bucket_of_file_id, deterministic_file_id
from bucketingest.index.errors import BucketLayoutMismatch, BucketOutOfRange, DuplicateFileGroup

Place: TypeAlias = tuple[str, int]
"""(partition path, bucket id)"""


@dataclass(frozen=True)
class FileIds:
    """The part of the index that a write task needs: small, picklable, with a file id for every bucket."""

    counts: BucketCounts
    foreign: Mapping[Place, str] = field(default_factory=dict)
    """File ids that are not the deterministic ones: file groups made by Hudi's own writers."""

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the file ids, and of the rules that choose among them."""
        rules = [(rule.pattern, rule.buckets) for rule in self.counts.rules]
        decided = [*sorted(self.foreign.items()), *rules]
        return hashlib.sha256(repr(decided).encode()).hexdigest()

    def file_id(self, partition_path: str, bucket: int) -> str:
        """File id of a bucket's file group, existing or not. Raises BucketOutOfRange."""
        buckets = self.counts.of(partition_path)
        if not 0 <= bucket < buckets:
            raise BucketOutOfRange(f"bucket {bucket} of partition {partition_path!r} is not in 0..{buckets - 1}")
        return self.foreign.get((partition_path, bucket)) or deterministic_file_id(bucket)


@dataclass(frozen=True, slots=True)
class BucketIndex:
    """(partition path, bucket id) -> file id of every file group with a committed file. Immutable; on the driver.

    An index and those made from it share their equal parts: a commit costs what it adds, not what the table has.
    """

    groups: Mapping[str, Mapping[int, str]]
    """Partition path -> bucket id -> file id."""
    file_ids: FileIds
    """The part to send to tasks."""

    @classmethod
    def bootstrap(cls, files: Iterable[tuple[str, str, str]], counts: BucketCounts) -> BucketIndex:
        """The index of a table with these committed files, each as (partition path, file id, file name).

        Files of pending or rolled-back instants and of replaced file groups must not be among them. Raises
        DuplicateFileGroup, BucketOutOfRange, BucketLayoutMismatch (a file id that has no bucket).
        """
        return cls({}, FileIds(counts)).with_commit((partition, file_id) for partition, file_id, _ in files)

    def with_commit(self, file_groups: Iterable[tuple[str, str]]) -> BucketIndex:
        """The index after a completed instant, our own or another writer's, that wrote these (partition path, file id).

        Raises as `bootstrap` does: DuplicateFileGroup means that another writer gave a known bucket a second file
        group.
        """
        changed: dict[str, dict[int, str]] = {}
        foreign: dict[Place, str] = {}
        for partition_path, file_id in file_groups:
            bucket = _bucket_in_range(partition_path, file_id, self.counts)
            groups = changed.get(partition_path) or self.groups.get(partition_path, {})
            other = groups.get(bucket)
            if other is None:
                _own_copy(changed, self.groups, partition_path)[bucket] = file_id
                if file_id != deterministic_file_id(bucket):
                    foreign[partition_path, bucket] = file_id
            elif other != file_id:
                raise DuplicateFileGroup(partition_path, bucket, (other, file_id))
        if not changed:
            return self
        file_ids = FileIds(self.counts, {**self.foreign, **foreign}) if foreign else self.file_ids
        return BucketIndex({**self.groups, **changed}, file_ids)

    def without(self, file_groups: Iterable[tuple[str, str]]) -> BucketIndex:
        """The index without these (partition path, file id), which a completed instant replaced."""
        changed: dict[str, dict[int, str]] = {}
        gone: set[Place] = set()
        for partition_path, file_id in file_groups:
            try:
                bucket = bucket_of_file_id(file_id)
            except InvalidName:
                continue  # not in a bucket index
            if self.groups.get(partition_path, {}).get(bucket) == file_id:
                _own_copy(changed, self.groups, partition_path).pop(bucket, None)
                gone.add((partition_path, bucket))
        if not changed:
            return self
        foreign = {place: file_id for place, file_id in self.foreign.items() if place not in gone}
        return BucketIndex({**self.groups, **changed}, FileIds(self.counts, foreign))

    def with_counts(self, counts: BucketCounts) -> BucketIndex:
        """The index under other rules. Raises BucketLayoutMismatch if they change a filled partition's count."""
        filled = [partition_path for partition_path, groups in self.groups.items() if groups]
        changed = np.flatnonzero(self.counts.of_all(filled) != counts.of_all(filled))
        if len(changed):
            path = filled[int(changed[0])]
            raise BucketLayoutMismatch(
                f"partition {path!r} has rows in {self.counts.of(path)} buckets, but the table's bucket rules now give "
                f"it {counts.of(path)}: they were changed without rewriting the partition; delete the newest file in "
                f"{CONFIG_DIRECTORY} before anything else is written"
            )
        return BucketIndex(self.groups, FileIds(counts, self.foreign))

    def avoiding(self, replaced: Collection[tuple[str, str]]) -> BucketIndex:
        """The index in which no bucket's rows go into one of these replaced (partition path, file id).

        Readers never read a replaced file group again, even if something is written to it later. So the next rows of
        its bucket make a new file group, for which all attempts compute the same id.
        """
        foreign: dict[Place, str] = {}
        for partition_path, file_id in sorted(replaced):
            try:
                bucket = bucket_of_file_id(file_id)
            except InvalidName:
                continue  # not in a bucket index
            if bucket < self.counts.of(partition_path) and self.file_id(partition_path, bucket) == file_id:
                ids = (deterministic_file_id(bucket, number) for number in count())
                foreign[partition_path, bucket] = next(each for each in ids if (partition_path, each) not in replaced)
        return BucketIndex(self.groups, FileIds(self.counts, {**self.foreign, **foreign})) if foreign else self

    @property
    def counts(self) -> BucketCounts:
        """The bucket count of each partition."""
        return self.file_ids.counts

    @property
    def known(self) -> Mapping[Place, str]:
        """Every entry, in a new map."""
        return {(path, bucket): file_id for path, groups in self.groups.items() for bucket, file_id in groups.items()}

    @property
    def foreign(self) -> Mapping[Place, str]:
        """The entries whose file id is not the deterministic one."""
        return self.file_ids.foreign

    def file_id(self, partition_path: str, bucket: int) -> str:
        """File id of a bucket's file group, existing or not. Raises BucketOutOfRange."""
        return self.file_ids.file_id(partition_path, bucket)

    def exists(self, partition_path: str, bucket: int) -> bool:
        """Whether the bucket has a file group with a committed file."""
        return bucket in self.groups.get(partition_path, {})


def _own_copy(
    changed: dict[str, dict[int, str]], groups: Mapping[str, Mapping[int, str]], partition_path: str
) -> dict[int, str]:
    """The partition's file ids in `changed`, copied there at their first change."""
    if partition_path not in changed:
        changed[partition_path] = dict(groups.get(partition_path, {}))
    return changed[partition_path]


def _bucket_in_range(partition_path: str, file_id: str, counts: BucketCounts) -> int:
    try:
        bucket = bucket_of_file_id(file_id)
    except InvalidName as error:
        raise BucketLayoutMismatch(
            f"partition {partition_path!r} holds file group {file_id!r}, which names no bucket: the table was not "
            "written with Hudi's simple bucket index, so this pipeline cannot add to it; write to another table.path"
        ) from error
    buckets = counts.of(partition_path)
    if bucket >= buckets:
        where = f"file group {file_id} in partition {partition_path!r} belongs to bucket {bucket}, but "
        if counts.rules:
            raise BucketOutOfRange(
                f"{where}the table's bucket rules give the partition {buckets}: a writer without the rules, or with "
                "older ones, wrote it; stop that writer, and rewrite the partition (Hudi's insert_overwrite)"
            )
        raise BucketOutOfRange(
            f"{where}spec.table.index.buckets is {buckets} (buckets 0..{buckets - 1}): the table has another bucket "
            "count; set the count it was made with"
        )
    return bucket
