"""The instants of a table: an immutable view read with one listing, and the three steps of an instant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Self

from bucketingest.hudi.errors import InstantExists, TimelineError
from bucketingest.hudi.naming import TIMELINE_DIRECTORY
from bucketingest.hudi.timeline.instant import (
    CLEAN,
    COMMIT,
    COMPACTION,
    DELTA_COMMIT,
    REPLACE_COMMIT,
    SAVEPOINT,
    WRITE_ACTIONS,
    Instant,
    State,
)
from bucketingest.storage.agreement import create_or_get
from bucketingest.storage.errors import AlreadyExists
from bucketingest.storage.interface import Storage, object_names


@dataclass(frozen=True)
class Timeline:
    """The active timeline at one moment, instants by ascending request time. Unknown files are left out."""

    instants: tuple[Instant, ...]
    hidden: frozenset[str] = frozenset()
    """Request times of archived writes that readers do not see for now, and that count as archived here. Empty: the
    timeline is as readers see it. `bucketingest.hudi.history.archived.with_hidden` sets them.
    """

    @classmethod
    def load(cls, storage: Storage) -> Self:
        """Read the active timeline with one listing of `.hoodie/timeline`; no file is opened."""
        return cls._of(object_names(storage, TIMELINE_DIRECTORY))

    @classmethod
    def of_file_names(cls, names: Iterable[str]) -> Self:
        """The timeline of these file names (no directories); of one instant's files the latest state counts, of two
        completed files the first, but of a clean's the last: it may have deleted files again.
        """
        return cls._of(tuple(names))

    @classmethod
    @lru_cache(maxsize=8)  # most looks find what the one before found
    def _of(cls, names: tuple[str, ...]) -> Self:
        latest: dict[tuple[str, str], Instant] = {}
        for instant in filter(None, map(Instant.try_parse, names)):
            known = latest.setdefault(instant.key, instant)
            if known is instant:
                continue
            if known.rank < instant.rank or (known.rank == instant.rank and instant.action == CLEAN):
                latest[instant.key] = instant
        return cls(tuple(sorted(latest.values(), key=lambda instant: (instant.request_time, instant.action))))

    def as_of(self, completion_time: str) -> Timeline:
        """The timeline as it was then: write instants that completed later are still inflight."""
        return Timeline(
            tuple(
                Instant(each.request_time, each.action, State.INFLIGHT)
                if each.action in WRITE_ACTIONS and (each.completion_time or "") > completion_time
                else each
                for each in self.instants
            ),
            self.hidden,
        )

    @cached_property
    def completed(self) -> tuple[Instant, ...]:
        """Completed instants of every action, by ascending request time."""
        return tuple(instant for instant in self.instants if instant.is_completed)

    @cached_property
    def pending(self) -> tuple[Instant, ...]:
        """Requested and inflight instants of every action, by ascending request time."""
        return tuple(instant for instant in self.instants if not instant.is_completed)

    @cached_property
    def completed_commits(self) -> tuple[Instant, ...]:
        """Completed instants that wrote data, by ascending completion time: the order in which readers see them."""
        writes = (instant for instant in self.completed if instant.action in WRITE_ACTIONS)
        return tuple(sorted(writes, key=lambda instant: (instant.completion_time or "", instant.request_time)))

    @cached_property
    def compactions(self) -> frozenset[str]:
        """Request times of the compactions, pending and completed; in a merge-on-read table only they are commits."""
        return frozenset(instant.request_time for instant in self.instants if instant.action in (COMPACTION, COMMIT))

    @cached_property
    def replacements(self) -> frozenset[Instant]:
        """Completed replacecommits: clusterings, and what else replaces file groups."""
        return frozenset(instant for instant in self.completed if instant.action == REPLACE_COMMIT)

    @cached_property
    def times(self) -> frozenset[str]:
        """All request and completion times on the active timeline."""
        completion_times = (instant.completion_time for instant in self.completed)
        return frozenset(i.request_time for i in self.instants) | {
            time for time in completion_times if time is not None
        }

    @property
    def newest_time(self) -> str | None:
        """Greatest request or completion time on the active timeline; None if it is empty."""
        return max(self.times, default=None)

    @cached_property
    def first_active(self) -> str | None:
        """Request time before which an instant counts as archived; None if no instant on the timeline wrote data.

        Hudi 1.2.0 (CompletionTimeQueryViewV2): the first write instant, also a pending one, without a savepoint of its
        time, since archival may leave holes behind savepoints.
        """
        return next((instant.request_time for instant in self.writes), None)

    @property
    def writes(self) -> Iterator[Instant]:
        """Write instants, also pending ones, from the oldest; without those that a savepoint keeps."""
        savepoints = {instant.request_time for instant in self.instants if instant.action == SAVEPOINT}
        return (i for i in self.instants if i.action in WRITE_ACTIONS and i.request_time not in savepoints)

    @cached_property
    def _completion_times(self) -> dict[str, str]:
        return {i.request_time: i.completion_time for i in self.completed_commits if i.completion_time is not None}

    def completion_time(self, request_time: str) -> str | None:
        """Completion time of a write instant on the active timeline; None if it is pending, archived or unknown."""
        return self._completion_times.get(request_time)

    def is_archived(self, request_time: str) -> bool:
        """Whether Hudi's readers treat the time as that of an archived, and so completed, instant."""
        if request_time in self.hidden:
            return True
        return self.first_active is not None and request_time < self.first_active

    def is_committed(self, request_time: str) -> bool:
        """Whether readers show a file that has this request time in its name (Hudi 1.2.0: `isCompleted`)."""
        return request_time in self._completion_times or self.is_archived(request_time)

    def find(self, request_time: str, action: str = DELTA_COMMIT) -> Instant | None:
        """The instant of this request time and (completed) action, in its furthest state."""
        key = Instant(request_time, action, State.REQUESTED).key
        return next((instant for instant in self.instants if instant.key == key), None)


