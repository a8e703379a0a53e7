"""Rows that are read twice, the second time when all of them are known: on scratch disk as far as memory is short."""

from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

BATCH_BYTES: Final = 4 * 1024**2
"""Of rows that are copied and written at a time."""


@dataclass(slots=True)
class SpilledRows:
    """Rows in the order of their arrival. Not shared between threads."""

    schema: pa.Schema
    count: int = 0
    buffered_bytes: int = 0
    """Bytes of Arrow buffers that are not on scratch disk."""
    _rows: list[pa.RecordBatch] = field(default_factory=list)
    _files: list[pathlib.Path] = field(default_factory=list)

    def append(self, rows: pa.RecordBatch, size_bytes: int) -> None:
        """Take rows of the schema, and the bytes of memory they hold."""
        self._rows.append(rows)
        self.buffered_bytes += size_bytes
        self.count += rows.num_rows

    def flush(self) -> None:
        """Move the buffered rows to scratch disk: the memory is needed."""
        if not self._rows:
            return
        path = scratch_file(".arrow")
        self._files.append(path)
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, self.schema) as writer:
            for rows in self._rows:
                writer.write_batch(rows)
        self._rows.clear()
        self.buffered_bytes = 0

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All rows, or these columns of them, many at a time: messages are so small that each would cost more than its
        rows. Again from the first each time.
        """
        pending: list[pa.RecordBatch] = []
        pending_bytes = 0
        for message in self._messages() if columns is None else (each.select(columns) for each in self._messages()):
            pending.append(message)
            pending_bytes += message.nbytes
            if pending_bytes >= BATCH_BYTES:
                yield pa.concat_batches(pending)
                pending, pending_bytes = [], 0
        if pending:
            yield pa.concat_batches(pending)

    def _messages(self) -> Iterator[pa.RecordBatch]:
        for path in self._files:
            with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
                for number in range(reader.num_record_batches):
                    yield reader.get_batch(number)
        yield from self._rows

    def forget(self) -> None:
        """Drop all rows, and their files."""
        for path in self._files:
            path.unlink(missing_ok=True)
        self._files.clear()
        self._rows.clear()
        self.buffered_bytes = self.count = 0


def scratch_file(suffix: str) -> pathlib.Path:
    """A new file on scratch disk, which the caller deletes."""
    descriptor, name = tempfile.mkstemp(prefix="bucketingest-", suffix=suffix)
    os.close(descriptor)
    return pathlib.Path(name)
