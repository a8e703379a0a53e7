"""The error family of catalogs: none of them touches the table or its commits."""

from __future__ import annotations

from bucketingest.errors import BucketIngestError
from bucketingest.exit_codes import ExitCode


class CatalogError(BucketIngestError):
    """Base of every error raised by `bucketingest.catalog`."""

    exit_code = ExitCode.CATALOG_FAILED


class CatalogUnavailable(CatalogError):
    """The catalog does not answer, or fails: the same again, later, may help."""


class CatalogRefused(CatalogError):
    """The catalog, or what is registered in it, does not allow it: a person must change something."""
