"""Carries out one operation of a compaction plan: its base file in storage, and what the commit says of it."""

from __future__ import annotations

import hashlib
import logging
import pathlib
import tempfile
from collections.abc import Callable
from contextlib import suppress

from bucketingest.hudi.errors import InvalidTable
from bucketingest.hudi.merge.merge_rules import MergeRules
from bucketingest.hudi.naming import BaseFileName, join
from bucketingest.hudi.plans.compaction_plan import CompactionOperation
from bucketingest.hudi.rollback.markers import create_marker
from bucketingest.hudi.table.partition import ensure_partition_metadata
from bucketingest.hudi.timeline.write_stat import WriteStat
from bucketingest.services.errors import RoundEnded
from bucketingest.services.merge.slice_merge import MergeStatistics, SliceInput, merge_slice, stored_merge
from bucketingest.storage import AlreadyExists, Storage

log = logging.getLogger(__name__)

MERGE_VERSION = 2
"""Counts up whenever the same inputs give other rows. 2: a round of a compaction leaves file groups out."""
_NO_COMMIT = "null"
"""What Hudi 1.2.0 writes for a slice without a base file: the text, not a null."""


def compact_group(
    storage: Storage,
    operation: CompactionOperation,
    compaction: str,
    rules: MergeRules,
    *,
    token: str,
    check: Callable[[], None] = lambda: None,
    too_late: Callable[[str], None] = lambda _path: None,
) -> WriteStat:
    """Merge the operation's slice into a base file of the compaction, its marker first; returns its write statistics.

    A base file of this name that another executor made of the same inputs is adopted. `compaction`: the compaction's
    request time. `token`: the write token in the file's name. `check` raises if the file must not be made any more;
    `too_late` is called with the path of a file that is there all the same. Raises as `merge_slice` and `check`, and
    InvalidTable for a file of this name with other inputs.
    """
    name = BaseFileName(operation.file_id, compaction, token)
    partition_path = operation.partition_path
    base_file = None if operation.base_file is None else join(partition_path, operation.base_file)
    logs = [join(partition_path, log) for log in operation.log_files]
    # Only completed log files are in a plan, and all of them completed before the compaction was requested.
    given = SliceInput(base_file, logs, compaction)
    path, digest = join(partition_path, str(name)), _digest(operation, rules)
    if not storage.exists(path):
        with tempfile.TemporaryDirectory(prefix="bucketingest-") as folder:
            scratch = pathlib.Path(folder) / "base.parquet"
            merge_slice(storage, given, rules, file_name=str(name), to=scratch, digest=digest)
            create_marker(storage, compaction, partition_path, str(name))
            ensure_partition_metadata(storage, partition_path, compaction)
            check()
            with suppress(AlreadyExists):
                storage.create(path, scratch)
        try:
            check()
        except RoundEnded:
            too_late(path)
            raise
    # From the stored object: of two executors, both then report the same.
    stored, done = stored_merge(storage, path)
    if stored != digest:
        raise InvalidTable(
            f"{storage.url}/{path} was made from other files or columns: its compaction needs a new round"
        )
    return _write_stat(operation, name, storage.head(path).size, done)


def prev_commit(operation: CompactionOperation) -> str:
    """The instant of the base file that the operation supersedes, as Hudi writes it."""
    return operation.base_instant if operation.base_file else _NO_COMMIT


def _digest(operation: CompactionOperation, rules: MergeRules) -> str:
    """Of everything that decides the rows of the base file."""
    inputs = (operation.base_file, operation.log_files, rules.schema, rules.ordering_field, rules.delete_marker)
    return hashlib.sha256(f"{MERGE_VERSION}\n{inputs}".encode()).hexdigest()


def _write_stat(operation: CompactionOperation, name: BaseFileName, size: int, done: MergeStatistics) -> WriteStat:
    return WriteStat(
        file_id=operation.file_id,
        path=join(operation.partition_path, str(name)),
        partition_path=operation.partition_path,
        prev_commit=prev_commit(operation),
        num_writes=done.rows,
        num_update_writes=done.updates,
        num_inserts=done.inserts,
        num_deletes=done.deletes,
        total_write_bytes=size,
        file_size_in_bytes=size,
        prev_base_file=operation.base_file,
        total_log_records=done.log_records,
        total_log_blocks=done.log_blocks,
        total_log_files_compacted=len(operation.log_files),
        total_log_size_compacted=done.log_bytes,
    )
