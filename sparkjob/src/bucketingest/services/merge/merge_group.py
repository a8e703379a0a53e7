"""Makes the base file of one operation of a plan, and what the commit says of it."""

from __future__ import annotations

import hashlib
import pathlib
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from bucketingest.hudi.errors import InvalidTable
from bucketingest.hudi.merge.merge_rules import MergeRules
from bucketingest.hudi.naming import BaseFileName, join
from bucketingest.hudi.plans.compaction_plan import CompactionOperation
from bucketingest.hudi.rollback.markers import create_marker
from bucketingest.hudi.table.partition import ensure_partition_metadata
from bucketingest.hudi.timeline.write_stat import WriteStat
from bucketingest.services.errors import RoundEnded
from bucketingest.services.merge.slice_merge import MergeStatistics, SliceInput, merge_slices, stored_merge
from bucketingest.storage import AlreadyExists, Storage

MERGE_VERSION = 2
"""Counts up whenever the same inputs give other rows. 2: a round of a compaction leaves file groups out."""
_NO_COMMIT = "null"
"""What Hudi 1.2.0 writes for a slice without a base file: the text, not a null."""


def make_base_file(
    storage: Storage,
    partition_path: str,
    name: BaseFileName,
    slices: Sequence[SliceInput],
    rules: MergeRules,
    *,
    before: Callable[[pathlib.Path, MergeStatistics], None],
    check: Callable[[], None],
    too_late: Callable[[str], None],
) -> tuple[WriteStat, MergeStatistics]:
    """Merge slices, which have no key in common, into a base file; what a commit says of it, and what the merge did.

    A base file of this name that another executor made of the same inputs is adopted. `before`: called before it is
    put, with the file on the local disk. `check` raises if it must not be made any more; `too_late` is called with the
    path of a file that is there all the same. Raises as `merge_slices` and the calls, and InvalidTable for a file of
    this name with other inputs.
    """
    path, digest = join(partition_path, str(name)), _digest(slices, rules)
    if not storage.exists(path):
        with tempfile.TemporaryDirectory(prefix="bucketingest-") as folder:
            scratch = pathlib.Path(folder) / "base.parquet"
            done = merge_slices(storage, slices, rules, file_name=str(name), to=scratch, digest=digest)
            before(scratch, done)
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
    size = storage.head(path).size
    stat = WriteStat(
        file_id=name.file_id,
        path=path,
        partition_path=partition_path,
        prev_commit=_NO_COMMIT,
        num_writes=done.rows,
        num_deletes=done.deletes,
        total_write_bytes=size,
        file_size_in_bytes=size,
        total_log_records=done.log_records,
        total_log_blocks=done.log_blocks,
        total_log_files_compacted=sum(len(each.log_files) for each in slices),
        total_log_size_compacted=done.log_bytes,
    )
    return stat, done


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

    `compaction`: the compaction's request time. `token`: the write token in the file's name. See `make_base_file`.
    """
    name, partition_path = BaseFileName(operation.file_id, compaction, token), operation.partition_path

    def before(_scratch: pathlib.Path, _done: MergeStatistics) -> None:
        create_marker(storage, compaction, partition_path, str(name))
        ensure_partition_metadata(storage, partition_path, compaction)

    # Only completed log files are in a plan, and all of them completed before the compaction was requested.
    given = SliceInput.of(partition_path, operation.base_file, operation.log_files, compaction)
    stat, done = make_base_file(
        storage, partition_path, name, [given], rules, before=before, check=check, too_late=too_late
    )
    return replace(
        stat,
        prev_commit=prev_commit(operation),
        num_update_writes=done.updates,
        num_inserts=done.inserts,
        prev_base_file=operation.base_file,
    )


def prev_commit(operation: CompactionOperation) -> str:
    """The instant of the base file that the operation supersedes, as Hudi writes it."""
    return operation.base_instant if operation.base_file else _NO_COMMIT


def _digest(slices: Sequence[SliceInput], rules: MergeRules) -> str:
    """Of everything that decides the rows of the base file."""
    fills = (rules.fills,) if rules.fills else ()
    inputs = (tuple(slices), rules.schema, rules.ordering_field, rules.delete_marker, *fills)
    return hashlib.sha256(f"{MERGE_VERSION}\n{inputs}".encode()).hexdigest()
