"""Makes the base files of a merge of file groups, in the process beside the job."""

from __future__ import annotations

import json
import logging
import os
import pathlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow.parquet as pq

from bucketingest.hudi.errors import InvalidTable
from bucketingest.hudi.lock.clocks import forward_seconds
from bucketingest.hudi.merge.merge_rules import MergeRules, merge_rules
from bucketingest.hudi.naming import join
from bucketingest.hudi.table.schema import META_COLUMNS, avro_to_arrow, with_meta_columns
from bucketingest.hudi.table.table import load_table
from bucketingest.hudi.timeline.write_stat import WriteStat
from bucketingest.index.state.hashing import SEED_BYTES, KeyHasher
from bucketingest.index.state.store import keeps_state
from bucketingest.services.errors import RoundEnded
from bucketingest.services.merge.failures import fails_alone, reason_of
from bucketingest.services.merge.slice_merge import MergeStatistics, SliceInput, merge_slices
from bucketingest.services.regroup.journal import MergeJournal
from bucketingest.services.regroup.records import MergePlan, NewGroup, NewGroupResult
from bucketingest.storage import Storage

log = logging.getLogger(__name__)

DEADLINE_SECONDS: Final = 300.0
"""So long a merge takes at most: other writers must not archive the instants since its time meanwhile."""
ROWS_MAX: Final = 20_000_000
"""Of a new group: their keys are compared with each other in memory, 8 bytes each."""
_KEY: Final = META_COLUMNS[2]
_BATCH_ROWS: Final = 256 * 1024


def make_base_files(
    storage: Storage, number: int, *, forward: Callable[[], float] = forward_seconds, rows_max: int = ROWS_MAX
) -> int:
    """Make the base files of the merge of this number, and record what was made; returns how many could not be.

    A new group that cannot be made fails alone: its old ones stay. Raises RoundEnded if the merge was decided, or takes
    too long; InvalidTable if it has no plan; StorageError.
    """
    journal = MergeJournal(storage)
    plan = journal.plan(number)
    if plan is None:
        raise InvalidTable(f"{storage.url}/{journal.path(number, 'plan')} is missing")
    schema = avro_to_arrow(with_meta_columns(json.loads(plan.schema)))
    table = load_table(storage)
    rules = merge_rules(table, schema, bloom_filter=keeps_state(table))
    maker = _Maker(storage, journal, number, plan, rules, rows_max, forward, forward() + DEADLINE_SECONDS)
    results = [maker.result(each) for each in plan.new_groups]
    maker.check()
    journal.put_results(number, results)
    return sum(each.stat is None for each in results)


@dataclass(frozen=True, slots=True)
class _Maker:
    storage: Storage
    journal: MergeJournal
    number: int
    plan: MergePlan
    rules: MergeRules
    rows_max: int
    forward: Callable[[], float]
    ends_at: float

    def check(self) -> None:
        """Raise RoundEnded if nobody waits for the files any more."""
        if self.journal.decision(self.number) is not None:
            raise RoundEnded(f"merge {self.number} of file groups has been decided")
        if self.forward() > self.ends_at:
            raise RoundEnded(f"merge {self.number} of file groups takes longer than {DEADLINE_SECONDS:.0f} s")

    def result(self, new: NewGroup) -> NewGroupResult:
        """Make one base file."""
        self.check()
        try:
            return NewGroupResult(self._made(new))
        except Exception as error:
            if not fails_alone(error):
                raise
            failed = reason_of(error)
        extra = {"partition": new.partition_path, "file_groups": len(new.slices), "reason": failed}
        log.error("file groups not merged, they stay", extra=extra)
        return NewGroupResult(None, failed)

    def _made(self, new: NewGroup) -> WriteStat:
        instant, path = self.plan.instant, new.path(self.plan.instant)
        slices = [
            SliceInput(
                None if each.base_file is None else join(new.partition_path, each.base_file),
                [join(new.partition_path, name) for name in each.log_files],
                max(self.plan.known),  # all log files are of completed instants
            )
            for each in new.slices
        ]
        with tempfile.TemporaryDirectory(prefix="bucketingest-") as folder:
            scratch = pathlib.Path(folder) / "base.parquet"
            done = merge_slices(self.storage, slices, self.rules, file_name=new.file_name(instant), to=scratch)
            self._check_keys(scratch, done, new)
            size = scratch.stat().st_size
            self.check()
            self.storage.create(path, scratch)
        try:
            self.check()
        except RoundEnded:
            self.storage.delete(path)
            raise
        return WriteStat(
            file_id=new.file_id,
            path=path,
            partition_path=new.partition_path,
            prev_commit="null",  # the text, as in Hudi's statistics of a new file group
            num_writes=done.rows,
            num_deletes=done.deletes,
            total_write_bytes=size,
            file_size_in_bytes=size,
            total_log_records=done.log_records,
            total_log_blocks=done.log_blocks,
            total_log_files_compacted=sum(len(each.log_files) for each in new.slices),
            total_log_size_compacted=done.log_bytes,
        )

    def _check_keys(self, scratch: pathlib.Path, done: MergeStatistics, new: NewGroup) -> None:
        """Refuse keys that are twice in the new group: readers do not merge rows within a base file."""
        if done.rows > self.rows_max:
            raise InvalidTable(f"{new.partition_path}: {done.rows} rows are more than {self.rows_max} for a merge")
        hasher, hashes, filled = KeyHasher(os.urandom(SEED_BYTES)), np.empty(done.rows, np.uint64), 0
        with pq.ParquetFile(scratch) as file:
            for batch in file.iter_batches(_BATCH_ROWS, columns=[_KEY], use_threads=False):
                found = hasher.hash(batch.column(0)).hashes
                hashes[filled : filled + len(found)] = found
                filled += len(found)
        hashes.sort()
        if twice := int((hashes[1:] == hashes[:-1]).sum()):
            raise InvalidTable(
                f"{self.storage.url}, partition {new.partition_path!r}: {twice} keys are in two of the file groups to "
                "merge; find them with `bucketingest inspect`"
            )