def completed_files(storage: Storage, action: str, request_time: str | None = None) -> list[Instant]:
    """Every completed file of this action, or of one instant, by one listing. A `Timeline` has one of each instant, but
    two writers without a common lock may both have completed it.
    """
    found = map(Instant.try_parse, object_names(storage, TIMELINE_DIRECTORY))
    completed = [each for each in found if each is not None and each.is_completed and each.action == action]
    return completed if request_time is None else [each for each in completed if each.request_time == request_time]


def path_of(instant: Instant) -> str:
    """Path, relative to the table's root, of the instant's file in this state."""
    return f"{TIMELINE_DIRECTORY}/{instant.file_name}"


def create_requested(storage: Storage, request_time: str, action: str = DELTA_COMMIT, content: bytes = b"") -> Instant:
    """Put a new instant on the timeline as requested. A deltacommit's requested file is empty, a rollback's holds its
    plan.

    Raises `InstantExists` if the file exists, even with equal content: an empty file does not show its writer.
    """
    instant = Instant(request_time, action, State.REQUESTED)
    try:
        storage.create(path_of(instant), content)
    except AlreadyExists as error:
        raise InstantExists(
            f"{storage.url}: instant {request_time} {action} was requested by another writer: take a later time"
        ) from error
    return instant


def create_inflight(storage: Storage, request_time: str, action: str = DELTA_COMMIT, content: bytes = b"") -> Instant:
    """Move an instant to inflight. It may be repeated with the same content; other content raises `InstantExists`."""
    instant = Instant(request_time, action, State.INFLIGHT)
    _create_or_adopt(storage, instant, content)
    return instant


def complete(
    storage: Storage, request_time: str, completion_time: str, content: bytes, action: str = DELTA_COMMIT
) -> Instant:
    """Write the completed file, which makes the instant's data visible. It may be repeated with the same content.

    `action` is the action of the completed file. Two processes with different completion times would both succeed, so
    the time must be decided before, elsewhere. Raises `TimelineError` if the completion time is not after the request
    time, `InstantExists` if the file exists with other content.
    """
    if completion_time <= request_time:
        raise TimelineError(
            f"{storage.url}: instant {request_time} cannot be completed at {completion_time}: that is not after it"
        )
    instant = Instant(request_time, action, State.COMPLETED, completion_time)
    _create_or_adopt(storage, instant, content)
    return instant


def _create_or_adopt(storage: Storage, instant: Instant, content: bytes) -> None:
    path = path_of(instant)
    if create_or_get(storage, path, content) != content:
        raise InstantExists(
            f"{storage.url}: {path} exists with other content: another writer works on this instant; "
            "stop and reload the timeline"
        )
