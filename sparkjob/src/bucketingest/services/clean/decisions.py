"""How two executors of one clean agree about its completed file: both may find the clean pending, and the name of the
file has its completion time, so without an agreement both could write one.

    .hoodie/.bucketingest/services/clean/<request time>/decision   completion time and bytes of the completed file
    .hoodie/.bucketingest/services/clean/<request time>/done       it has been carried out

Both are created if absent, where neither readers nor Hudi's writers look.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, Protocol

from bucketingest.hudi.naming import OWN_DIRECTORY
from bucketingest.hudi.timeline.instant_time import format_time
from bucketingest.storage import Storage, create_or_get, created, get_if_there, remove_directories
from bucketingest.write.instants.records import CommitDecision, decision_bytes, decision_of

_ROOT: Final = f"{OWN_DIRECTORY}/services/clean"
KEPT_CLEANS: Final = 3
"""Newest cleans whose objects stay, however old."""
KEPT_FOR: Final = timedelta(hours=24)
"""Age up to which a clean's objects stay: a paused executor must still find the decision. It is longer than any
executor runs.
"""


class Decisions(Protocol):
    """What the executor asks. `clean` is a request time."""

    def decided(self, clean: str) -> CommitDecision | None:
        """What was decided; None until then."""
        ...

    def decide(self, clean: str, wanted: CommitDecision) -> CommitDecision:
        """Decide, or read what was decided before. The answer is final."""
        ...

    def mark_done(self, clean: str) -> None:
        """Nothing is left to do for the clean. It may be repeated."""
        ...


class StoredDecisions:
    """Decisions as objects in the table's storage."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def decided(self, clean: str) -> CommitDecision | None:
        """What was decided; None until then."""
        content = get_if_there(self._storage, _path(clean, "decision"))
        return None if content is None else _commit_of(content, clean)

    def decide(self, clean: str, wanted: CommitDecision) -> CommitDecision:
        """Decide, or read what was decided before. The answer is final."""
        return _commit_of(create_or_get(self._storage, _path(clean, "decision"), decision_bytes(wanted)), clean)

    def mark_done(self, clean: str) -> None:
        """Nothing is left to do for the clean. It may be repeated."""
        created(self._storage, _path(clean, "done"), b"")

    def forget(self, now: datetime) -> None:
        """Delete the objects of old cleans that are done; `done` last, as without it the clean would count as open."""
        directories = self._storage.list_level(_ROOT).directories
        cleans = sorted(path.rpartition("/")[2] for path in directories)
        for clean in cleans[:-KEPT_CLEANS]:
            if clean < format_time(now - KEPT_FOR) and self._storage.exists(_path(clean, "done")):
                self._storage.delete(_path(clean, "decision"))
                self._storage.delete(_path(clean, "done"))
                remove_directories(self._storage, f"{_ROOT}/{clean}")


def _path(clean: str, name: str) -> str:
    return f"{_ROOT}/{clean}/{name}"


def _commit_of(content: bytes, clean: str) -> CommitDecision:
    decision = decision_of(content, f"the decision of clean {clean}")
    assert isinstance(decision, CommitDecision), "a clean is never aborted: what it deleted stays deleted"
    return decision
