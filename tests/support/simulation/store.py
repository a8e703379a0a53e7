"""The objects of a simulated store: one dictionary behind every actor's view, with checks of what must not change.

Strongly consistent, as today's object stores are. What deviates from that (a listing that is not a snapshot, a request
that takes effect late) is simulated by the views.
"""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from bucketingest.storage import AlreadyExists, NotFound
from bucketingest.storage.interface import ObjectInfo
from support.simulation.judge.files import data_file
from support.simulation.judge.instants import HISTORY, TIMELINE, Instants, read_instants
from support.simulation.judge.reader import Snapshot
from support.simulation.records import record

_COMPLETED: Final = re.compile(r"\.hoodie/timeline/(\d{17})_\d{17}\.deltacommit")
"""Of rollbacks, two that finish the same one may both write its completed file unless they hold the table's lock."""
_VERSION: Final = f"{HISTORY}_version_"
_OVERTAKEN: Final = re.compile(r"\.hoodie/\.bucketingest/[^/]+/instants/(\d{17})/overtaken")
_ROLLBACK: Final = re.compile(r"\.hoodie/timeline/\d{17}\.rollback\.requested")
_TAKEN_BACK: Final = re.compile(
    r"\.hoodie/\.bucketingest/[^/]+/(?:instants/(?=\d{17}/(?:overtaken|aborted)$)|aborted/)(\d{17})(?:/\w+)?"
)
_LAST: Final = "\U0010ffff"
"""Sorts after every character of a path."""
_DECISION: Final = re.compile(r"\.hoodie/\.bucketingest/.*/decision")


@dataclass(slots=True)
class StoredObject:
    """One object and when it came."""

    content: bytes
    info: ObjectInfo
    """What a listing shows."""
    step: int

    @property
    def modified(self) -> datetime:
        """When it came."""
        return self.info.modified


class Watch(Protocol):
    """Judges single changes."""

    def before(self, what: str, path: str, by: str, looked: int, asked: int) -> None:
        """A change is about to happen. `looked`: the step at which its actor had last listed the timeline; `asked`: of
        its call before this one.
        """
        ...

    def created(self, path: str) -> None:
        """An object was created."""
        ...


