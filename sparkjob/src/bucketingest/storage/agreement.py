"""Objects that several processes may create: the first one's content counts, and each process learns it. And the proof
on the store itself that create-if-absent works: some S3 look-alikes take the condition and ignore it.
"""

from __future__ import annotations

import uuid

from bucketingest.storage.errors import AlreadyExists, CreateIfAbsentBroken, NotFound, StorageError
from bucketingest.storage.interface import Data, Storage

_PROBE_PREFIX = ".bucketingest-probe-"


def created(storage: Storage, path: str, content: Data) -> bool:
    """Create the object; False if there is one, whatever it holds."""
    try:
        storage.create(path, content)
    except AlreadyExists:
        return False
    return True


def create_or_get(storage: Storage, path: str, content: bytes) -> bytes:
    """Create the object unless there is one; returns what it holds now.

    A process that dies and tries again finds its own object: equal content is success. Raises NotFound if the existing
    object is deleted meanwhile.
    """
    return content if created(storage, path, content) else storage.get(path)


def get_if_there(storage: Storage, path: str) -> bytes | None:
    """The content of the object; None if there is none."""
    try:
        return storage.get(path)
    except NotFound:
        return None


def verify_create_if_absent(storage: Storage, prefix: str) -> None:
    """Create one object below the directory ``prefix`` twice, then delete it.

    Raises CreateIfAbsentBroken when the second create succeeds or changes the first one's content.
    """
    name = f"{_PROBE_PREFIX}{uuid.uuid4().hex}"
    path = f"{prefix.rstrip('/')}/{name}" if prefix else name
    storage.create(path, b"first")
    finding = _second_create(storage, path)
    try:
        storage.delete(path)
    except StorageError:
        if finding is None:  # Otherwise the finding matters more than a probe left behind.
            raise
    if finding is not None:
        raise CreateIfAbsentBroken(
            f"{storage.absolute(path)}: create-if-absent does not work: {finding}."
            " Two writers could commit over each other;"
            " use a store with conditional writes (S3, GCS, Azure, recent MinIO or Ceph, a POSIX file system)"
        )


def _second_create(storage: Storage, path: str) -> str | None:
    """What is wrong when the taken name is created again, or None."""
    try:
        storage.create(path, b"second")
    except AlreadyExists:
        return None if storage.get(path) == b"first" else "a refused create changed the object"
    return "two creates of one name both succeeded"
