"""Instants that have left the active timeline: the part of Hudi's archived history that a writer must read."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bucketingest.hudi.history.manifest import (
    VERSION_PATH,
    history_names,
    manifest_numbers,
    published_number,
    read_manifest,
)
from bucketingest.hudi.naming import HISTORY_DIRECTORY
from bucketingest.hudi.timeline.instant import (
    CLEAN,
    COMMIT,
    COMPACTION,
    DELTA_COMMIT,
    REPLACE_COMMIT,
    ROLLBACK,
    SAVEPOINT,
    WRITE_ACTIONS,
    Instant,
    State,
)
from bucketingest.hudi.timeline.instant_time import CLOCKS_DIFFER, format_time, parse_time
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.storage.interface import Storage

OPEN_FOR: Final = timedelta(days=1)
"""So long an instant is open: older ones than this before a look were on the timeline then, or archived."""
LOOKS_BACK: Final = OPEN_FOR + CLOCKS_DIFFER
"""How far before the last look the request of an instant may be that `archived_services` has."""
_SERVICES: Final = (COMPACTION, COMMIT, REPLACE_COMMIT, ROLLBACK, CLEAN)
_FILE_NAME = re.compile(r"(\d+)_(\d+)_(\d+)\.parquet")


@dataclass(frozen=True, slots=True)
class HistoryFile:
    """One history file: `<min request time>_<max request time>_<level>.parquet` (Hudi 1.2.0, seen)."""

    name: str
    min_time: str
    max_time: str


def history_files(storage: Storage) -> tuple[HistoryFile, ...]:
    """Files of the newest manifest: only they count as archived. Empty if nothing was ever archived.

    Raises `InvalidTable` if the manifest that `_version_` names is missing or broken.
    """
    number = published_number(storage)
    if not number:
        # Hudi's own readers list the manifests while a writer is between deleting and creating the version file.
        number = max(manifest_numbers(history_names(storage)), default=0)
    names = [entry.name for entry in read_manifest(storage, number)] if number else []
    matches = filter(None, map(_FILE_NAME.fullmatch, names))
    return tuple(HistoryFile(match[0], match[1], match[2]) for match in matches)


def archived_times(storage: Storage) -> frozenset[str]:
    """Least and greatest request times of every history file: bounds of the archive, without opening the files."""
    return frozenset(time for file in history_files(storage) for time in (file.min_time, file.max_time))


def archived_instants(storage: Storage, request_time: str | None = None) -> tuple[Instant, ...]:
    """Archived instants by ascending request time; with `request_time` only those of this time.

    Opens the history files whose range of times fits, and of those only the columns needed. An instant that an
    interrupted archival wrote twice is listed once.
    """
    return tuple(
        instant
        for instant in archived_between(storage, request_time or "", request_time)
        if request_time is None or instant.request_time == request_time
    )


def archived_completion_times(storage: Storage, request_times: Collection[str]) -> dict[str, str]:
    """Completion times of those of the write instants that the history has."""
    if not request_times:
        return {}
    return {
        instant.request_time: instant.completion_time
        for instant in archived_between(storage, min(request_times), max(request_times))
        if instant.request_time in request_times
        and instant.action in WRITE_ACTIONS
        and instant.completion_time is not None
    }


def archived_between(storage: Storage, first: str, last: str | None) -> list[Instant]:
    """Every instant of the history files that have times from `first` to `last`; None: to the end. So also others."""
    rows = _rows(storage, first, last, ["instantTime", "completionTime", "action"])
    found = {instant.key: instant for instant in map(_instant, rows)}
    return [found[key] for key in sorted(found)]


def hidden_writes(storage: Storage, timeline: Timeline) -> frozenset[str]:
    """Request times of archived writes that readers take for not committed. Empty if there are none.

    A request that came after the archival hides them: its instant is the oldest on the timeline, and may be one of
    them. Or each write on the timeline has a savepoint: then readers cannot tell what was archived, and all are hidden.
    """
    if not timeline.instants:  # a new table
        return frozenset()
    first = timeline.first_active or ""
    if all(file.max_time < first for file in history_files(storage)):
        return frozenset()
    completed = {instant.request_time for instant in timeline.completed}
    writes = {each.request_time for each in archived_between(storage, first, None) if each.action in WRITE_ACTIONS}
    return frozenset(time for time in writes - completed if time >= first)


def with_hidden(storage: Storage, timeline: Timeline) -> Timeline:
    """The timeline for one who must know all rows of the table: readers see those of hidden writes again as soon as
    the older write is off the timeline.
    """
    return replace(timeline, hidden=hidden_writes(storage, timeline))


@dataclass(frozen=True, slots=True)
class ArchivedService:
    """An archived compaction, replacement, rollback or clean."""

    instant: Instant
    plan: bytes
    """Of its requested file; empty for a rollback, and for a replacement that is no clustering."""
    metadata: bytes
    """Of its completed file."""


def stay_behind_savepoint(storage: Storage, timeline: Timeline) -> str | None:
    """Request time of a write with a savepoint behind which all archived writes are still on the timeline, as its
    savepoint came during an archival; None if there is none. They must stay as long as it does: hudi-rs takes what is
    newer than the oldest write, and not on the timeline, for uncommitted.
    """
    savepoints = {instant.request_time for instant in timeline.instants if instant.action == SAVEPOINT}
    there = {instant.request_time for instant in timeline.completed if instant.action in WRITE_ACTIONS}
    saved = min(savepoints & there, default=None)
    if saved is None:
        return None
    archived = (each for each in archived_between(storage, saved, None) if each.action in WRITE_ACTIONS)
    return saved if all(each.request_time in there for each in archived if each.request_time > saved) else None


def archived_services(storage: Storage, first: str, since: str) -> Iterator[list[ArchivedService]]:
    """The archived compactions, replacements, rollbacks and cleans that were requested at `first` or later, and
    completed after `since`, or seem to have up to an hour before it: the clocks of other writers may be behind. Those
    of one history file at a time: no more are in memory.
    """
    oldest, after = max(first, _before(since, OPEN_FOR)), _before(since, CLOCKS_DIFFER)
    columns = ["instantTime", "completionTime", "action", "metadata", "plan"]
    for rows in _rows_by_file(storage, oldest, None, columns, _SERVICES):
        yield [
            ArchivedService(_instant(row), row["plan"] or b"", row["metadata"] or b"")
            for row in rows
            if row["instantTime"] >= first and (row["completionTime"] or "") > after
        ]


def _before(time: str, length: timedelta) -> str:
    return time and format_time(parse_time(time) - length)


def archived_plan(storage: Storage, compaction: str) -> bytes | None:
    """Bytes of an archived compaction's requested file; None if the history has none."""
    rows = _rows(storage, compaction, compaction, ["instantTime", "action", "plan"])
    plans = (r["plan"] for r in rows if r["instantTime"] == compaction and r["action"] in (COMPACTION, COMMIT))
    return next(filter(None, plans), None)


