"""Puts an object under the one name it has in its micro-batch, and distinguishes a twin's equal object from a conflict.

A task that was retried or ran twice finds its twin's object under the same name. With the same rows, the twin's object
is adopted. Mostly its bytes are the same; a replayed micro-batch of Kafka can have its partitions, and so its rows, in
another order (Spark 4.2, seen). With other rows, the micro-batch's input has changed, and its instant is not committed.
An object may be larger than memory, so none is ever held whole.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from bucketingest.hudi.log.format import Buffer
from bucketingest.hudi.log.reader import read_log
from bucketingest.storage import AlreadyExists, NotFound, Storage
from bucketingest.write.errors import ConflictingAttempt

CHUNK_BYTES: Final = 1024**2
"""Most bytes of the existing object that are read at a time."""
_ROWS: Final = 1024
"""Rows that are Python objects at a time while rows are compared."""


def create_or_adopt(storage: Storage, path: str, content: Sequence[Buffer] | pathlib.Path) -> int | None:
    """Create the object, or adopt the existing one if it holds the same rows: then returns its size in bytes.

    A `content` that is a file is deleted afterwards. Raises ConflictingAttempt if the existing object holds other rows.
    """
    try:
        storage.create(path, content if isinstance(content, pathlib.Path) else [memoryview(part) for part in content])
    except AlreadyExists:
        with tempfile.TemporaryFile(prefix="bucketingest-") as existing, _file_of(content) as own:
            size = _copy(storage, path, existing)
            if size is not None and _same_rows(own, existing, is_base=path.endswith(".parquet")):
                return size
        raise ConflictingAttempt(
            f"{storage.url}/{path} was written by another attempt of this micro-batch with other rows: the input is "
            "not the same when it is read again (a function such as rand() in transform.sql, or data lost at the "
            "source)"
        ) from None
    finally:
        if isinstance(content, pathlib.Path):
            content.unlink(missing_ok=True)
    return None


def _file_of(content: Sequence[Buffer] | pathlib.Path) -> BinaryIO:
    if isinstance(content, pathlib.Path):
        return content.open("rb")
    file = tempfile.TemporaryFile(prefix="bucketingest-")  # noqa: SIM115 - the caller closes it
    file.writelines(memoryview(part).cast("B") for part in content)
    return file


def _copy(storage: Storage, path: str, to: BinaryIO) -> int | None:
    """Copy an object piece by piece; its size, None if it is gone, because it was rolled back. A short piece is the
    last: a further look could find another object under the name, such as the empty one that closes it.
    """
    try:
        while to.write(storage.get_range(path, to.tell(), CHUNK_BYTES)) == CHUNK_BYTES:
            pass
    except NotFound:
        return None
    return to.tell()


def _same_rows(own: BinaryIO, existing: BinaryIO, *, is_base: bool) -> bool:
    own.flush()
    existing.flush()
    if own.seek(0, os.SEEK_END) == existing.seek(0, os.SEEK_END):
        own.seek(0)
        existing.seek(0)
        if all(a == b for a, b in zip(_pieces(own), _pieces(existing), strict=True)):
            return True
    texts = _texts_of_base if is_base else _texts_of_log
    return _digest(own, texts) == _digest(existing, texts)


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    return iter(lambda: file.read(CHUNK_BYTES), b"")


def _digest(file: BinaryIO, texts: Callable[[BinaryIO], Iterator[str]]) -> tuple[int, int]:
    """How many rows and deletes a file has, and a sum over them that does not depend on their order or blocks."""
    if not file.seek(0, os.SEEK_END):
        return 0, 0
    count = total = 0
    for text in texts(file):
        count += 1
        total += int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest())
    return count, total % 2**128


def _texts_of_log(log: BinaryIO) -> Iterator[str]:
    """A text for each row and delete. Blocks are read from the mapped file one after the other."""
    for content in read_log(mmap.mmap(log.fileno(), 0, access=mmap.ACCESS_READ)):
        for batch in () if content.rows is None else content.rows.to_batches(_ROWS):
            yield from _texts_of_rows(batch)
        yield from map(repr, content.deletes)


def _texts_of_base(file: BinaryIO) -> Iterator[str]:
    """A text for each row of a base file."""
    file.seek(0)
    for batch in pq.ParquetFile(file, page_checksum_verification=True).iter_batches(_ROWS, use_threads=False):
        yield from _texts_of_rows(batch)


def _texts_of_rows(batch: pa.RecordBatch) -> Iterator[str]:
    for row in batch.to_pylist():
        row.pop("_hoodie_commit_seqno")  # counts rows in the order of their arrival
        yield repr(row)
