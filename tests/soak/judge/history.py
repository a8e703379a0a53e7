"""What Hudi's archival took off the timeline, with what each instant said: archived instants still count.

The history holds the exact bytes of the completed files, so nothing is lost to a judge who was not looking.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from bucketingest.hudi.history.archived import history_files
from bucketingest.hudi.naming import HISTORY_DIRECTORY
from bucketingest.hudi.rollback.plan import rolled_back_instants
from bucketingest.hudi.timeline.instant import ROLLBACK, Instant, State
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.storage import Storage


@dataclass(frozen=True, slots=True)
class Archived:
    """An instant in the history. `content`: that of its completed file."""

    instant: Instant
    content: bytes


def archived(storage: Storage) -> list[Archived]:
    """Every archived instant by request time; one that an interrupted archival wrote twice is listed once."""
    found: dict[tuple[str, str], Archived] = {}
    for file in history_files(storage):
        path = f"{HISTORY_DIRECTORY}/{file.name}"
        columns = ["instantTime", "completionTime", "action", "metadata"]
        history = pq.ParquetFile(pa.BufferReader(storage.get(path)), pre_buffer=False)
        for row in history.read(columns=columns, use_threads=False).to_pylist():
            instant = Instant(row["instantTime"], row["action"], State.COMPLETED, row["completionTime"])
            found[instant.key] = Archived(instant, row["metadata"] or b"")
    return [found[key] for key in sorted(found)]


def with_history(active: Timeline, history: list[Archived]) -> Timeline:
    """The timeline as if nothing had ever been archived."""
    instants = {instant.key: instant for instant in active.instants}
    instants |= {each.instant.key: each.instant for each in history}
    return Timeline(tuple(sorted(instants.values(), key=lambda each: (each.request_time, each.action))))


def archived_rollback_targets(history: list[Archived]) -> frozenset[str]:
    """Request times of the instants that archived rollbacks name."""
    rollbacks = [each for each in history if each.instant.action == ROLLBACK]
    return frozenset(
        target for each in rollbacks for target in rolled_back_instants(each.content, each.instant.file_name)
    )
