"""The table while this job holds its lease: what guards each change of its timeline, and who makes such changes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Self

from bucketingest.catalog.keeper import CatalogKeeper
from bucketingest.hudi.errors import UnsupportedTable
from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.lock.hudi_lock import HudiLock, open_lock
from bucketingest.hudi.rollback.rollback import Lock
from bucketingest.hudi.table.checks import refuse_changed_table
from bucketingest.hudi.table.table import load_table
from bucketingest.lease.guard import lease_and_lock
from bucketingest.lease.table_lease import TableLease
from bucketingest.services.clustering.holder import ClusteringHolder
from bucketingest.services.clustering.inline import InlineClustering
from bucketingest.services.compact_now import compact_now
from bucketingest.services.compaction.choose import CompactionTriggers
from bucketingest.services.compaction.holder import CompactionHolder
from bucketingest.services.errors import PlanOutdated
from bucketingest.services.inline import InlineServices
from bucketingest.services.inline import Start as StartWorker
from bucketingest.services.metadata_table import MetadataTableDrop
from bucketingest.services.worker import Tidy
from bucketingest.services.worker_process import WorkerProcess
from bucketingest.storage import Storage, open_storage
from bucketingest.stream.pipeline import Pipeline
from bucketingest.stream.report.board import ProgressBoard
from bucketingest.write.coordinator import InstantCoordinator
from bucketingest.write.coordinator_api import CoordinatorSettings
from bucketingest.write.open_table import OpenTable

log = logging.getLogger(__name__)

_EVERYTHING: Final = CompactionTriggers(log_files=1, log_age=timedelta(0))
_PLANS_MAX: Final = 100
_MERGING: Final = "log files are merged before columns change"


@dataclass(frozen=True, slots=True)
class HeldTable:
    """The table, and what guards each change of its timeline."""

    pipeline: Pipeline
    lease: TableLease
    storage: Storage
    lock: Lock
    check_lease: Callable[[], None]
    check_unchanged: Callable[[Storage], None]

    @classmethod
    def of(cls, pipeline: Pipeline, opened: OpenTable, lease: TableLease, board: ProgressBoard) -> Self:
        """An open table. `board`: where waits for its lock are recorded."""
        sleep = recorded_sleep(board.waited_for_lock)
        lock = open_lock(opened.storage, opened.table.properties, pipeline.lock, str(lease.owner), sleep=sleep)
        drop = MetadataTableDrop(opened.storage, lock.held)
        check = drop if pipeline.drops_metadata_table else refuse_changed_table
        return cls(pipeline, lease, opened.storage, lock.held, lease_and_lock(lease, lock), check)

    def coordinator(self, opened: OpenTable, *, tasks: int, work: str, repeatable: bool) -> InstantCoordinator:
        """Drives the pipeline's instants. `work`: all that decides which rows tasks write, and their bytes."""
        pipeline = self.pipeline
        letters = pipeline.dead_letters_url
        settings = CoordinatorSettings(
            pipeline=pipeline.name,
            tasks=tasks,
            max_retries=pipeline.max_commit_retries,
            dead_letters=None if letters is None else open_storage(letters, pipeline.storage_options),
            commit_interval=pipeline.commit_interval,
            max_files=pipeline.max_files,
            lock=self.lock,
            check_lease=self.check_lease,
            work=work,
            repeatable=repeatable,
            open_letters=lambda url: open_storage(url, pipeline.storage_options),
            check_unchanged=self.check_unchanged,
        )
        return InstantCoordinator(opened, settings)

    def services(
        self,
        board: ProgressBoard,
        catalogs: Sequence[CatalogKeeper],
        *,
        between: Callable[[], bool],
        start: StartWorker = WorkerProcess,
    ) -> InlineServices:
        """The table services beside the query. `between`: whether none of the pipeline's instants is open. `start`:
        starts their process.
        """
        pipeline = self.pipeline
        lease_id = self.lease.lease_id
        tidy = Tidy(self.storage, pipeline.retention, pipeline.archive, pipeline.lock, lease_id, pipeline.name)
        triggers = pipeline.clustering
        before = board.snapshot().services
        clustering = None if triggers is None else InlineClustering(self.storage, self.clustering(), triggers)
        return InlineServices(
            self.storage,
            self._compaction(),
            pipeline.compaction,
            tidy=tidy,
            policy=pipeline.services,
            clustering=clustering,
            between=between,
            start=start,
            lets_clean=lambda superseded_at: all(each.lets_clean(superseded_at) for each in catalogs),
            report=lambda now: board.services(now.after(before)),
        )

    def clustering(self) -> ClusteringHolder:
        """Takes the steps of a clustering."""
        return ClusteringHolder(self.storage, self.lock, self.check_lease, check_unchanged=self.check_unchanged)

    def _compaction(self) -> CompactionHolder:
        return CompactionHolder(self.storage, self.lock, self.check_lease, check_unchanged=self.check_unchanged)

    def merge_logs(self, opened: OpenTable, *, tasks: int) -> None:
        """End what earlier attempts left open, then merge all log files into base files, as far as another writer's
        pending service lets us. Raises what a start and a compaction raise.
        """
        self.clustering().start()
        coordinator = self.coordinator(opened, tasks=tasks, work=_MERGING, repeatable=True)
        coordinator.start()
        coordinator.give_up(_MERGING)
        try:
            for _ in range(_PLANS_MAX):  # a plan has so many file groups at most
                if not compact_now(self.storage, self._compaction(), _EVERYTHING, utc_now):
                    return
        except (PlanOutdated, UnsupportedTable) as error:  # which log files are left is looked at next
            log.warning("log files could not be merged", extra={"reason": str(error)})


def drop_of(storage: Storage, pipeline: Pipeline, lease: TableLease) -> Callable[[], None] | None:
    """Drops Hudi's metadata table under the table's lock; None if a table with it is refused."""
    if not pipeline.drops_metadata_table:
        return None

    def drop() -> None:
        MetadataTableDrop(storage, lock_of(storage, pipeline, lease).held).at_start()

    return drop


def lock_of(storage: Storage, pipeline: Pipeline, lease: TableLease) -> HudiLock:
    """The lock that the table's own properties name."""
    return open_lock(storage, load_table(storage).properties, pipeline.lock, str(lease.owner))


def recorded_sleep(record: Callable[[float], None]) -> Callable[[float], None]:
    """A sleep that records its length afterwards."""

    def sleep(seconds: float) -> None:
        time.sleep(seconds)
        record(seconds)

    return sleep
