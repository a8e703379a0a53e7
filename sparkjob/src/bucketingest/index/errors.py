"""The error family of the index layer: it distinguishes refusals about keys and buckets from other failures."""

from __future__ import annotations

from bucketingest.errors import BucketIngestError
from bucketingest.exit_codes import ExitCode


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
