"""Tasks have all bytes of all files, once, in the order of the files."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from bucketingest.stream.files.reading import tasks_of
from bucketingest.stream.files.source_file import SourceFile

MIB = 1024**2
SIZES = st.lists(st.tuples(st.integers(0, 3000 * MIB), st.booleans()), max_size=40)


@given(SIZES, st.integers(1, 64))
def test_all_bytes_once_in_order(sizes: list[tuple[int, bool]], slots: int) -> None:
    files = [SourceFile(f"{number}", size, number, "") for number, (size, _) in enumerate(sizes)]
    tasks = tasks_of(files, slots, splittable=[may for _, may in sizes])
    pieces = [piece for task in tasks for piece in task]
    assert [(piece.number, piece.start) for piece in pieces] == sorted((piece.number, piece.start) for piece in pieces)
    for number, (size, may_split) in enumerate(sizes):
        of_file = [piece for piece in pieces if piece.number == number]
        assert of_file[0].start == 0
        assert of_file[-1].end == size
        assert all(one.end == next_.start for one, next_ in itertools.pairwise(of_file))
        assert len(of_file) == 1 or may_split
        assert [piece.is_whole for piece in of_file] == [len(of_file) == 1] * len(of_file)
    assert tasks == [[]] or all(tasks)


def test_large_files_are_spread_over_the_tasks_and_small_ones_share_one() -> None:
    (large,) = [SourceFile("large", 1000 * MIB, 0, "")]
    assert len(tasks_of([large], 4, splittable=[True])) >= 8
    small = [SourceFile(f"{number}", 1000, number, "") for number in range(100)]
    assert 2 <= len(tasks_of(small, 4, splittable=[True] * 100)) <= 8


def test_a_task_has_some_hundred_small_files() -> None:
    small = [SourceFile(f"{number}", 1000, number, "") for number in range(10_000)]
    assert {len(task) for task in tasks_of(small, 4, splittable=[True] * 10_000)[:-1]} <= set(range(500, 513))
