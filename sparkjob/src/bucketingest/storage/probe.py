"""Proves on the store itself that create-if-absent works: some S3 look-alikes take the condition and ignore it."""

from __future__ import annotations

import uuid

from bucketingest.storage.errors import AlreadyExists, CreateIfAbsentBroken
from bucketingest.storage.interface import Storage

_PROBE_PREFIX = ".bucketingest-probe-"


def verify_create_if_absent(storage: Storage, prefix: str) -> None:
    """Create one object below the directory ``prefix`` twice, then delete it.

    Raises CreateIfAbsentBroken when the second create succeeds or changes the first one's content.
    """
    name = f"{_PROBE_PREFIX}{uuid.uuid4().hex}"
    path = f"{prefix.rstrip('/')}/{name}" if prefix else name
    try:
        storage.create(path, b"first")
        try:
            storage.create(path, b"second")
        except AlreadyExists:
            if storage.get(path) == b"first":
                return
            raise CreateIfAbsentBroken(_message(storage, path, "a refused create changed the object")) from None
        raise CreateIfAbsentBroken(_message(storage, path, "two creates of one name both succeeded"))
    finally:
        storage.delete(path)


def _message(storage: Storage, path: str, finding: str) -> str:
    return (
        f"{storage.absolute(path)}: create-if-absent does not work: {finding}."
        " Two writers could commit over each other;"
        " use a store with conditional writes (S3, GCS, Azure, recent MinIO or Ceph, a POSIX file system)"
    )
