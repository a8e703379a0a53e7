"""One file of the source, in the version that a listing showed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import translate
from typing import Any, Final, Self

from bucketingest.spec.rules.source import HIDDEN
from bucketingest.storage import ObjectInfo, SkippingStorage, Storage

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file. Files are read in the order of (modified, path)."""

    path: str
    """Below the source's directory."""
    size: int
    modified: int
    """Microseconds since 1970, by the store's clock."""
    version: str
    """Another one: the file was changed."""

    @property
    def place(self) -> tuple[int, str]:
        """By which files are ordered."""
        return self.modified, self.path

    def to_json(self) -> list[Any]:
        """For the log."""
        return [self.path, self.size, self.modified, self.version]

    @classmethod
    def from_json(cls, record: list[Any]) -> Self:
        """What `to_json` made."""
        return cls(*record)


def source_file(info: ObjectInfo, *, is_local: bool) -> SourceFile:
    """Of a listing's entry. A store's etag says more than its clock, whose steps are seconds; a disk's has the number
    of the file on it, which a copy of all files to another disk changes.
    """
    modified = (info.modified - _EPOCH) // _MICROSECOND
    version = f"{info.size}-{modified}" if is_local or info.etag is None else info.etag
    return SourceFile(info.path, info.size, modified, version)


def is_local(storage: Storage) -> bool:
    """Whether files are on a file system."""
    return "://" not in storage.url


def listed(storage: Storage, *, start_after: str | None = None, pattern: str | None = None) -> Iterator[SourceFile]:
    """Every file below the directory, in no order, but those with a name or directory that begins with `_` or `.`, and
    objects of a store without a byte: most are marks of directories, whose keys end with a slash that we do not see.

    `start_after`: only paths behind this one, in the order of their UTF-8 bytes. `pattern`: of names of files, as
    Hadoop's are.
    """
    local = is_local(storage)
    hidden = re.compile(HIDDEN)
    wanted = None if pattern is None else re.compile("|".join(map(translate, _choices(pattern))))
    after = None if start_after is None else start_after.encode()
    if start_after is not None and isinstance(storage, SkippingStorage):
        infos = storage.list_after(start_after)
    else:
        infos = storage.list()
    for info in infos:
        if after is not None and info.path.encode("utf-8", "surrogateescape") <= after:
            continue
        if not (local or info.size) or hidden.search(f"/{info.path}"):
            continue
        if wanted is not None and wanted.match(info.path.rpartition("/")[2]) is None:
            continue
        yield source_file(info, is_local=local)


def _choices(pattern: str) -> list[str]:
    """Hadoop's pattern of names as Python's ones: with an alternative of each `{a,b}`, and `[^a]` as `[!a]`."""
    before, opened, rest = pattern.partition("{")
    inside, closed, after = rest.partition("}")
    if not (opened and closed):
        return [pattern.replace("[^", "[!")]
    return [each for choice in inside.split(",") for each in _choices(f"{before}{choice}{after}")]
