"""The error family of the storage layer, so that callers decide by type and never by a store's own exceptions."""

from __future__ import annotations

from bucketingest.errors import BucketIngestError
from bucketingest.exit_codes import ExitCode


class StorageError(BucketIngestError):
    """A storage call failed. The message names the object (URL and path), what is wrong and what to do."""

    exit_code = ExitCode.STORAGE_UNAVAILABLE


class NotFound(StorageError):
    """There is no object of this name."""


class AlreadyExists(StorageError):
    """Create-if-absent found the name taken by another writer."""


class Changed(StorageError):
    """A replace found another version of the object: another writer wrote it meanwhile."""


class AccessDenied(StorageError):
    """The credentials are missing, wrong, or lack the permission for this call."""

    exit_code = ExitCode.ACCESS_DENIED


class StorageUnavailable(StorageError):
    """A transient failure: the same call may succeed later.

    After a failed ``create`` or ``put`` the outcome is unknown: the object may or may not be there.
    """


class InvalidLocation(StorageError):
    """The URL, an option or an object's path can never work as it is."""

    exit_code = ExitCode.BAD_INPUT


class ObjectTooLarge(StorageError):
    """The data exceeds what the store accepts in one atomic request."""


class CreateIfAbsentBroken(StorageError):
    """The store lets a second create of the same name succeed, so it cannot coordinate writers."""
