"""The files of a micro-batch in the tasks: rows for the write path or for Spark's SQL, and dead letters.

This module imports nothing of Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

import numpy as np
import pyarrow as pa

from bucketingest.decode.files.opening import is_compressed
from bucketingest.decode.files.parts import BadFile, Part, Piece
from bucketingest.decode.files.reader import FileReader, Found
from bucketingest.decode.sql.program import Program
from bucketingest.stream.files.log import FileBatch
from bucketingest.stream.files.opening import FileChanged, Opener
from bucketingest.stream.files.source_file import SourceFile
from bucketingest.write.plan import WritePlan
from bucketingest.write.rows.shuffle import UNDECODED, counted, pack

_LETTERS: Final = pa.schema(
    [("reason", pa.string()), ("detail", pa.string()), ("value", pa.binary())],
)
_LETTER_ROWS: Final = 1000
_WHY_MAX: Final = 500
"""Characters of an error."""


def _nothing(_columns: Sequence[str], _path: str) -> None:
    """Tells nobody of columns that the schema does not have."""


class FileRefused(Exception):
    """A file cannot be read. The text is its number in the micro-batch, and why."""


@dataclass(frozen=True, slots=True)
class TaskFiles:
    """What the tasks of a micro-batch read. Picklable."""

    reader: FileReader
    opener: Opener
    tasks: Sequence[Sequence[Piece]]
    set_aside: Mapping[int, str] = field(default_factory=dict)
    """Number of a file → why it is not read."""
    met: Callable[[Sequence[str], str], None] = _nothing
    """Told of the columns of a file (the second) that the schema does not have."""

    @classmethod
    def of(
        cls,
        batch: FileBatch,
        reader: FileReader,
        slots: int,
        *,
        is_splittable: bool,
        met: Callable[[Sequence[str], str], None] = _nothing,
    ) -> Self:
        """What they read of a micro-batch. `slots`: tasks that run at once."""
        splittable = [is_splittable and not is_compressed(file.path) for file in batch.files]
        versions = {number: file.version for number, file in enumerate(batch.files)}
        return cls(reader, Opener(batch.root, versions), tasks_of(batch.files, slots, splittable=splittable), met=met)

    def parts(self, task: int) -> Iterator[tuple[Piece, Part]]:
        """What a task reads. Raises FileRefused, FileChanged, StorageError."""
        try:
            for piece, part in self.reader.decoded(self._found(task)):
                if part.unknown:
                    self.met(part.unknown, piece.path)
                yield piece, part
        except BadFile as error:
            why = " ".join(str(error).split())[:_WHY_MAX]  # of a library it may have lines
            raise FileRefused(f"{error.number} {why}") from None

    def _found(self, task: int) -> Iterator[Found]:
        for piece in self.tasks[task]:
            if piece.number not in self.set_aside:
                yield from self.reader.found(piece, self.opener)

    def packed(self, plan: WritePlan, program: Program | None, task: int) -> Iterator[pa.RecordBatch]:
        """Shuffle batches, the last of which says how many records were no rows, if there were any."""
        refused = 0

        def rows() -> Iterator[pa.RecordBatch]:
            nonlocal refused
            for _, part in self.parts(task):
                refused += len(part.refused)
                if part.rows.num_rows:
                    yield part.rows if program is None else program.apply(part.rows)

        yield from pack(rows(), plan, task)
        if refused:
            yield counted(UNDECODED, refused, plan, task)

    def marked(self, task: int, *, data: str, bad: str, detail: str) -> Iterator[pa.RecordBatch]:
        """All records, for Spark's SQL: the row in a struct, null for what is none; whether so; why; and the record."""
        for piece, part in self.parts(task):
            count, refused = part.rows.num_rows, part.refused
            if not count and not refused:
                continue
            rows = pa.StructArray.from_arrays(part.rows.columns, fields=list(part.rows.schema))
            total = count + len(refused)
            places = np.arange(total)
            is_bad = places >= count
            yield pa.RecordBatch.from_pydict(
                {
                    data: rows.take(pa.array(np.where(is_bad, 0, places), mask=is_bad)),
                    bad: pa.array(is_bad),
                    detail: pa.array(
                        [None] * count + [self._detail(piece, *each[:2]) for each in refused], pa.string()
                    ),
                    "value": pa.array([None] * count + [each.value for each in refused], pa.binary()),
                }
            )

    def letters(self, task: int) -> Iterator[pa.RecordBatch]:
        """What is no row, as the dead-letter table's columns from `reason` on."""
        for piece in self.tasks[task]:
            if piece.number in self.set_aside and not piece.start:
                yield _letters([(self._detail(piece, "", self.set_aside[piece.number]), None)], "file")
        for piece, part in self.parts(task):
            for start in range(0, len(part.refused), _LETTER_ROWS):
                some = part.refused[start : start + _LETTER_ROWS]
                yield _letters([(self._detail(piece, each.place, each.why), each.value) for each in some], "decode")

    def bad_files(self, task: int) -> Iterator[tuple[int, str]]:
        """Every file of a task that cannot be read, and why; not one that has changed, which is read again. Raises
        StorageError.
        """
        for piece in self.tasks[task]:
            one = TaskFiles(self.reader, self.opener, [[piece]], self.set_aside)
            try:
                for _ in one.parts(0):
                    pass
            except FileChanged:
                continue
            except FileRefused as error:
                number, _, why = str(error).partition(" ")
                yield int(number), why

    def bad_rows(self, task: int) -> Iterator[pa.RecordBatch]:
        """As `bad_files`, in the columns `number` and `why`."""
        for number, why in self.bad_files(task):
            yield pa.RecordBatch.from_pydict({"number": pa.array([number], pa.int64()), "why": pa.array([why])})

    def _detail(self, piece: Piece, place: str, why: str) -> str:
        where = f"{self.opener.root}/{piece.path.encode('utf-8', 'backslashreplace').decode()}"
        return f"{where}, {place}: {why}" if place else f"{where}: {why}"


