"""Merges one file slice into a base file, in two phases, so that the rows are never in memory together.

First the winner of each key among the log files is decided, on keys and ordering values alone. Then the base file is
streamed without the rows that lose, and the log files are read again for the rows that win.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from bucketingest.hudi.base.base_file import BaseFileWriter
from bucketingest.hudi.errors import InvalidTable
from bucketingest.hudi.merge.base_reader import batches, open_base, read_footer
from bucketingest.hudi.merge.log_records import LogRecords
from bucketingest.hudi.merge.merge_rules import MergeRules
from bucketingest.hudi.naming import join
from bucketingest.hudi.table.schema import META_COLUMNS
from bucketingest.services.merge.filling import filled_rows
from bucketingest.services.merge.outcome import DEFAULT_LIMITS, Limits, Outcome, decide
from bucketingest.storage.interface import Storage

_FILE_NAME: Final = META_COLUMNS[4]
_STATISTICS: Final = "bucketingest.statistics"
_DIGEST: Final = "bucketingest.operation"
"""Our own keys in a base file's footer."""


@dataclass(frozen=True, slots=True)
class SliceInput:
    """The files of one slice; paths relative to the table's root."""

    base_file: str | None
    log_files: Sequence[str]
    """In the order in which readers merge them."""
    newest_instant: str
    """Blocks of later instants are left out: the newest completed instant of the table."""

    @classmethod
    def of(cls, partition_path: str, base_file: str | None, log_files: Iterable[str], newest_instant: str) -> Self:
        """Of the names of files in one partition."""
        base = None if base_file is None else join(partition_path, base_file)
        return cls(base, tuple(join(partition_path, name) for name in log_files), newest_instant)


@dataclass(frozen=True, slots=True)
class MergeStatistics:
    """What a merge did, relative to the old base file; in rows, records and bytes as in Hudi's write statistics."""

    rows: int
    inserts: int
    updates: int
    deletes: int
    log_records: int
    log_blocks: int
    log_bytes: int


def merge_slices(
    storage: Storage,
    slices: Sequence[SliceInput],
    rules: MergeRules,
    *,
    file_name: str,
    to: pathlib.Path,
    digest: str = "",
    limits: Limits = DEFAULT_LIMITS,
) -> MergeStatistics:
    """Write the rows of slices, which have no key in common, as a base file named `file_name` to the local path `to`.
    Its footer has the statistics and the `digest` of what was merged. One slice after the other, so that memory does
    not grow with their number but by a byte for each row.

    Raises CorruptLog, and UnsupportedTable for blocks that only Hudi can merge.
    """
    decided = []
    for files in slices:
        logs = LogRecords(storage, files.log_files, rules, files.newest_instant)
        decided.append((files, logs, decide(storage, files.base_file, logs, limits)))
    # What the keys took is given back before rows take as much.
    pa.default_memory_pool().release_unused()
    with BaseFileWriter(
        to,
        rules.schema,
        file_name,
        row_group_rows=limits.row_group_rows,
        row_group_bytes=limits.row_group_bytes,
        filtered_keys=sum(outcome.rows for *_, outcome in decided) if rules.bloom_filter else None,
    ) as out:
        for files, logs, outcome in decided:
            for rows in _rows(storage, files, logs, outcome, limits):
                out.write(rows)
        out.flush()
        done = MergeStatistics(
            out.rows,
            sum(outcome.inserts for *_, outcome in decided),
            sum(outcome.updates for *_, outcome in decided),
            sum(outcome.deletes for *_, outcome in decided),
            sum(logs.total for _, logs, _ in decided),
            sum(logs.blocks for _, logs, _ in decided),
            sum(logs.size_bytes for _, logs, _ in decided),
        )
        out.finish({_STATISTICS: json.dumps(asdict(done)), _DIGEST: digest})
    return done


def stored_merge(storage: Storage, path: str) -> tuple[str, MergeStatistics]:
    """The digest and the statistics in the footer of a base file that `merge_slices` wrote.

    Raises InvalidTable for a base file of another writer.
    """
    footer = read_footer(storage, path).metadata or {}
    try:
        return footer[_DIGEST.encode()].decode(), MergeStatistics(**json.loads(footer[_STATISTICS.encode()]))
    except (KeyError, ValueError, TypeError) as error:
        raise InvalidTable(f"{storage.url}/{path} is a base file of another writer: {error!r}") from error


def is_ours(footer: pq.FileMetaData) -> bool:
    """Whether `merge_slices` wrote the base file with this footer."""
    return _DIGEST.encode() in (footer.metadata or {})


def rows_of_slice(
    storage: Storage, files: SliceInput, rules: MergeRules, limits: Limits = DEFAULT_LIMITS
) -> Iterator[pa.Table]:
    """The rows that a reader of the slice sees, in any order, each part with the columns that its file has. Raises as
    `merge_slices` does.
    """
    logs = LogRecords(storage, files.log_files, rules, files.newest_instant)
    yield from _rows(storage, files, logs, decide(storage, files.base_file, logs, limits), limits)


def _rows(
    storage: Storage, files: SliceInput, logs: LogRecords, outcome: Outcome, limits: Limits
) -> Iterator[pa.Table]:
    first = 0
    if files.base_file is not None:
        with open_base(storage, files.base_file) as base:
            columns = [name for name in base.schema_arrow.names if name != _FILE_NAME]
            for batch in batches(base, columns, rows=limits.batch_rows, size_bytes=limits.batch_bytes):
                lost = outcome.replaced[first : first + len(batch)]
                first += len(batch)
                yield pa.Table.from_batches([batch.filter(pa.array(~lost)) if lost.any() else batch])
    yield from filled_rows(storage, files.base_file, logs, outcome.rows_to_write, limits)
