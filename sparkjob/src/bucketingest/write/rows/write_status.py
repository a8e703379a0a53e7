"""What the write tasks report to the coordinator, as Arrow rows that the driver collects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, Final, Self

import pyarrow as pa

from bucketingest.hudi.naming import BaseFileName, LogFileName, join
from bucketingest.hudi.table.file_view import DataFile, FileSlice
from bucketingest.hudi.timeline.write_stat import WriteStat
from bucketingest.write.errors import IncompleteReport

NO_WRITE_TASK: Final = -1


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """What one handle wrote, or the report of a task without a file (`file_id` is ""). Sizes in bytes, else rows."""

    task: int
    """Number of the write task; `NO_WRITE_TASK` for rows that were rejected before the shuffle."""
    partition_path: str = ""
    bucket: int = -1
    file_id: str = ""
    file_name: str = ""
    size_bytes: int = 0
    blocks: int = 0
    rows_received: int = 0
    """Rows that arrived, rejected ones included."""
    upserts: int = 0
    """Rows in data blocks."""
    deletes: int = 0
    """Keys in delete blocks."""
    rejected: int = 0
    """Rows that became dead letters; `file_name` then names their file in the dead-letter table, if one was written."""
    sample: str = ""
    """For rejected rows: the first one's reason, for the error message or the log."""
    adopted: bool = False
    """Whether an earlier attempt had written the same rows under the file's name."""
    dropped: int = 0
    """Deletes of keys that are in no file group of an index with a state: there is nothing to delete."""
    new_rows: int = 0
    """Rows of a log file, deletes included, whose keys were in no file group of an index with a state."""
    moved: int = 0
    """In a task's first status: keys that moved to another partition."""
    older: int = 0
    """In a task's first status: rows that were older than that of their key in another partition, and are not written.
    """
    buffer_bytes: int = field(default=0, compare=False)
    """In a task's first status: the peak of its buffers. For metrics; the ledger does not keep it."""
    undecoded: int = field(default=0, compare=False)
    """In a task's first status: messages that are no rows and were left out before the shuffle. They are staged as dead
    letters afterwards, and counted there; the ledger does not keep this number.
    """

    @property
    def superseded(self) -> int:
        """Rows that another row of the same key in the same flush replaced."""
        return self.rows_received - self.upserts - self.deletes - self.dropped - self.rejected

    @property
    def inserts(self) -> int:
        """Rows in data blocks or a base file whose keys are new; several of one key count each."""
        is_base = BaseFileName.try_parse(self.file_name) is not None
        return self.upserts if is_base else min(self.new_rows, self.upserts)

    def to_write_stat(self) -> WriteStat:
        """The file as an entry of Hudi's commit metadata."""
        base = BaseFileName.try_parse(self.file_name)
        if base is not None:
            return WriteStat.of_base_file(self.partition_path, base, size=self.size_bytes, inserts=self.upserts)
        name = LogFileName.parse(self.file_name)
        return WriteStat.of_log_file(
            self.partition_path,
            name,
            size=self.size_bytes,
            inserts=self.inserts,
            updates=self.upserts - self.inserts,
            deletes=self.deletes,
        )

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """The status that `to_json` described. Fields of a newer release are ignored."""
        return cls(**{name: record[name] for name in _NAMES if name in record})

    def to_json(self) -> dict[str, Any]:
        """As a JSON object for the ledger."""
        kept = zip(_NAMES, _values(self), strict=True)
        return {name: value for name, value in kept if name not in _NOT_KEPT}


def new_keys_of(status: WriteStatus) -> FileSlice | None:
    """The written file, if it has new keys."""
    path = join(status.partition_path, status.file_name)
    base = BaseFileName.try_parse(status.file_name)
    if base is not None:
        return FileSlice(base.instant, DataFile(path, status.size_bytes, base), ())
    if not status.new_rows:
        return None
    name = LogFileName.parse(status.file_name)
    return FileSlice(name.instant, None, (DataFile(path, status.size_bytes, name),))


_NAMES: Final = tuple(each.name for each in fields(WriteStatus))
_values: Final = attrgetter(*_NAMES)
_NOT_KEPT: Final = frozenset({"buffer_bytes", "undecoded"})


STATUS_SCHEMA: Final = pa.schema(
    [
        (each.name, {"int": pa.int64(), "str": pa.string(), "bool": pa.bool_()}[str(each.type)])
        for each in fields(WriteStatus)
    ]
)
STATUS_DDL: Final = ", ".join(
    f"{each.name} {({'int': 'BIGINT', 'str': 'STRING', 'bool': 'BOOLEAN'})[str(each.type)]}"
    for each in fields(WriteStatus)
)


def statuses_to_arrow(statuses: Iterable[WriteStatus]) -> pa.RecordBatch:
    """One row per status, as `STATUS_SCHEMA`."""
    columns = _to_columns(list(statuses))
    arrays = [pa.array(column, kind) for column, kind in zip(columns, STATUS_SCHEMA.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=STATUS_SCHEMA)


def statuses_from_arrow(table: pa.Table) -> list[WriteStatus]:
    """The statuses that `statuses_to_arrow` made."""
    return _from_columns([table[name].to_pylist() for name in _NAMES])


def _to_columns(statuses: Sequence[WriteStatus]) -> list[list[Any]]:
    rows = [_values(status) for status in statuses]
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in _NAMES]


def _from_columns(columns: Sequence[Sequence[Any]]) -> list[WriteStatus]:
    return [WriteStatus(*values) for values in zip(*columns, strict=True)]


def check_complete(statuses: Sequence[WriteStatus], tasks: int) -> None:
    """Raise IncompleteReport unless each of the tasks 0 to tasks-1 has reported, and no file twice."""
    missing = set(range(tasks)) - {status.task for status in statuses}
    if missing:
        raise IncompleteReport(f"write tasks {sorted(missing)[:10]} of {tasks} have not reported; nothing is committed")
    files = Counter((status.partition_path, status.file_name) for status in statuses if status.file_id)
    doubled = [name for name, count in files.items() if count > 1]
    if doubled:
        raise IncompleteReport(f"two write tasks report the same file {doubled[0]}; nothing is committed")
    lost = [status for status in statuses if status.superseded < 0]
    if lost:
        raise IncompleteReport(f"a write task reports more rows written than received: {lost[0]}; nothing is committed")
