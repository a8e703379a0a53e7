"""Object stores and file systems behind one small interface."""

from bucketingest.storage.errors import (
    AccessDenied,
    AlreadyExists,
    Changed,
    CreateIfAbsentBroken,
    InvalidLocation,
    NotFound,
    ObjectTooLarge,
    StorageError,
    StorageUnavailable,
)
from bucketingest.storage.interface import BytesLike, ConditionalStorage, Data, Level, ObjectInfo, Storage, Version
from bucketingest.storage.opening import open_storage
from bucketingest.storage.probe import verify_create_if_absent

__all__ = [
    "AccessDenied",
    "AlreadyExists",
    "BytesLike",
    "Changed",
    "ConditionalStorage",
    "CreateIfAbsentBroken",
    "Data",
    "InvalidLocation",
    "Level",
    "NotFound",
    "ObjectInfo",
    "ObjectTooLarge",
    "Storage",
    "StorageError",
    "StorageUnavailable",
    "Version",
    "open_storage",
    "verify_create_if_absent",
]
