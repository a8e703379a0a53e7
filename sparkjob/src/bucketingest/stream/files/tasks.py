"""Which task reads what: tasks have the files in their order, one after the other, because the order of tasks is that
in which rows of equal keys count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bucketingest.decode.files.parts import Piece
from bucketingest.stream.files.source_file import SourceFile

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
