"""Looks at the data of one object without copying it: its buffers and its size."""

from __future__ import annotations

import contextlib
import mmap
import pathlib
from collections.abc import Iterator, Sequence

from bucketingest.storage.errors import InvalidLocation
from bucketingest.storage.interface import BytesLike, Data


@contextlib.contextmanager
def opened(data: Data) -> Iterator[list[memoryview]]:
    """The non-empty buffers of ``data``, valid inside the block. A local file is mapped, not read into memory."""
    if not isinstance(data, pathlib.Path):
        yield _flat([data] if isinstance(data, (bytes, bytearray, memoryview)) else data)
        return
    try:
        file = data.open("rb")
    except OSError as error:
        raise InvalidLocation(f"{data}: cannot read the local file to store: {error.strerror}") from error
    with file:
        size = file.seek(0, 2)
        if size == 0:  # An empty file cannot be mapped.
            yield []
            return
        # Not closed here: the store may still hold its buffer when the call ends; the last reference unmaps it.
        yield [memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ))]


def _flat(parts: Sequence[BytesLike]) -> list[memoryview]:
    views: list[memoryview] = []
    for part in parts:
        view = memoryview(part)
        if view.nbytes:
            views.append(view.cast("B") if view.format != "B" or view.ndim != 1 else view)
    return views