def archived_contents(storage: Storage, request_time: str, action: str) -> list[bytes]:
    """Bytes of the completed file of an archived instant: one, or as many as it was archived with; empty if none."""
    rows = _rows(storage, request_time, request_time, ["instantTime", "action", "metadata"])
    found = (row["metadata"] for row in rows if (row["instantTime"], row["action"]) == (request_time, action))
    return [content for content in dict.fromkeys(found) if content]


def archived_commits(
    storage: Storage, first: str, action: str = DELTA_COMMIT, *, last: str | None = None
) -> Iterator[tuple[str, bytes]]:
    """Request time and bytes of the completed file of each archived instant of this action, from `first` to `last`;
    None: to the end. By default: of the commits that have log files.
    """
    for row in _rows(storage, first, last, ["instantTime", "action", "metadata"]):
        fits = first <= row["instantTime"] and (last is None or row["instantTime"] <= last)
        if fits and row["action"] == action and row["metadata"]:
            yield row["instantTime"], row["metadata"]


def _instant(row: dict[str, Any]) -> Instant:
    return Instant(row["instantTime"], row["action"], State.COMPLETED, row["completionTime"])


def _rows(storage: Storage, first: str, last: str | None, columns: list[str]) -> Iterator[dict[str, Any]]:
    for rows in _rows_by_file(storage, first, last, columns):
        yield from rows


def _rows_by_file(
    storage: Storage, first: str, last: str | None, columns: list[str], actions: Collection[str] = ()
) -> Iterator[list[dict[str, Any]]]:
    """`actions`: rows of these only, and not of others."""
    for file in history_files(storage):
        if file.max_time < first or (last is not None and last < file.min_time):
            continue
        data = storage.get(f"{HISTORY_DIRECTORY}/{file.name}")
        # One thread: the files are small, and Arrow's pool has been seen to abort a process that ends right afterwards.
        history = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False, page_checksum_verification=True)
        table = history.read(columns=columns, use_threads=False)
        if actions:
            table = table.filter(pc.is_in(table["action"], pa.array(actions, pa.string())))
        yield table.to_pylist()


def is_settled(storage: Storage) -> bool:
    """Whether the history is final. Without the version file an archival is between two steps, or has died there, and
    the next one may replace the newest manifest.
    """
    return storage.exists(VERSION_PATH)


def is_archived(storage: Storage, request_time: str, action: str = DELTA_COMMIT) -> bool:
    """Whether the history has a completed instant of this time and action: a compaction may have a deltacommit's."""
    return any(instant.action == action for instant in archived_instants(storage, request_time))
