"""Timelines of instants that completed long ago, as file names or as files in storage."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from bucketingest.hudi.naming import HISTORY_DIRECTORY, TIMELINE_DIRECTORY
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import CLEAN, COMMIT, COMPACTION, DELTA_COMMIT, ROLLBACK, Instant, State
from bucketingest.hudi.timeline.instant_time import format_time
from bucketingest.hudi.timeline.timeline import complete, create_inflight, create_requested
from bucketingest.storage import Storage, open_storage

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
_PENDING = {COMMIT: COMPACTION}


def at(minutes_ago: float) -> str:
    """A request time."""
    return format_time(NOW - timedelta(minutes=minutes_ago))


def done(request_time: str) -> str:
    """When `finished` completes the instant: a second after its request."""
    return str(int(request_time) + 1000)


def finished(request_time: str, action: str = DELTA_COMMIT) -> str:
    """The name of a completed file."""
    return Instant(request_time, action, State.COMPLETED, done(request_time)).file_name


def finish(storage: Storage, request_time: str, action: str = DELTA_COMMIT, **extra: str) -> None:
    """A whole instant with its three files; `extra`: of its metadata."""
    pending = _PENDING.get(action, action)
    plan = b"" if action == DELTA_COMMIT else f"plan of {request_time}".encode()
    create_requested(storage, request_time, pending, plan)
    create_inflight(storage, request_time, pending)
    content = CommitMetadata(extra_metadata={"of": request_time, **extra}).encode()
    complete(storage, request_time, done(request_time), content, action)


def old_table(
    writes: Sequence[str], services: Sequence[tuple[str, str]] = (), storage: Storage | None = None
) -> Storage:
    """A table, in memory by default, with deltacommits at these times, and (time, action) of cleans and rollbacks."""
    storage = storage or open_storage(f"memory://{uuid.uuid4()}")
    for time in writes:
        finish(storage, time, **({"schema": '{"type": "record"}'} if time == writes[-1] else {}))
    for time, action in services:
        assert action in (CLEAN, ROLLBACK)
        finish(storage, time, action)
    return storage


def timeline_files(storage: Storage) -> set[str]:
    """Names of the active timeline's files."""
    return {info.path.rpartition("/")[2] for info in storage.list_level(TIMELINE_DIRECTORY).objects}


def history_files_of(storage: Storage) -> set[str]:
    """Names in the history's directory."""
    return {info.path.rpartition("/")[2] for info in storage.list_level(HISTORY_DIRECTORY).objects}
