"""Decides which files the next micro-batch takes: the oldest that were not taken yet."""

from __future__ import annotations

import heapq
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from operator import attrgetter
from typing import Final

import numpy as np
import numpy.typing as npt

from bucketingest.spec.fields.source import ChangedFiles
from bucketingest.storage import Storage
from bucketingest.stream.errors import SourceFilesChanged
from bucketingest.stream.files.log import FileBatch, FilesLog, SeenUntil
from bucketingest.stream.files.source_file import SourceFile, listed

log = logging.getLogger(__name__)

_PART: Final = 10_000
"""Files of a listing that are compared at a time."""
_WAITING_MAX: Final = 100_000
"""Files that are remembered as not taken yet; the others are found by the next listing."""
_NAMED_MAX: Final = 10
_place: Final = attrgetter("place")
"""The order in which files are read."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Which files are the source's."""

    storage: Storage
    max_files: int
    """Of one micro-batch."""
    max_bytes: int
    """Of one micro-batch, unless its only file has more."""
    changed: ChangedFiles = "stop"
    start_after: str | None = None
    pattern: str | None = None

    def of_one_batch(self, waiting: Iterable[SourceFile]) -> Iterator[SourceFile]:
        """The first of the files that wait."""
        size = 0
        for number, file in enumerate(islice(waiting, self.max_files)):
            size += file.size
            if number and size > self.max_bytes:
                return
            yield file

    def __iter__(self) -> Iterator[SourceFile]:
        return listed(self.storage, start_after=self.start_after, pattern=self.pattern)


class FilesPlanner:
    """The micro-batches of one query, one after the other."""

    def __init__(
        self,
        listing: Listing,
        files_log: FilesLog,
        last: int,
        *,
        once: bool = False,
        ignored: Callable[[int, Sequence[str]], None] = lambda _count, _names: None,
    ) -> None:
        """`last`: the last micro-batch that is in the table; -1: none. `once`: what is there at the first look is all.
        `ignored`: told after each listing how many files were changed after they were taken and are not read again, and
        the names of the first.

        Raises FilesLogLost.
        """
        self._listing = listing
        self._log = files_log
        self._seen: SeenUntil = files_log.seen_until(last)
        self._waiting: deque[SourceFile] = deque()
        self._has_more = True
        self._once = once
        self._tell_ignored = ignored
        self._ignored = 0

    def next(self) -> FileBatch | None:
        """The next micro-batch; None if there is nothing new. Raises SourceFilesChanged, and what storage does."""
        number = self._seen.last + 1
        batch = self._log.batch(number) or self._planned(number)
        if batch is None:
            return None
        self._take(batch)
        self._seen = self._log.fold_if_due(self._seen).with_batch(batch)
        return batch

    def _take(self, batch: FileBatch) -> None:
        """Its files wait no more. They are the first ones, unless another process has planned it."""
        taken = {file.path for file in batch.files}
        while self._waiting and self._waiting[0].path in taken:
            taken.remove(self._waiting.popleft().path)
        if taken:
            self._waiting = deque(file for file in self._waiting if file.path not in taken)

    def _planned(self, number: int) -> FileBatch | None:
        if not self._waiting and self._has_more:
            self._look()
        if not self._waiting:
            return None
        files = tuple(self._listing.of_one_batch(self._waiting))
        return self._log.plan(FileBatch(number, self._listing.storage.url, files))

    def _look(self) -> None:
        root = self._listing.storage.url
        found: list[SourceFile] = []
        changed: list[SourceFile] = []
        present: list[npt.NDArray[np.int64]] = []
        more = False
        files = iter(self._listing)
        while part := list(islice(files, _PART)):
            look = self._seen.seen.look(root, part)
            found += look.new
            changed += look.changed
            present.append(look.present)
            if len(found) > 2 * _WAITING_MAX:
                found, more = heapq.nsmallest(_WAITING_MAX, found, key=_place), True
        self._seen.seen.listed(present, int(datetime.now(UTC).timestamp() // 86_400))
        found += self._again(changed)
        if len(found) > _WAITING_MAX:
            found, more = heapq.nsmallest(_WAITING_MAX, found, key=_place), True
        self._has_more = more or not self._once
        self._waiting = deque(sorted(found, key=_place))

    def _again(self, changed: list[SourceFile]) -> list[SourceFile]:
        """Of files that were changed after they were taken those that are read again. Raises SourceFilesChanged."""
        if self._listing.changed == "readAgain":
            return changed
        first = [file.path for file in heapq.nsmallest(_NAMED_MAX, changed, key=_place)]
        names = ", ".join(first)
        if changed and self._listing.changed == "stop":
            raise SourceFilesChanged(
                f"{self._listing.storage.url}: {len(changed)} files were changed after they were read: {names}. Their "
                "rows in the table are those of the old content. Set source.files.changed to readAgain to read them "
                "as they are now, or to ignore to leave the table as it is"
            )
        self._tell_ignored(len(changed), first)
        before, self._ignored = self._ignored, len(changed)
        if changed and len(changed) != before:
            log.warning("changed files are not read again", extra={"files": len(changed), "first": names})
        return []
