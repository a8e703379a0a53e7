"""Reads a base file from storage in batches of bounded size: a base file is larger than the memory of a merge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from bucketingest.hudi.base.base_file import REPEATED
from bucketingest.storage.interface import Storage
from bucketingest.storage.object_file import ObjectFile

_BUFFER_BYTES = 1024**2
_SAMPLE_ROWS = 1024


def open_base(storage: Storage, path: str) -> pq.ParquetFile:
    """The base file at `path`, nothing of it read but its footer. Use it as a context."""
    file = ObjectFile(storage, path)
    return pq.ParquetFile(
        file,
        buffer_size=_BUFFER_BYTES,
        pre_buffer=False,
        read_dictionary=list(REPEATED),
        page_checksum_verification=True,  # a damaged page may decode, and a merge would make it the table's
    )


def read_footer(storage: Storage, path: str) -> pq.FileMetaData:
    """The footer of any Parquet file."""
    with pq.ParquetFile(ObjectFile(storage, path), page_checksum_verification=True) as file:
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
