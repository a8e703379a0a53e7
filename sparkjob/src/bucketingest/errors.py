"""One root for every error this package raises on purpose, so that a caller can tell them from defects."""


class BucketIngestError(Exception):
    """Base of all errors raised by bucketingest.

    Each layer derives one family from it. The message says what is wrong, where, and what to do about it.
    """
