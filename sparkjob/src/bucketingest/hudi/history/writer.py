"""Moves instants into Hudi's archived history, so that each of them is found there before it leaves the timeline.

A history file counts once a manifest names it, and a manifest once `_version_` has its number (Hudi 1.2.0:
LSMTimelineWriter). Readers without the version file take the highest manifest, so a manifest must be whole at once.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from bucketingest.hudi.errors import TimelineError
from bucketingest.hudi.history.manifest import (
    VERSION_PATH,
    ManifestEntry,
    history_names,
    load_manifest,
    manifest_numbers,
    manifest_path,
)
from bucketingest.hudi.naming import HISTORY_DIRECTORY
from bucketingest.hudi.timeline.instant import (
    CLEAN,
    CLUSTERING,
    COMPACTION,
    LOG_COMPACTION,
    REPLACE_COMMIT,
    Instant,
)
from bucketingest.hudi.timeline.timeline import path_of
from bucketingest.storage import Changed, ConditionalStorage, NotFound, Storage, create_or_get, created

ROWS: Final = pa.schema(
    [
        pa.field("instantTime", pa.string()),
        pa.field("completionTime", pa.string()),
        pa.field("action", pa.string()),
        pa.field("metadata", pa.binary()),
        pa.field("plan", pa.binary()),
        pa.field("version", pa.int32(), nullable=False),
    ]
)
"""Columns of a history file (Hudi 1.2.0: HoodieLSMTimelineInstant)."""
TEXTS: Final = ("instantTime", "completionTime", "action")
_ROW_VERSION: Final = 1
_PLANNED: Final = frozenset({COMPACTION, LOG_COMPACTION, CLEAN, REPLACE_COMMIT, CLUSTERING})
"""Actions whose requested file is kept in the history, too (Hudi 1.2.0: MetadataConversionUtils)."""
_CHECKSUM: Final = f"{HISTORY_DIRECTORY}/._version_.crc"
"""Hadoop's local file system writes it beside the file, and does not read the file if they disagree."""
_TRIES_MAX: Final = 8

Check = Callable[[], None]
"""Raises if this process may no longer work on the table: the lease or the table's lock was lost."""


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """One completed instant with what its files hold; None: nothing."""

    instant: Instant
    metadata: bytes | None
    """Bytes of the completed file."""
    plan: bytes | None
    """Bytes of the requested file, where it is a plan."""

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.metadata or b"") + len(self.plan or b"")


def read_row(storage: Storage, completed: Instant, requested: Instant | None) -> HistoryRow:
    """The row of an instant on the timeline. `requested`: its requested file, if there is one. Raises NotFound."""
    metadata = storage.get(path_of(completed))
    has_plan = requested is not None and requested.action in _PLANNED
    plan = storage.get(path_of(requested)) if has_plan and requested is not None else b""
    return HistoryRow(completed, metadata or None, plan or None)


def write_history_file(storage: Storage, rows: Sequence[HistoryRow], content: bytes | None = None) -> ManifestEntry:
    """Write rows, ascending by request time, as a file of level 0; no reader sees it until a manifest names it.

    `content`: what `encode_rows` made of them before. Equal rows make equal bytes, so what a crash left is taken as it
    is. Raises TimelineError if other files have its names.
    """
    times = (rows[0].instant.request_time, rows[-1].instant.request_time)
    return create_file(storage, times, 0, encode_rows(rows) if content is None else content)


def encode_rows(rows: Sequence[HistoryRow]) -> bytes:
    """The bytes of a history file. It takes a second for some dozen megabytes: not to be done under the lock."""
    columns = {
        "instantTime": [row.instant.request_time for row in rows],
        "completionTime": [row.instant.completion_time for row in rows],
        "action": [row.instant.action for row in rows],
        "metadata": [row.metadata for row in rows],
        "plan": [row.plan for row in rows],
        "version": [_ROW_VERSION] * len(rows),
    }
    sink = io.BytesIO()
    with rows_writer(sink) as writer:
        writer.write_table(pa.table(columns, schema=ROWS))
    return sink.getvalue()


