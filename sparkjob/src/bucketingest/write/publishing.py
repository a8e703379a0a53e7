"""Puts an object under the one name it has in its micro-batch, and tells a twin's equal object from a conflict.

A task that was retried or ran twice meets its twin's object under the same name. Equal rows: the twin's object is
adopted. Other rows: the micro-batch's input was not the same twice, and nothing of it may be committed.
"""

from __future__ import annotations

import pathlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from bucketingest.hudi.log_format import Buffer
from bucketingest.hudi.log_reader import read_log
from bucketingest.storage import AlreadyExists, Storage
from bucketingest.write.errors import ConflictingAttempt

SameRows: TypeAlias = Callable[[bytes, bytes], bool]


def create_or_adopt(storage: Storage, path: str, content: Sequence[Buffer] | pathlib.Path, same_rows: SameRows) -> bool:
    """Create the object, or adopt the one there if it holds the same rows. Returns whether it was adopted.

    A `content` that is a file is deleted afterwards. Raises ConflictingAttempt when the object there holds other rows.
    """
    try:
        storage.create(path, content if isinstance(content, pathlib.Path) else [memoryview(part) for part in content])
    except AlreadyExists:
        ours, theirs = _joined(content), storage.get(path)
        if ours == theirs or same_rows(ours, theirs):
            return True
        raise ConflictingAttempt(
            f"{storage.url}/{path} was written by another attempt of this micro-batch with other rows: the input is "
            "not the same when it is read again (a function such as rand() or current_timestamp() in transform.sql, or "
            "data lost at the source)"
        ) from None
    finally:
        if isinstance(content, pathlib.Path):
            content.unlink(missing_ok=True)
    return False


def same_log_rows(ours: bytes, theirs: bytes) -> bool:
    """Whether two log files hold the same rows and deletes, in whatever order and blocks."""
    return Counter(_log_rows(ours)) == Counter(_log_rows(theirs))


def _joined(content: Sequence[Buffer] | pathlib.Path) -> bytes:
    return content.read_bytes() if isinstance(content, pathlib.Path) else b"".join(memoryview(part) for part in content)


def _log_rows(data: bytes) -> Iterator[str]:
    for content in read_log(data):
        for row in content.rows.to_pylist() if content.rows is not None else ():
            row.pop("_hoodie_commit_seqno")  # counts rows in the order of their arrival
            yield repr(row)
        yield from map(repr, content.deletes)
