"""Which errors of a merge are its file group's own: its slice stays, and the merge of the others goes on."""

from __future__ import annotations

from bucketingest.services.errors import RoundEnded
from bucketingest.storage import NotFound, ObjectTooLarge, StorageError

TOO_LARGE = ObjectTooLarge.__name__
"""How the reason begins if the store does not take the new base file: its partition needs more buckets."""


def fails_alone(error: Exception) -> bool:
    """Whether a merge that failed so is given up: another try, or another process, would fail the same way. Pyarrow and
    the scratch disk raise OSError and more for one damaged or too large file group. Else the round has ended, or
    storage does not answer.
    """
    if isinstance(error, StorageError):
        return isinstance(error, NotFound | ObjectTooLarge)
    return not isinstance(error, RoundEnded)


def reason_of(error: Exception) -> str:
    """What is recorded of it."""
    return f"{type(error).__name__}: {error}"
