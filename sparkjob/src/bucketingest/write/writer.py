"""Writes Arrow tables to a Hudi table in this process, without Spark: for tests, for embedding, and for bulk loads.

It is the same write path as the job's: the map tasks' packing, the write tasks and the coordinator. Only the engine
between them is replaced, by a sort and a filter in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.hudi.errors import SchemaError
from bucketingest.hudi.lock.hudi_lock import LockSettings, open_lock
from bucketingest.hudi.table.table import TableDefinition, load_table
from bucketingest.hudi.timeline.heartbeat import beating
from bucketingest.lease.guard import LEASE_MARGIN, lease_and_lock
from bucketingest.lease.record import LeaseOwner
from bucketingest.lease.table_lease import TableLease
from bucketingest.storage import open_storage
from bucketingest.write.coordinator import InstantCoordinator
from bucketingest.write.coordinator_api import Assignment, Commit, CoordinatorSettings, MicroBatchOutcome
from bucketingest.write.errors import InstantAborted, PositionLost
from bucketingest.write.instants.source_range import SourceRange
from bucketingest.write.moving.key_owner import own_keys
from bucketingest.write.open_table import OpenTable, check_definition, open_table
from bucketingest.write.plan import WritePlan
from bucketingest.write.rows.bucket_writer import write_task
from bucketingest.write.rows.fitting import fitted
from bucketingest.write.rows.shuffle import SHUFFLE_ORDER, SHUFFLE_SCHEMA, pack
from bucketingest.write.rows.write_status import WriteStatus, statuses_from_arrow

_TASKS: Final = 2
_BATCH_ROWS: Final = 65_536
_RETRIES: Final = 5
_ROUNDS_MAX: Final = 3
"""How often a call is written, each time in a new instant: the second time with the keys of all its partitions."""
_NO_INTERVAL: Final = timedelta(days=365)
"""`commit` says when an instant is committed."""


@dataclass(frozen=True, slots=True)
class _Given:
    """What a writer was opened with, for the plans of its tasks."""

    pipeline: str
    storage_options: Mapping[str, str]
    memory_bytes: int
    deleted: str | None

    def plan(self, opened: OpenTable, assignment: Assignment) -> WritePlan:
        """What the tasks of one call are given."""
        return opened.plan(
            assignment,
            pipeline=self.pipeline,
            tasks=_TASKS,
            memory_bytes=self.memory_bytes,
            storage_options=self.storage_options,
        )


class Writer:
    """Writes to one table, and holds its lease: no job of the project writes beside it. Build it with `open`; not
    shared between threads.

    Each call of `write` takes one table of rows, in order. `commit` makes all since the last one visible at once. After
    `open`, `position` says how many calls are in the table: a caller who gives the same tables in the same order
    continues there, and each row is there once.
    After SchemaError, which comes before anything is written, it goes on. After any other error it only closes: open
    it again.
    """

    def __init__(self, opened: OpenTable, coordinator: InstantCoordinator, lease: TableLease, given: _Given) -> None:
        self._opened = opened
        self._coordinator = coordinator
        self._lease = lease
        self._given = given
        self._ended = ""
        """Why nothing more is written: what was in the open instant may be gone."""
        self._beating = ExitStack()
        """Keeps the heartbeat of the open instant, so that no Hudi writer takes it for a dead one."""

    @classmethod
    def open(
        cls,
        url: str,
        definition: TableDefinition,
        schema: pa.Schema,
        *,
        name: str,
        deleted: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        memory_bytes: int = 256 * 1024**2,
        lock: LockSettings | None = None,
        lease_wait: timedelta = timedelta(seconds=60),
    ) -> Self:
        """Open the table, or create it, and take its lease. What a writer that was killed left open is committed if all
        its calls had ended, else rolled back: `position` says which.

        Args:
            url: The table's place, such as `s3://lake/orders` or a path.
            definition: What the table must be.
            schema: Columns of the rows. New ones become columns of the table.
            name: Of this pipeline: its calls are counted in the table. No other pipeline of the table has this name.
            deleted: A boolean column of `schema`: where it is true, the row's key is deleted.
            storage_options: As for `open_storage`.
            memory_bytes: For the rows of open file groups.
            lock: How the lock is taken that the table's properties name.
            lease_wait: How long to wait for a job or another writer that holds the lease.

        Raises TableLeased, SchemaError, and as `open_table` does. Columns that need log files to be merged first are
        refused: run `bucketingest compact`.
        """
        check_definition(definition, schema)
        if deleted is not None and deleted not in schema.names:
            raise SchemaError(f"deleted names column {deleted}, which schema lacks: no row would be deleted")
        storage = open_storage(url, storage_options)
        lease = TableLease.acquire(storage, LeaseOwner(name), wait=lease_wait)
        settings = lock or LockSettings()
        try:
            opened = open_table(
                storage,
                definition,
                schema,
                has_deletes=deleted is not None,
                lock=lambda: open_lock(storage, load_table(storage).properties, settings, str(lease.owner)).held(),
                check_lease=lambda: lease.check(LEASE_MARGIN),
            )
            held = open_lock(storage, opened.table.properties, settings, str(lease.owner))
            coordinator = InstantCoordinator(
                opened,
                CoordinatorSettings(
                    pipeline=name,
                    tasks=_TASKS,
                    max_retries=_RETRIES,
                    dead_letters=None,
                    commit_interval=_NO_INTERVAL if definition.state is None else None,
                    lock=held.held,
                    check_lease=lease_and_lock(lease, held),
                ),
            )
            lease.set_epoch(coordinator.epoch)
            coordinator.start()
            if coordinator.inflight is not None:
                coordinator.give_up("its writer ended before it committed")
                coordinator.start()
        except BaseException:  # also by a stop signal
            lease.release()
            raise
        return cls(opened, coordinator, lease, _Given(name, dict(storage_options or {}), memory_bytes, deleted))

    @property
    def position(self) -> int:
        """How many calls of `write` there were: what earlier writers of this name committed, and this writer's. Raises
        PositionLost after an error.
        """
        self._refuse_ended()
        position = self._coordinator.position
        return 0 if position is None else position.batch_id + 1

    def write(self, rows: pa.Table) -> MicroBatchOutcome:
        """Write the rows, in their order, into the open instant: readers see them after `commit`. All are in memory.

        With an index with a state each call is an instant, and commits.

        Raises SchemaError before anything is written. Raises RowsRejected if a row has no key or cannot be placed:
        the instant is rolled back. Raises LeaseLost, PositionLost and InstantAborted if another writer took the table
        or rolled the instant back, ColumnsChanged if it added columns, PositionLost after an error, and what storage
        raises.
        """
        number, position = self.position, self._coordinator.position
        prepared = fitted(rows, self._opened.row_schema, self._given.deleted)
        start = None if position is None else position.end
        source_range = SourceRange("checkpoint", start, str(number), query_id="writer", batch_id=number)
        with self._ending():
            outcome = self._run(prepared, source_range)
        if outcome.commit is None and outcome.instant_time is not None:
            self._beating.close()
            self._beating.enter_context(beating(self._opened.storage, outcome.instant_time))
        return outcome

    def _run(self, rows: pa.Table, source_range: SourceRange) -> MicroBatchOutcome:
        for rounds_left in reversed(range(_ROUNDS_MAX)):
            try:
                return self._coordinator.run(
                    source_range, lambda assignment: run_tasks(rows, self._given.plan(self._opened, assignment))
                )
            except InstantAborted:  # in it was nothing but this call, or the next round raises PositionLost
                if not rounds_left:
                    raise
        raise AssertionError("the last round returns or raises")

    def commit(self) -> Commit | None:
        """Make the rows visible, all at once; None if there are none. Raises PositionLost if the instant was rolled
        back, and after an error; FencedOut and LeaseLost, and what storage raises.
        """
        self._refuse_ended()
        self._beating.close()
        with self._ending():
            return self._coordinator.commit_open()

    @contextmanager
    def _ending(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:  # also by a stop signal
            self._ended = f"ended with {type(error).__name__}"
            self._beating.close()
            raise

    def _refuse_ended(self) -> None:
        if self._ended:
            raise PositionLost(
                f"{self._opened.storage.url}: the writer {self._ended}, and what it had not committed may not be in "
                "the table: open it again, and go on at position"
            )

    def close(self) -> None:
        """Roll back what is not committed, and release the lease. May be repeated."""
        self._beating.close()
        try:
            if self._coordinator.inflight is not None:
                self._ended = self._ended or "was closed before it committed"
                self._coordinator.give_up("its writer was closed before it committed")
        finally:
            self._lease.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.commit()
        finally:
            self.close()


def run_tasks(
    rows: pa.Table, plan: WritePlan, *, map_tasks: int = 1, batch_rows: int = _BATCH_ROWS
) -> list[WriteStatus]:
    """All tasks of a micro-batch in this process, one after the other: pack, shuffle, write; what the write tasks
    report. Columns of the rows: the plan's. `batch_rows`: rows of a batch in which a map task gets its share.
    """
    return write_packed(list(_packed(rows, plan, map_tasks, batch_rows)), plan)


def write_packed(packed: Sequence[pa.RecordBatch], plan: WritePlan) -> list[WriteStatus]:
    """All tasks from the shuffle on, in this process. `packed`: what all map tasks send."""
    sent = at_owners(pa.Table.from_batches(packed, SHUFFLE_SCHEMA), plan)
    statuses: list[WriteStatus] = []
    for task in range(plan.tasks):
        written = write_task(share_of(task, sent), plan, task)
        statuses += statuses_from_arrow(pa.Table.from_batches(written))
    return statuses


def at_owners(sent: pa.Table, plan: WritePlan) -> pa.Table:
    """After the shuffle to the owners of keys, in a table in which a key is in one partition only; else unchanged."""
    if not plan.is_global:
        return sent
    owned = [each for task in range(plan.tasks) for each in own_keys(share_of(task, sent), plan, task)]
    return pa.Table.from_batches(owned, SHUFFLE_SCHEMA)


def share_of(task: int, sent: pa.Table) -> list[pa.RecordBatch]:
    """What the shuffle hands to one write task, in its order."""
    share = sent.filter(pc.equal(sent["route"], task))
    return share.sort_by([(name, "ascending") for name in SHUFFLE_ORDER]).to_batches()


def _packed(rows: pa.Table, plan: WritePlan, map_tasks: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
    share = -(-rows.num_rows // map_tasks)
    for task in range(map_tasks):
        yield from pack(rows.slice(task * share, share).to_batches(batch_rows), plan, task)
