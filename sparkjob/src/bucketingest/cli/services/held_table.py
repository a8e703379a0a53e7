"""A table that a command holds while it carries out a table service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from bucketingest.cli.table_options import lock_provider, storage_options
from bucketingest.hudi.lock.hudi_lock import LockSettings, open_lock
from bucketingest.hudi.table.table import load_table
from bucketingest.lease.guard import lease_and_lock
from bucketingest.lease.record import SERVICES_OWNER, LeaseOwner
from bucketingest.lease.table_lease import TableLease
from bucketingest.services.clustering.holder import ClusteringHolder
from bucketingest.services.protocol.holder import Guarded
from bucketingest.storage import Storage, open_storage
from bucketingest.write.recovery.command import refuse_unsupported


@dataclass(frozen=True, slots=True)
class TableChoice:
    """The table that a command line names."""

    url: str
    lock: str = "auto"
    """Which of Hudi's locks is taken while the timeline is changed."""
    storage_options: tuple[str, ...] = ()
    """Each of the form name=value."""

    def open(self) -> Storage:
        """Its storage. Raises TableNotFound, UnsupportedTable, and typer's BadParameter."""
        storage = open_storage(self.url, storage_options(self.storage_options))
        refuse_unsupported(load_table(storage))
        return storage


@contextmanager
def held(choice: TableChoice) -> Iterator[Guarded]:
    """Hold the table's lease, so that no job writes to it. Raises TableLeased: it names the holder."""
    with leased(choice.open(), LockSettings(lock_provider(choice.lock))) as (table, _):
        yield table


@contextmanager
def leased(storage: Storage, settings: LockSettings) -> Iterator[tuple[Guarded, str]]:
    """The same for an open table; also the lease's id."""
    lock = open_lock(storage, load_table(storage).properties, settings, "bucketingest table services")
    with TableLease.acquire(storage, LeaseOwner(SERVICES_OWNER), wait=timedelta(0)) as lease:
        table = Guarded(storage, lock.held, lease_and_lock(lease, lock))
        ClusteringHolder(storage, table.lock, table.check).start()  # as each job does before it changes anything
        yield table, lease.lease_id
