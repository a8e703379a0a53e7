"""The error family of the index layer: it distinguishes refusals about keys and buckets from other failures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, Self

from bucketingest.errors import BucketIngestError
from bucketingest.exit_codes import ExitCode
from bucketingest.index.whole_table.identity import WHOLE_TABLE


class BucketIndexError(BucketIngestError):
    """Base of everything the index layer raises."""

    exit_code = ExitCode.TABLE_REFUSED


class InvalidKeyRule(BucketIndexError):
    """The configured key, hash or partition fields do not fit together; raised before any row is read."""

    exit_code = ExitCode.BAD_INPUT


class MissingKeyColumn(BucketIndexError):
    """A key or partition column is not in the input, or is in it twice."""

    exit_code = ExitCode.BAD_INPUT


class UnsupportedKeyType(BucketIndexError):
    """A key or partition column has a type that has no text in a record key (list, struct, map, binary, ...)."""

    exit_code = ExitCode.BAD_INPUT


class InvalidKeyText(BucketIndexError):
    """A string that is to be hashed is not valid UTF-8, so it has no UTF-16 code units."""


class DuplicateFileGroup(BucketIndexError):
    """Two file groups belong to one bucket of one partition, so no row's place is certain."""

    def __init__(self, partition_path: str, bucket: int, file_ids: tuple[str, str]) -> None:
        self.partition_path = partition_path
        self.bucket = bucket
        self.file_ids = file_ids
        super().__init__(
            f"bucket {bucket} of partition {partition_path!r} has two file groups, {file_ids[0]} and {file_ids[1]}, "
            "so rows of one key may be in both: stop every writer of the table, find the one that gives buckets random "
            "file ids, and rewrite the partition into one file group per bucket (for example with Hudi's "
            "insert_overwrite) before this pipeline starts again"
        )

    def __reduce__(self) -> tuple[type[DuplicateFileGroup], tuple[str, int, tuple[str, str]]]:
        """Let the error cross a process boundary with its fields."""
        return type(self), (self.partition_path, self.bucket, self.file_ids)


class BucketOutOfRange(BucketIndexError):
    """A file group's bucket is not below the bucket count: the table has another bucket count."""


class BucketLayoutMismatch(BucketIndexError):
    """Files or record keys found in the table are not where the bucket count, hash and hash fields put them."""


class StateError(BucketIndexError):
    """Something is wrong with the stored state of the index. The state is a cache: without it, it is loaded again."""


class StateDamaged(StateError):
    """A file or object of the state is not what was written: cut short, changed, or under another's name."""


class StateForeign(StateError):
    """A file or object of the state belongs to another table, or to a table that was here before."""


class StateTooNew(StateError):
    """The state was written by a newer version of bucketingest."""


class HashCollision(StateError):
    """Two different keys of a partition have the same hash, in two file groups; expected once in 10^12 tables."""

    @classmethod
    def of(cls, where: str, *keys: tuple[str, str]) -> Self:
        """`keys`: both, each with its file group."""
        shown = " and ".join(f"{key!r} in {group}" for key, group in keys)
        return cls(
            f"{where}: the keys {shown} have the same hash; delete .hoodie/.bucketingest/state, and the state is "
            "loaded again with other hash functions"
        )


class PartitionsNotLoaded(BucketIndexError):
    """Rows are of partitions whose keys the state leaves out until they are needed. Nothing is written yet."""

    named_max: Final = 100

    def __init__(self, partition_paths: Sequence[str]) -> None:
        """Names as many of them as the message may hold."""
        self.partition_paths = tuple(partition_paths[: self.named_max])
        super().__init__(f"the keys of partitions are not loaded yet: {json.dumps(self.partition_paths)}")

    @classmethod
    def of_text(cls, text: str) -> Self:
        """From the message: tasks' errors reach the driver as text."""
        return cls(json.loads(text[text.index("[") :]))

    def __reduce__(self) -> tuple[type[PartitionsNotLoaded], tuple[tuple[str, ...]]]:
        """Let the error cross a process boundary with its fields."""
        return type(self), (self.partition_paths,)


class DuplicateKeys(BucketIndexError):
    """Keys are in two file groups of one partition, so no row's place is certain."""

    def __init__(self, partition_path: str, count: int, sample: Sequence[tuple[str, str, str]]) -> None:
        """`sample`: some of the keys, each with the older and the newer file group that have it."""
        self.partition_path = partition_path
        self.count = count
        self.sample = tuple(sample)
        shown = "; ".join(f"{key!r} in {older} and {newer}" for key, older, newer in self.sample)
        why = "Hudi's BLOOM and SIMPLE indexes do not see keys that are in log files only"
        where = f"partition {partition_path!r}"
        if partition_path == WHOLE_TABLE:
            why = "beside table.index.global Hudi's writers need hoodie.index.type GLOBAL_SIMPLE or GLOBAL_BLOOM"
            where = "the table"
        super().__init__(
            f"{where} has {count} record keys in two file groups each, for example {shown}. "
            f"Another writer made them: {why}. "
            "Remove the duplicates (for example with Hudi's repair_deduplicate), or set "
            "spec.table.index.onDuplicateKeys: report, which writes to the newer file group"
        )

    def __reduce__(self) -> tuple[type[DuplicateKeys], tuple[str, int, tuple[tuple[str, str, str], ...]]]:
        """Let the error cross a process boundary with its fields."""
        return type(self), (self.partition_path, self.count, self.sample)
