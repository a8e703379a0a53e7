"""Which small file groups become one, and when."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest

from bucketingest.hudi.naming import BaseFileName, LogFileName, join
from bucketingest.hudi.table.file_view import DataFile, FileGroup, FileSlice, FileView, Group
from bucketingest.services.clustering.choose import (
    INPUTS_MAX,
    OUTPUTS_MAX,
    ClusteringTriggers,
    due_clustering,
    small_groups,
)

MIB = 1024**2
TRIGGERS = ClusteringTriggers(target_bytes=100 * MIB, small_percent=50, min_groups=4)
INSTANT = "20261124120000000"


def group(number: int, size: int, *, path: str = "eu", logs: Sequence[int] = (), pending: bool = False) -> FileGroup:
    file_id = f"{number:08d}-0000-4000-8000-000000000000-0"
    base = DataFile(join(path, f"{file_id}.parquet"), size, BaseFileName(file_id, INSTANT))
    log_files = tuple(
        DataFile(f"{file_id}.log.{n}", log, LogFileName(file_id, INSTANT, n)) for n, log in enumerate(logs, start=1)
    )
    slices = (FileSlice(INSTANT, base, log_files),)
    return FileGroup(path, file_id, slices, (base,) if pending else ())


def view(*groups: FileGroup) -> FileView:
    partitions: dict[str, dict[str, FileGroup]] = {}
    for each in groups:
        partitions.setdefault(each.partition_path, {})[each.file_id] = each
    return FileView(partitions)


def of_sizes(*sizes: int) -> FileView:
    return view(*(group(number, size * MIB) for number, size in enumerate(sizes)))


def due(of: FileView, *, busy: Collection[Group] = (), size_max: int = 10**12) -> list[list[int]]:
    """Sizes in MiB of the groups of each merged group."""
    return [[each.files.size // MIB for each in merged] for merged in due_clustering(of, busy, TRIGGERS, size_max)]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((), []),
        ((1, 1, 1), []),
        ((1, 1, 1, 1), [[1, 1, 1, 1]]),
        ((1, 2, 3, 4, 50, 99), [[1, 2, 3, 4]]),
        ((30, 35, 40), [[30, 35, 40]]),
        ((40, 40, 40), [[40, 40]]),
        ((40, 40), []),
        ((1, 1, 1, 40), []),
        ((1, 1, 1, 1, 40), [[1, 1, 1, 1]]),
        ((10, 12, 14, 40), [[10, 12, 14, 40]]),
        ((49,) * 5, [[49, 49], [49, 49]]),
        ((20,) * 7, [[20, 20, 20, 20, 20]]),
    ],
    ids=[
        "none",
        "too few",
        "enough",
        "large ones stay",
        "few that reach the target",
        "few that leave no room for another",
        "two that would still be small to the next",
        "one much larger does not count",
        "one much larger stays",
        "one as large as the others together comes along",
        "several new groups",
        "the rest waits for more",
    ],
)
def test_what_is_due(sizes: tuple[int, ...], expected: list[list[int]]) -> None:
    assert due(of_sizes(*sizes)) == expected


def test_tiny_groups_count_as_equal() -> None:
    """However small, each costs a reader a request."""
    tiny = view(*(group(number, size) for number, size in enumerate((10, 1000, 50_000, 300_000))))
    assert len(due_clustering(tiny, (), TRIGGERS, 10**12)) == 1


def test_log_files_count() -> None:
    assert due(view(*(group(number, MIB, logs=(30 * MIB, 20 * MIB)) for number in range(4)))) == []


def test_partitions_are_not_mixed_and_the_one_with_the_most_groups_comes_first() -> None:
    groups = [group(number, MIB, path="a") for number in range(4)]
    groups += [group(number, MIB, path="b") for number in range(10, 16)]
    groups += [group(number, MIB, path="c") for number in range(20, 23)]
    merged = due_clustering(view(*groups), (), TRIGGERS, 10**12)
    assert [[each.partition_path for each in one] for one in merged] == [["b"] * 6, ["a"] * 4]


def test_busy_groups_and_those_with_files_of_an_open_instant_stay() -> None:
    groups = [group(number, MIB, pending=number == 5) for number in range(6)]
    busy = {(groups[0].partition_path, groups[0].file_id)}
    (merged,) = due_clustering(view(*groups), busy, TRIGGERS, 10**12)
    assert [each.file_id for each in merged] == [each.file_id for each in groups[1:5]]
    assert [len(each) for each in small_groups(view(*groups), busy, TRIGGERS).values()] == [4]


def test_one_merge_is_limited_in_bytes_but_has_at_least_one_new_group() -> None:
    of = of_sizes(*(20,) * 15)
    assert len(due(of)) == 3
    assert len(due(of, size_max=200 * MIB)) == 2
    assert len(due(of, size_max=1)) == 1


def test_one_merge_is_limited_in_groups() -> None:
    many = view(*(group(100 * path + n, MIB, path=f"p{path:02d}") for path in range(OUTPUTS_MAX + 4) for n in range(4)))
    assert len(due_clustering(many, (), TRIGGERS, 10**12)) == OUTPUTS_MAX
    crowded = view(*(group(number, 1) for number in range(INPUTS_MAX + 50)))
    assert [len(each) for each in due_clustering(crowded, (), TRIGGERS, 10**12)] == [INPUTS_MAX]


def test_a_row_is_written_again_only_a_few_times() -> None:
    """Ten thousand micro-batches, merged whenever something is due."""
    groups: list[int] = []
    written = 0
    for _ in range(10_000):
        groups.append(MIB // 4)
        for merged in due_clustering(view(*(group(n, size) for n, size in enumerate(groups))), (), TRIGGERS, 10**12):
            sizes = [each.files.size for each in merged]
            for size in sizes:
                groups.remove(size)
            groups.append(sum(sizes))
            written += sum(sizes)
    assert written <= 6 * 10_000 * MIB // 4
    assert sum(size >= 50 * MIB for size in groups) >= 25
    assert sum(size < 50 * MIB for size in groups) <= 20
