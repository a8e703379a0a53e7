"""Makes the base files of a clustering, in the process beside the job."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow.parquet as pq

from bucketingest.hudi.errors import InvalidTable
from bucketingest.hudi.lock.clocks import forward_seconds
from bucketingest.hudi.merge.merge_rules import merge_rules
from bucketingest.hudi.naming import BaseFileName
from bucketingest.hudi.table.schema import META_COLUMNS, avro_to_arrow, with_meta_columns
from bucketingest.hudi.table.table import load_table
from bucketingest.hudi.timeline.write_stat import WriteStat
from bucketingest.index.state.hashing import SEED_BYTES, KeyHasher
from bucketingest.index.state.store import keeps_state
from bucketingest.services.clustering.records import ClusteringJournal, NewGroup
from bucketingest.services.errors import RoundEnded
from bucketingest.services.merge.merge_group import make_base_file
from bucketingest.services.merge.slice_merge import MergeStatistics, SliceInput
from bucketingest.services.protocol.executor import Executor
from bucketingest.storage import Storage

DEADLINE_SECONDS: Final = 300.0
"""So long it takes at most: other writers must not archive the instants since its time meanwhile."""
ROWS_MAX: Final = 20_000_000
"""Of a new group: their keys are compared with each other in memory, 8 bytes each."""
_KEY: Final = META_COLUMNS[2]
_BATCH_ROWS: Final = 256 * 1024


class ClusteringExecutor(Executor):
    """Makes the base files of the new groups; they are one chunk."""

    def __init__(
        self,
        storage: Storage,
        number: int,
        *,
        forward: Callable[[], float] = forward_seconds,
        rows_max: int = ROWS_MAX,
    ) -> None:
        """`forward`: seconds by a clock that cannot be set. Raises InvalidTable if there is no plan."""
        journal = ClusteringJournal(storage)
        plan = journal.plan(number)
        if plan is None:
            raise InvalidTable(f"{storage.url}/{journal.path(number, 'plan')} is missing")
        super().__init__(journal, number, [range(len(plan.new_groups))])
        self._storage = storage
        self._plan = plan
        table = load_table(storage)
        schema = avro_to_arrow(with_meta_columns(json.loads(plan.schema)))
        self._rules = merge_rules(table, schema, bloom_filter=keeps_state(table))
        self._rows_max = rows_max
        self._forward = forward
        self._ends_at = forward() + DEADLINE_SECONDS

    def check(self) -> None:
        """Raise RoundEnded if it was decided, or takes too long."""
        if self._journal.decision(self._number) is not None:
            raise RoundEnded(f"clustering {self._number} has been decided")
        if self._forward() > self._ends_at:
            raise RoundEnded(f"clustering {self._number} takes longer than {DEADLINE_SECONDS:.0f} s")

    def _make(self, place: int) -> WriteStat:
        new = self._plan.new_groups[place]
        newest = max(self._plan.known)  # all log files are of completed instants
        slices = [SliceInput.of(new.partition_path, each.base_file, each.log_files, newest) for each in new.slices]
        stat, _ = make_base_file(
            self._storage,
            new.partition_path,
            BaseFileName(new.file_id, self._plan.instant),
            slices,
            self._rules,
            before=lambda scratch, done: self._check_keys(scratch, done, new),
            check=self.check,
            too_late=self._storage.delete,
        )
        return stat

    def _named(self, place: int) -> dict[str, object]:
        new = self._plan.new_groups[place]
        return {"partition": new.partition_path, "file_groups": len(new.slices)}

    def _left_out(self, _: int) -> None:
        return None

    def _check_keys(self, scratch: pathlib.Path, done: MergeStatistics, new: NewGroup) -> None:
        """Refuse keys that are twice in the new group: readers do not merge rows within a base file."""
        if done.rows > self._rows_max:
            raise InvalidTable(f"{new.partition_path}: {done.rows} rows are more than {self._rows_max} for a new group")
        hasher, hashes, filled = KeyHasher(os.urandom(SEED_BYTES)), np.empty(done.rows, np.uint64), 0  # noqa: TID251 - the result does not depend on it
        with pq.ParquetFile(scratch, page_checksum_verification=True) as file:
            for batch in file.iter_batches(_BATCH_ROWS, columns=[_KEY], use_threads=False):
                found = hasher.hash(batch.column(0)).hashes
                hashes[filled : filled + len(found)] = found
                filled += len(found)
        hashes.sort()
        if twice := int((hashes[1:] == hashes[:-1]).sum()):
            raise InvalidTable(
                f"{self._storage.url}, partition {new.partition_path!r}: {twice} keys are in two of the file groups to "
                "merge; find them with `bucketingest inspect`"
            )
