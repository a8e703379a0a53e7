"""Reads a base file from storage in batches of bounded size: a base file is larger than the memory of a merge."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from bucketingest.services.merge.base_file import REPEATED
from bucketingest.storage.interface import Storage

_BUFFER_BYTES = 1024**2
_SAMPLE_ROWS = 1024


def open_base(storage: Storage, path: str) -> pq.ParquetFile:
    """The base file at `path`, nothing of it read but its footer. Use it as a context."""
    file = _ObjectFile(storage, path)
    return pq.ParquetFile(file, buffer_size=_BUFFER_BYTES, pre_buffer=False, read_dictionary=list(REPEATED))


def read_footer(storage: Storage, path: str) -> pq.FileMetaData:
    """The footer of any Parquet file."""
    with pq.ParquetFile(_ObjectFile(storage, path)) as file:
        return file.metadata


def batches(base: pq.ParquetFile, columns: Sequence[str], *, rows: int, size_bytes: int) -> Iterator[pa.RecordBatch]:
    """All rows in order. A batch has at most `rows`, and about `size_bytes` in Arrow's form.

    The file's first rows say how large a row is: the footer does not, as it counts repeated values once.
    """
    sample = next(base.iter_batches(_SAMPLE_ROWS, columns=columns, use_threads=False), None)
    if sample is None:
        return
    of_row = max(1, sample.nbytes // len(sample))
    yield from base.iter_batches(max(1, min(rows, size_bytes // of_row)), columns=columns, use_threads=False)


class _ObjectFile(io.RawIOBase):
    """An object as a file that can be read at any place."""

    def __init__(self, storage: Storage, path: str) -> None:
        self._storage = storage
        self._path = path
        self._size = storage.head(path).size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = start + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        wanted = self._size - self._position if size < 0 else size
        data = self._storage.get_range(self._path, self._position, wanted) if wanted else b""
        self._position += len(data)
        return data
