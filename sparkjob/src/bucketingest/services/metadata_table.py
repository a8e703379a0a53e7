"""Keeps Hudi's metadata table off the table: a commit that it does not list is hidden from readers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from bucketingest.hudi.errors import InvalidTable, TimelineError, UnsupportedTable
from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.naming import PROPERTIES_PATH
from bucketingest.hudi.rollback.rollback import Lock
from bucketingest.hudi.table.checks import version_refusals
from bucketingest.hudi.table.metadata_table import (
    DROPPED_AT,
    delete_files,
    switch_off,
    switched_on,
)
from bucketingest.hudi.table.table import HoodieTable, load_table
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import DELTA_COMMIT, RESTORE, ROLLBACK, SAVEPOINT, Instant
from bucketingest.hudi.timeline.instant_time import parse_time
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.storage import NotFound, Storage
from bucketingest.write.pipeline_names import PIPELINE

log = logging.getLogger(__name__)

_BETWEEN_DROPS: Final = timedelta(hours=1)
_NEVER_IN_THE_WAY: Final = (ROLLBACK, SAVEPOINT, RESTORE)


class MetadataTableDrop:
    """Drops the metadata table of a table under the table's lock. Call it at a start, and around each commit."""

    def __init__(self, storage: Storage, lock: Lock, clock: Callable[[], datetime] = utc_now) -> None:
        """`lock`: makes a context that holds Hudi's lock of the table; a thread that holds it may enter it again."""
        self._storage = storage
        self._lock = lock
        self._clock = clock

    def __call__(self, _: Storage | None = None) -> None:
        """Afterwards the metadata table was off at some moment during the call.

        Raises UnsupportedTable if another writer is at work or has upgraded the table, or if it is on again within an
        hour: then a writer keeps switching it on, and a reader between two drops misses commits.
        """
        properties = load_table(self._storage).properties
        if reasons := version_refusals(properties):
            raise UnsupportedTable(self._storage.url, reasons)
        if switched_on(properties):
            with self._lock():
                self._drop(load_table(self._storage))

    def at_start(self) -> None:
        """The same, and what an earlier drop left is deleted: Hudi would build a new metadata table on top of it.

        Not at each commit: a writer without a lock may be just building one, whose files come before the property.
        """
        self()
        if DROPPED_AT not in load_table(self._storage).properties:
            return
        with self._lock():
            off = not switched_on(load_table(self._storage).properties)
            if off and not self._other_writers() and (count := delete_files(self._storage)):
                log.warning("files of the dropped metadata table deleted", extra={"files": count})

    def _drop(self, table: HoodieTable) -> None:
        found = switched_on(table.properties)
        if not found:
            return
        reasons = [*self._dropped_lately(table), *self._other_writers()]
        if reasons:
            raise UnsupportedTable(self._storage.url, reasons)
        try:
            switch_off(self._storage, self._clock())
        except TimelineError as error:
            raise UnsupportedTable(self._storage.url, [str(error)]) from error
        log.warning("metadata table dropped", extra={"properties": found, "files": delete_files(self._storage)})

    def _dropped_lately(self, table: HoodieTable) -> list[str]:
        before = table.properties.get(DROPPED_AT)
        if before is None:
            return []
        try:
            ago = self._clock() - parse_time(before)
        except ValueError as error:
            message = f"{self._storage.url}/{PROPERTIES_PATH}: {DROPPED_AT} is {before!r}, not an instant time"
            raise InvalidTable(message) from error
        if abs(ago) >= _BETWEEN_DROPS:
            return []
        reason = (
            f"{PROPERTIES_PATH}: Hudi's metadata table was dropped at {before} and is on again: a writer switched "
            f"it on; set hoodie.metadata.enable=false there, remove {DROPPED_AT} from the file, and start again"
        )
        return [reason]

    def _other_writers(self) -> list[str]:
        pending = [each for each in Timeline.load(self._storage).pending if each.action not in _NEVER_IN_THE_WAY]
        return [
            f"Hudi's metadata table is not dropped while another writer is at work: its instant {each.file_name} is "
            "pending; start again when it has ended, or roll it back"
            for each in pending
            if not self._is_ours(each)
        ]

    def _is_ours(self, pending: Instant) -> bool:
        if pending.action != DELTA_COMMIT:
            return False
        path = path_of(pending)
        try:
            return PIPELINE in CommitMetadata.decode_extra(self._storage.get(path), path)
        except NotFound:  # it has just completed
            return False