def _letters(found: list[tuple[str, bytes | None]], reason: str) -> pa.RecordBatch:
    columns = [
        pa.array([reason] * len(found), pa.string()),
        pa.array([detail for detail, _ in found], pa.string()),
        pa.array([value for _, value in found], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_LETTERS)


_TASK_BYTES_MAX: Final = 128 * 1024**2
_FILE_COST: Final = 256 * 1024
"""Bytes that are read in the time that it takes to open a file. So a task has 500 small ones at most: it costs as much
as some hundred of them.
"""
_PIECE_BYTES_MIN: Final = 4 * 1024**2
"""A smaller part of a file is not worth its own task."""


def tasks_of(files: Sequence[SourceFile], slots: int, *, splittable: Sequence[bool]) -> list[list[Piece]]:
    """The pieces of each task, at least one task. `slots`: tasks that run at once. Pure."""
    total = sum(file.size + _FILE_COST for file in files)
    target = min(_TASK_BYTES_MAX, max(_FILE_COST, total // max(1, slots)))
    tasks: list[list[Piece]] = [[]]
    filled = 0
    for number, (file, may_split) in enumerate(zip(files, splittable, strict=True)):
        start = 0
        while True:
            room = target - filled - _FILE_COST
            if tasks[-1] and room < min(file.size - start, _PIECE_BYTES_MIN):
                tasks.append([])
                filled, room = 0, target - _FILE_COST
            end = file.size
            if may_split and file.size - start > max(room, _PIECE_BYTES_MIN):
                end = start + max(room, _PIECE_BYTES_MIN)
            tasks[-1].append(Piece(number, file.path, start, end, is_whole=not start and end == file.size))
            filled += end - start + _FILE_COST
            start = end
            if start >= file.size:
                break
    return tasks
