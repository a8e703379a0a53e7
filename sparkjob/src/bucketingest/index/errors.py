"""The index layer's one error family, so that a caller can tell a refusal about keys and buckets from any other failure."""

from __future__ import annotations

from bucketingest.errors import BucketIngestError


class BucketIndexError(BucketIngestError):
    """Base of everything the index layer raises."""


class InvalidKeyRule(BucketIndexError):
    """The configured key, hash or partition fields do not fit together; found before any row is read."""


class MissingKeyColumn(BucketIndexError):
    """A key or partition column is not in the input, or is in it twice."""


class UnsupportedKeyType(BucketIndexError):
    """A key or partition column has a type that has no text in a record key (list, struct, map, binary, ...)."""


class InvalidKeyText(BucketIndexError):
    """A string that is to be hashed is not valid UTF-8, so it has no UTF-16 code units."""


class DuplicateFileGroup(BucketIndexError):
    """Two file groups stand for one bucket of one partition: no row's place is certain any more."""


class BucketOutOfRange(BucketIndexError):
    """A file group's bucket is not below the bucket count: the table has another bucket count."""


class BucketLayoutMismatch(BucketIndexError):
    """Record keys found in the table are not where the bucket count, hash and hash fields put them."""
