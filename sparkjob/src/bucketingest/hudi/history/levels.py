"""Keeps the archived history short: small history files become larger ones, and old ones go.

The rules are those of Hudi 1.2.0 (LSMTimelineWriter.compactAndClean), whose files it may merge further.
"""

from __future__ import annotations

import logging
import pathlib
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from datetime import datetime, timedelta
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from bucketingest.hudi.errors import InvalidTable
from bucketingest.hudi.history.manifest import (
    ManifestEntry,
    history_names,
    load_manifest,
    manifest_numbers,
    manifest_path,
    read_manifest,
)
from bucketingest.hudi.history.writer import ROWS, TEXTS, Check, create_file, publish, rows_writer
from bucketingest.hudi.naming import HISTORY_DIRECTORY
from bucketingest.hudi.rollback.rollback import Lock
from bucketingest.storage import Storage

log = logging.getLogger(__name__)

_FILE_NAME: Final = re.compile(r"(\d+)_(\d+)_(\d)\.parquet")
"""Hudi's pattern: the level has one digit."""
_LEVEL_MAX: Final = 9
_FILES: Final = 10
_BYTES_MAX: Final = 128 * 1024**2
_BATCH_ROWS: Final = 16
"""A row has the metadata of a whole commit, up to some megabytes."""
KEPT_MANIFESTS: Final = 3
KEPT_FOR: Final = timedelta(hours=1)
"""How long a reader may take between the version file and the last history file."""


def files_to_merge(
    entries: Sequence[ManifestEntry], files: int = _FILES, bytes_max: int = _BYTES_MAX
) -> tuple[ManifestEntry, ...]:
    """The oldest files of the lowest level that has `files` of them, together of at most `bytes_max`; else none. Pure.

    They follow each other in time: a file that is too large to be merged with the next one is passed over.
    """
    levels: defaultdict[int, list[ManifestEntry]] = defaultdict(list)
    for entry in entries:
        if match := _FILE_NAME.fullmatch(entry.name):
            levels[int(match[3])].append(entry)
    for level in sorted(levels):
        if level < _LEVEL_MAX and len(levels[level]) >= files:
            for run in _runs(sorted(levels[level], key=lambda entry: entry.name), files, bytes_max):
                if len(run) > 1:
                    return tuple(run)
    return ()


def _runs(entries: Sequence[ManifestEntry], files: int, bytes_max: int) -> Iterator[list[ManifestEntry]]:
    run: list[ManifestEntry] = []
    for entry in entries:
        if run and (len(run) == files or sum(each.size for each in run) + entry.size > bytes_max):
            yield run
            run = []
        run.append(entry)
    yield run


def merge_level(storage: Storage, check: Check, lock: Lock = nullcontext) -> bool:
    """Merge files of one level into one of the next; whether that was done. The lock is held only to store the result.

    A row that is there twice is kept once. Memory is that of the largest source file. Raises NotFound if another
    archiver deletes a source meanwhile.
    """
    sources = files_to_merge(load_manifest(storage).entries)
    if not sources:
        return False
    matches = [match for match in (_FILE_NAME.fullmatch(entry.name) for entry in sources) if match]
    times = min(match[1] for match in matches), max(match[2] for match in matches)
    with tempfile.TemporaryDirectory(prefix="bucketingest-") as folder:
        merged = pathlib.Path(folder) / "merged.parquet"
        _merge(storage, sources, str(merged))
        content = merged.read_bytes()
    with lock():
        check()
        if not set(sources) <= set(load_manifest(storage).entries):
            return False  # another archiver has merged them
        entry = create_file(storage, times, int(matches[0][3]) + 1, content)
        publish(storage, entry, {source.name for source in sources}, check)
    return True


def _merge(storage: Storage, sources: Sequence[ManifestEntry], to: str) -> None:
    seen: set[tuple[str, ...]] = set()
    with rows_writer(to) as writer:
        for source in sources:
            data = storage.get(f"{HISTORY_DIRECTORY}/{source.name}")
            history = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False, page_checksum_verification=True)
            for batch in history.iter_batches(_BATCH_ROWS, columns=ROWS.names, use_threads=False):
                keys = list(zip(*(batch.column(name).to_pylist() for name in TEXTS), strict=True))
                new = [number for number, key in enumerate(keys) if key not in seen]
                seen.update(keys)
                if new:
                    rows = pa.Table.from_batches([batch]).select(ROWS.names).take(new)
                    writer.write_table(rows.cast(ROWS))


def delete_obsolete(storage: Storage, now: datetime) -> int:
    """Delete manifests that no reader needs, then history files that no manifest names any more; returns how many.

    The newest three manifests stay, and whatever is younger than an hour. Under the table's lock.
    """
    objects = storage.list_level(HISTORY_DIRECTORY).objects
    old = {info.path for info in objects if now - info.modified > KEPT_FOR}
    names = {info.path.rpartition("/")[2] for info in objects}
    current = load_manifest(storage)
    numbers = sorted(manifest_numbers(names), reverse=True)
    doomed = [
        manifest_path(number)
        for number in numbers[KEPT_MANIFESTS:]
        if number < min(current.published, current.number) and manifest_path(number) in old
    ]
    storage.delete_many(doomed)
    # Listed again: a manifest of an archival without the lock may have come meanwhile.
    left = manifest_numbers(history_names(storage))
    try:
        named = {entry.name for number in left for entry in read_manifest(storage, number)}
    except InvalidTable as error:  # an archival that died while it wrote it; it goes when it is old
        log.warning("history files stay", extra={"reason": str(error)})
        return len(doomed)
    files = [
        f"{HISTORY_DIRECTORY}/{name}"
        for name in sorted(names - named)
        if _FILE_NAME.fullmatch(name) and f"{HISTORY_DIRECTORY}/{name}" in old
    ]
    storage.delete_many(files)
    return len(doomed) + len(files)