def rows_writer(to: io.BytesIO | str) -> pq.ParquetWriter:
    """Writes history rows with Java's codec. Metadata may have megabytes, so it gets no statistics and dictionary."""
    return pq.ParquetWriter(
        to,
        ROWS,
        compression="gzip",
        use_dictionary=["action"],
        write_statistics=list(TEXTS),
        store_schema=False,
    )


def create_file(storage: Storage, times: tuple[str, str], level: int, data: bytes) -> ManifestEntry:
    """Create a history file named by its least and greatest request time, or adopt one with the same bytes.

    If another file has the name, the greatest time in it counts up: readers only skip files by their names (Hudi 1.2.0:
    LSMTimeline), so a range that is too wide is harmless. Raises TimelineError after a few names.
    """
    first, last = times
    for more in range(_TRIES_MAX):
        name = f"{first}_{int(last) + more:0{len(last)}d}_{level}.parquet"
        path = f"{HISTORY_DIRECTORY}/{name}"
        if create_or_get(storage, path, data) == data:
            return ManifestEntry(name, len(data))
    raise TimelineError(
        f"{storage.url}/{HISTORY_DIRECTORY}: {_TRIES_MAX} files named {first}_{last}_{level}.parquet or later have "
        "other content: delete those that no manifest names"
    )


def publish(storage: Storage, added: ManifestEntry, removed: Collection[str], check: Check) -> None:
    """Make a new history file count, in place of the removed ones. The caller holds the table's lock.

    Raises TimelineError if other writers without the lock keep taking the next manifest's number, or have deleted the
    file: Hudi's archiver deletes at once what no manifest names, and a manifest with an absent file stops all readers.
    """
    without = {added.name, *removed}
    for _ in range(_TRIES_MAX):
        current = load_manifest(storage)
        entries = [entry for entry in current.entries if entry.name not in without]
        files = [{"fileName": entry.name, "fileLen": entry.size} for entry in (*entries, added)]
        number = current.highest + 1
        path, content = manifest_path(number), json.dumps({"files": files}).encode()
        check()
        if not storage.exists(f"{HISTORY_DIRECTORY}/{added.name}"):
            break
        if create_or_get(storage, path, content) != content:
            continue
        check()
        publish_version(storage, number)
        return
    raise TimelineError(
        f"{storage.url}/{HISTORY_DIRECTORY}: other writers archive without the table's lock: give them the lock"
    )


def publish_version(storage: Storage, number: int) -> None:
    """Let `_version_` name at least this manifest. It is replaced in one step: Hudi's readers never find it missing."""
    content = str(number).encode()
    if not isinstance(storage, ConditionalStorage):
        _put_version(storage, number)
        return
    for _ in range(_TRIES_MAX):
        try:
            current, version = storage.get_versioned(VERSION_PATH)
            if int(current) < number:
                storage.replace(VERSION_PATH, content, version)
        except NotFound:
            if not created(storage, VERSION_PATH, content):
                continue
        except Changed:
            continue
        return
    raise TimelineError(f"{storage.url}/{VERSION_PATH}: other writers keep changing it: give them the table's lock")


def _put_version(storage: Storage, number: int) -> None:
    """Whoever was paused before the put must not hide what was archived meanwhile: it looks before and after."""
    written = 0
    while (highest := max([number, *manifest_numbers(history_names(storage))])) > written:
        storage.delete(_CHECKSUM)
        storage.put(VERSION_PATH, str(highest).encode())
        written = highest


def settle(storage: Storage, check: Check) -> None:
    """Publish what an interrupted archival left unpublished: its history files are complete. Under the table's lock."""
    manifest = load_manifest(storage)
    if manifest.number > manifest.published:
        check()
        publish_version(storage, manifest.number)
