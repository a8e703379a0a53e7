"""Adopts the base file that another writer made of our plan, where the files of the plan are no longer there.

A writer that took our compaction for dead may have made its base files, deleted the files that they replace, and have
died before it completed the compaction. The rows of the file group are then nowhere but in its base file.
"""

from __future__ import annotations

import logging

import pyarrow as pa
import pyarrow.parquet as pq

from bucketingest.hudi.merge.base_reader import read_footer
from bucketingest.hudi.naming import BaseFileName, parse_data_file_name, split
from bucketingest.hudi.plans.compaction_plan import CompactionOperation
from bucketingest.hudi.table.file_view import list_data
from bucketingest.hudi.timeline.write_stat import WriteStat
from bucketingest.services.merge.merge_group import prev_commit
from bucketingest.services.merge.slice_merge import is_ours
from bucketingest.storage import NotFound, Storage

log = logging.getLogger(__name__)
_RECORD_KEY = "_hoodie_record_key"


def adopted_base_file(storage: Storage, operation: CompactionOperation, compaction: str) -> WriteStat | None:
    """Write statistics of the newest whole base file that another writer made in the operation's file group for the
    compaction; None if there is none. `compaction`: its request time. Raises StorageError.
    """
    found = []
    for info in list_data(storage, [operation.partition_path]):
        name = parse_data_file_name(split(info.path)[1])
        if isinstance(name, BaseFileName) and (name.file_id, name.instant) == (operation.file_id, compaction):
            found.append(info)
    for info in sorted(found, key=lambda each: each.modified, reverse=True):
        footer = footer_of(storage, info.path)
        if footer is None or is_ours(footer) or _RECORD_KEY not in footer.schema.names:
            continue
        extra = {"path": info.path, "rows": footer.num_rows, "compaction": compaction}
        log.warning("base file of another writer adopted: the files that it replaces are gone", extra=extra)
        return WriteStat(
            file_id=operation.file_id,
            path=info.path,
            partition_path=operation.partition_path,
            prev_commit=prev_commit(operation),
            num_writes=footer.num_rows,
            total_write_bytes=info.size,
            file_size_in_bytes=info.size,
            prev_base_file=operation.base_file,
            total_log_files_compacted=len(operation.log_files),
        )
    return None


def footer_of(storage: Storage, path: str) -> pq.FileMetaData | None:
    """The footer of a base file; None if the file is not there, or half of one: Hudi writes the footer last."""
    try:
        return read_footer(storage, path)
    except (pa.ArrowException, NotFound):
        return None