class Objects:
    """Path -> object, with create-if-absent. `violation` is called for what no writer may ever do."""

    def __init__(self, url: str, clock: Callable[[], tuple[int, datetime]], violation: Callable[[str], None]) -> None:
        self.url = url
        self._clock = clock
        self._violation = violation
        self._next_etag = 0
        self._completed: dict[str, str] = {}
        self.watch: Watch | None = None
        """Looks at every change before it happens."""
        self.archivers: set[str] = set()
        """Actors that may delete completed instants: they are in the history by then."""
        self.archived_up_to = ""
        """The greatest request time that they took off the timeline."""
        self.horizon = ""
        """The greatest request time of a commit that anybody took off the timeline, as it is in the history."""
        self._history_version = 0
        """The newest version that the history had: a late request may put an older one back, for a while."""
        self.put_back: set[str] = set()
        """Instants of which a request changed the timeline when newer ones had been archived, or at the end."""
        self.unharmed: set[str] = set()
        """Instants that were archived when a rollback named them: all that it could delete is in base files."""
        self.overtaken: set[str] = set()
        """Instants that were ever marked as overtaken."""
        self.objects: dict[str, StoredObject] = {}
        self._instants: Instants | None = None
        self._snapshot: Snapshot | None = None
        self._paths: list[str] = []
        """Its paths in order: of all that a schedule does, listings are the most frequent."""
        self.creators: dict[str, str] = {}
        """Who created an object last; it stays when the object goes."""
        self.deleted: dict[str, tuple[StoredObject, int]] = {}
        """What was there before its deletion, and the step of it: a stale listing still shows it."""

    def get(self, path: str) -> bytes:
        """The content. Raises NotFound."""
        found = self.objects.get(path)
        if found is None:
            raise NotFound(f"{self.url}/{path}: there is no such object")
        return found.content

    def info(self, path: str) -> ObjectInfo:
        """What a listing shows. Raises NotFound."""
        self.get(path)
        return self.objects[path].info

    def under(self, start: str) -> Sequence[str]:
        """The paths that start with this, in order."""
        return self._paths[bisect_left(self._paths, start) : bisect_left(self._paths, f"{start}{_LAST}")]

    def since(self, path: str) -> int:
        """The step at which it came; -1: it is not there."""
        stored = self.objects.get(path)
        return -1 if stored is None else stored.step

    def create(self, path: str, content: bytes) -> None:
        """Create if absent. Raises AlreadyExists."""
        if path in self.objects:
            raise AlreadyExists(f"{self.url}/{path}: the name is taken; another writer created it first")
        match = _COMPLETED.fullmatch(path)
        if match is not None:
            first = self._completed.setdefault(match[1], path)
            if first != path:
                self._violation(f"instant {match[1]} is completed twice: {first} and {path}")
        self._store(path, content)

    def put(self, path: str, content: bytes) -> None:
        """Create or replace."""
        if path in self.objects:
            self._check_change(path, "overwritten")
        self._store(path, content)

    def delete(self, path: str, by: str = "") -> None:
        """Delete; success if absent."""
        if path in self.objects:
            if by in self.archivers:
                self.archived_up_to = max(self.archived_up_to, path.rpartition("/")[2][:17])
                self.horizon = max(self.horizon, self.archived_up_to)
            else:
                self._check_change(path, "deleted")
            self._changes(path)
            self.deleted[path] = (self.objects.pop(path), self._clock()[0])
            del self._paths[bisect_left(self._paths, path)]

    @property
    def contents(self) -> dict[str, bytes]:
        """Path -> content, as it is now."""
        return {path: stored.content for path, stored in self.objects.items()}

    @property
    def instants(self) -> Instants:
        """What the timeline says now."""
        if self._instants is None:
            self._instants = read_instants(self._on_timeline())
        return self._instants

    @property
    def snapshot(self) -> Snapshot:
        """The table as it is now."""
        if self._snapshot is None:
            files = tuple(file for path in self.objects if (file := data_file(path)) is not None)
            self._snapshot = Snapshot(self.instants, files, self.contents)
        return self._snapshot

    def _on_timeline(self) -> dict[str, bytes]:
        return {path: self.objects[path].content for path in self.under(TIMELINE)}

    def _changes(self, path: str) -> None:
        self._snapshot = None
        if path.startswith(TIMELINE):
            self._instants = None

    def _check_change(self, path: str, what: str) -> None:
        match = _COMPLETED.fullmatch(path)
        if match is not None and not (what == "deleted" and self._may_delete_completed(match[1])):
            self._violation(f"a completed instant was {what}: {path}")
        if what == "overwritten" and _DECISION.fullmatch(path):
            self._violation(f"a decision was {what}: {path}")

    def _may_delete_completed(self, instant: str) -> bool:
        """Whether its pipeline may delete its completed file: another writer's rollback or compaction made it void, or
        it is archived and the oldest on the timeline.
        """
        marked = any((match := _TAKEN_BACK.fullmatch(path)) and match[1] == instant for path in self.objects)
        now = {path: each for path, each in self._on_timeline().items() if not path.startswith(f"{TIMELINE}{instant}")}
        newest = now | ({_VERSION: str(self._history_version).encode()} if _VERSION in now else {})
        in_history = any(instant in read_instants(each).completed for each in (now, newest))
        archived = in_history and self.first_active(instant) == instant
        if archived:
            self.horizon = max(self.horizon, instant)
        return marked or archived or instant in self.instants.rolled_back

    def first_active(self, instant: str) -> str:
        """The oldest write on the timeline; no archival can wait for others that a delayed request puts back."""
        others = tuple(f"{TIMELINE}{each}" for each in self.put_back - {instant})
        return read_instants({p: c for p, c in self._on_timeline().items() if not p.startswith(others)}).first_active

    def _store(self, path: str, content: bytes) -> None:
        step, now = self._clock()
        if (match := _OVERTAKEN.fullmatch(path)) is not None:
            self.overtaken.add(match[1])
        if content and _ROLLBACK.fullmatch(path):
            target = record(content)["instantToRollback"]["commitTime"]
            found = self.instants.completed.get(target)
            if found is not None and not found.active:
                self.unharmed.add(target)
        if path == _VERSION:
            self._history_version = max(self._history_version, int(content))
        self._changes(path)
        self._next_etag += 1
        if path not in self.objects:
            insort(self._paths, path)
        self.objects[path] = StoredObject(content, ObjectInfo(path, len(content), now, str(self._next_etag)), step)
