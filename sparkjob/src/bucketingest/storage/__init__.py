"""Object stores and file systems behind one small interface."""

from bucketingest.storage.agreement import create_or_get, created, get_if_there, verify_create_if_absent
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
from bucketingest.storage.factory import object_store_settings, open_storage, path_room
from bucketingest.storage.interface import (
    BytesLike,
    ConditionalStorage,
    Data,
    Level,
    ObjectInfo,
    SkippingStorage,
    Storage,
    Version,
    object_names,
    remove_directories,
)
from bucketingest.storage.limits import UNBOUNDED, PathRoom

__all__ = [
    "UNBOUNDED",
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
    "PathRoom",
    "SkippingStorage",
    "Storage",
    "StorageError",
    "StorageUnavailable",
    "Version",
    "create_or_get",
    "created",
    "get_if_there",
    "object_names",
    "object_store_settings",
    "open_storage",
    "path_room",
    "remove_directories",
    "verify_create_if_absent",
]
