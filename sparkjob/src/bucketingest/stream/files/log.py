"""What each micro-batch of the files source took, beside the table: the only list of files that are in it.

    files/id                the log's identity
    files/batch/<n>         the files of micro-batch n, in the order in which they are read
    files/seen/<n>          all files of the micro-batches up to n

All are created if absent. The files of micro-batch n are listed before it is started, so whoever runs it, again or
beside another, runs it with the same files; its position is its number.
"""

from __future__ import annotations

import json
import uuid
import zlib
from dataclasses import dataclass
from typing import Final

from bucketingest.hudi.naming import OWN_DIRECTORY
from bucketingest.storage import Storage, create_or_get, created, get_if_there
from bucketingest.stream.errors import FilesLogLost
from bucketingest.stream.files.seen import Seen
from bucketingest.stream.files.source_file import SourceFile
from bucketingest.write.instants.source_range import SourceRange, canonical_json
from bucketingest.write.pipeline_names import directory_name

KEPT_BATCHES: Final = 1000
"""So many micro-batches a table may be rolled back and the log still says what was taken until then."""
_FOLD_FILES: Final = 20_000
_FOLD_BATCHES: Final = 200
"""After so many files or micro-batches all of them are written in one object, so that a start reads few."""
_NUMBER: Final = "{:012d}"


@dataclass(frozen=True, slots=True)
class FileBatch:
    """The files that one micro-batch takes."""

    number: int
    root: str
    """URL of the directory."""
    files: tuple[SourceFile, ...]
    """In the order in which their rows count."""

    def to_bytes(self) -> bytes:
        """As it is stored: compressed JSON."""
        record = {"root": self.root, "files": [file.to_json() for file in self.files]}
        return zlib.compress(json.dumps(record, separators=(",", ":")).encode())

    @classmethod
    def from_bytes(cls, number: int, content: bytes) -> FileBatch:
        """What `to_bytes` made."""
        record = json.loads(zlib.decompress(content))
        return cls(number, record["root"], tuple(map(SourceFile.from_json, record["files"])))


class FilesLog:
    """The log of one pipeline."""

    def __init__(self, table: Storage, pipeline: str) -> None:
        self._table = table
        self._directory = f"{OWN_DIRECTORY}/{directory_name(pipeline)}/files"
        self._id: str | None = None

    @property
    def id(self) -> str:
        """Identity, made when it is first asked for."""
        if self._id is None:
            self._id = create_or_get(self._table, f"{self._directory}/id", uuid.uuid4().hex.encode()).decode()
        return self._id

    def range_of(self, number: int) -> SourceRange:
        """What identifies a micro-batch."""
        start = canonical_json({"files": number - 1}) if number else None
        return SourceRange("files", start, canonical_json({"files": number}), self.id, number)

    def batch(self, number: int) -> FileBatch | None:
        """A micro-batch, if it was ever planned."""
        content = get_if_there(self._table, self._batch(number))
        return None if content is None else FileBatch.from_bytes(number, content)

    def plan(self, batch: FileBatch) -> FileBatch:
        """Plan a micro-batch, unless it was planned already: then as it was."""
        content = batch.to_bytes()
        return FileBatch.from_bytes(batch.number, create_or_get(self._table, self._batch(batch.number), content))

    def seen_until(self, last: int) -> SeenUntil:
        """All files up to and with a micro-batch. Raises FilesLogLost if the log does not say it."""
        folded = max((number for number in self._folded() if number <= last), default=-1)
        content = get_if_there(self._table, self._seen(folded)) if folded >= 0 else None
        if folded >= 0 and content is None:
            raise self._lost(self._seen(folded))
        seen = Seen() if content is None else Seen.from_bytes(content)
        for number in range(folded + 1, last + 1):
            batch = self.batch(number)
            if batch is None:
                raise self._lost(self._batch(number))
            seen.add(batch.root, batch.files)
        return SeenUntil(seen, folded, last)

    def fold_if_due(self, seen: SeenUntil) -> SeenUntil:
        """Write all files in one object now and then, and delete what no start needs any more."""
        long = len(seen.seen) - seen.seen.recent
        is_due = seen.seen.recent >= max(_FOLD_FILES, long // 4) or seen.last - seen.folded >= _FOLD_BATCHES
        if not is_due:
            return seen
        folded = seen.seen.folded()
        created(self._table, self._seen(seen.last), folded.to_bytes())
        self._sweep(seen.last)
        return SeenUntil(folded, seen.last, seen.last)

    def _sweep(self, last: int) -> None:
        numbers = sorted(self._folded())
        floor = max((number for number in numbers if number <= last - KEPT_BATCHES), default=-1)
        before = -1
        for number in numbers:
            if number >= floor:
                return
            # The object with all files goes last: it says that these are still to be deleted.
            self._table.delete_many(self._batch(each) for each in range(before + 1, number + 1))
            self._table.delete(self._seen(number))
            before = number

    def _folded(self) -> list[int]:
        level = self._table.list_level(f"{self._directory}/seen")
        return [int(info.path.rpartition("/")[2]) for info in level.objects]

    def _batch(self, number: int) -> str:
        return f"{self._directory}/batch/{_NUMBER.format(number)}"

    def _seen(self, number: int) -> str:
        return f"{self._directory}/seen/{_NUMBER.format(number)}"

    def _lost(self, path: str) -> FilesLogLost:
        return FilesLogLost(
            f"{self._table.url}/{path} is not there, so nothing says which files are in the table. It was deleted, or "
            f"the table was rolled back by more than {KEPT_BATCHES} micro-batches. Restore it, or give the pipeline "
            "another name: then all files are ingested again, and their rows replace those of equal keys in the table"
        )


@dataclass(frozen=True, slots=True)
class SeenUntil:
    """All files up to a micro-batch."""

    seen: Seen
    folded: int
    """Micro-batch up to which they are in one object; -1: none."""
    last: int

    def with_batch(self, batch: FileBatch) -> SeenUntil:
        """Also with the next micro-batch."""
        self.seen.add(batch.root, batch.files)
        return SeenUntil(self.seen, self.folded, batch.number)
