"""Objects that several processes may create: the first one's content counts, and each process learns it."""

from __future__ import annotations

from bucketingest.storage.errors import AlreadyExists, NotFound
from bucketingest.storage.interface import Data, Storage


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
