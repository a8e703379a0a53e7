"""Writes a task's rejected rows into staged files of the dead-letter table, which are then published, or discarded.

Which rejected rows share a file depends on the number of tasks, and so on the attempt. Each attempt stages its own
files. Once the instant has completed, the files that its ledger names are published, and a reader sees each rejected
row once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from typing import Final

import pyarrow as pa

from bucketingest.storage import Storage, created, get_if_there, open_storage
from bucketingest.write.dead_letters.rejected import DEAD_LETTER_SCHEMA, dead_letter_file
from bucketingest.write.pipeline_names import directory_name
from bucketingest.write.plan import WritePlan
from bucketingest.write.rows.write_status import NO_WRITE_TASK, WriteStatus, statuses_to_arrow

_FILE_BYTES_MAX: Final = 16 * 1024**2
"""Bytes of rejected rows above which a file is finished and the next one started."""
_DIGEST_CHARACTERS: Final = 16


def write_dead_letters(batches: Iterable[pa.RecordBatch], plan: WritePlan, task: int) -> Iterator[pa.RecordBatch]:
    """Stage rows (columns of the dead-letter table, some may be absent) that failed before the shuffle. Yields write
    statuses.
    """
    writer = DeadLetterWriter(plan, f"decode-{task}", NO_WRITE_TASK)
    for batch in batches:
        if batch.num_rows:
            writer.write(_completed(batch, plan.instant_time))
    if statuses := writer.close():
        yield statuses_to_arrow(statuses)


class DeadLetterWriter:
    """Collects rejected rows into files `<instant>_<sequence>_<origin>_<number>_<digest>.parquet`.

    The digest is of the content: files with the same name have the same content, whichever task wrote them.
    """

    def __init__(self, plan: WritePlan, origin: str, task: int) -> None:
        self._plan = plan
        self._origin = origin
        self._task = task
        self._rows: list[pa.RecordBatch] = []
        self._bytes = 0
        self._statuses: list[WriteStatus] = []

    def write(self, rows: pa.RecordBatch) -> None:
        """Take rows of `DEAD_LETTER_SCHEMA`."""
        self._rows.append(rows)
        self._bytes += rows.nbytes
        if self._bytes > _FILE_BYTES_MAX:
            self._finish_file()

    def close(self) -> list[WriteStatus]:
        """Finish the last file; returns a status per file."""
        self._finish_file()
        return self._statuses

    def _finish_file(self) -> None:
        if not self._rows:
            return
        table = pa.Table.from_batches(self._rows, schema=DEAD_LETTER_SCHEMA)
        self._rows, self._bytes = [], 0
        name, size, adopted = "", 0, False
        if self._plan.dead_letters_url is not None:
            content = dead_letter_file(table)
            digest = hashlib.sha256(content).hexdigest()[:_DIGEST_CHARACTERS]
            part = f"{self._origin}_{len(self._statuses)}_{digest}"
            name = f"{self._plan.instant_time}_{self._plan.sequence}_{part}.parquet"
            storage = open_storage(self._plan.dead_letters_url, self._plan.storage_options)
            path = staged_path(self._plan.pipeline, self._plan.instant_time, name)
            adopted, size = not created(storage, path, content), len(content)
        self._statuses.append(
            WriteStatus(
                task=self._task,
                file_name=name,
                size_bytes=size,
                rows_received=table.num_rows,
                rejected=table.num_rows,
                sample=_sample(table),
                adopted=adopted,
            )
        )


def _completed(batch: pa.RecordBatch, instant_time: str) -> pa.RecordBatch:
    count = batch.num_rows
    columns = []
    for field in DEAD_LETTER_SCHEMA:
        if field.name == "instant":
            columns.append(pa.array([instant_time] * count, pa.string()))
        elif field.name in batch.schema.names:
            columns.append(batch.column(field.name).cast(field.type))
        else:
            columns.append(pa.nulls(count, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=DEAD_LETTER_SCHEMA)


def _sample(table: pa.Table) -> str:
    """Why the row was rejected, and where it came from. Not its content: that must not be in logs."""
    reason, detail, topic, partition, offset = (
        table[name][0].as_py() for name in ("reason", "detail", "topic", "partition", "offset")
    )
    where = "" if offset is None else f" ({topic}, partition {partition}, offset {offset})"
    return f"{reason}: {detail}{where}"


STAGING_DIRECTORY: Final = ".staging"


def staged_path(pipeline: str, instant_time: str, name: str = "") -> str:
    """Where a dead-letter file waits until its instant has completed, relative to the dead-letter table."""
    return f"{STAGING_DIRECTORY}/{directory_name(pipeline)}/{instant_time}/{name}".rstrip("/")


def publish(storage: Storage, pipeline: str, instant_time: str, names: Iterable[str]) -> None:
    """Make the staged files of a completed instant visible. It may be repeated, also after a crash in the middle."""
    for name in names:
        staged = staged_path(pipeline, instant_time, name)
        content = get_if_there(storage, staged)
        if content is None:
            continue  # published before
        storage.put(name, content)
        storage.delete(staged)


def withdraw(storage: Storage, instants: Collection[str]) -> list[str]:
    """Delete the published files of these instants; returns their names. Every file's name starts with its instant."""
    paths = [info.path for info in storage.list_level("").objects if info.path.partition("_")[0] in instants]
    storage.delete_many(paths)
    return paths


def staged_instants(storage: Storage, pipeline: str) -> list[str]:
    """Request times of the instants that have staged files."""
    level = storage.list_level(f"{STAGING_DIRECTORY}/{directory_name(pipeline)}")
    return sorted(path.rpartition("/")[2] for path in level.directories)


def discard(storage: Storage, pipeline: str, instant_time: str) -> None:
    """Delete the staged files of an instant."""
    storage.delete_many([info.path for info in storage.list(staged_path(pipeline, instant_time))])
