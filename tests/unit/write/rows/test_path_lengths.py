"""Paths that the file system cannot hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bucketingest.index.partition_path import refusal
from bucketingest.storage import path_room
from bucketingest.storage.limits import FILE_PATH_BYTES_MAX
from bucketingest.write.plan import WritePlan
from support.tables.write_plans import row, rows_in, write, write_plan


@pytest.mark.parametrize(
    ("bad", "longest", "limit"),
    [
        (["x" * 256], ["z" * 255], "255 bytes"),
        (["us", "é" * 128], ["z" * 255] * 2, "255 bytes"),
        (["y" * 200] * 5, ["z"] * 5, "the table's storage allows"),
    ],
)
def test_a_path_that_the_file_system_cannot_hold_is_a_dead_letter_and_all_others_are_written(
    bad: list[str], longest: list[str], limit: str, tmp_path: Path
) -> None:
    root = tmp_path.joinpath(*["deep" * 50] * 15)
    letters = tmp_path / "letters"
    plan = write_plan(table_url=str(root), dead_letters_url=str(letters), room=path_room(str(root)))
    plan = with_levels(plan, len(bad))
    usual = ["eu"] * len(bad)
    rows = [row(key, region="/".join(levels)) for key, levels in (("a", usual), ("b", bad), ("c", longest))]
    statuses = write(rows, plan)
    assert sorted(found["id"] for found in rows_in(statuses, plan)) == ["a", "c"]
    assert sum(status.rejected for status in statuses) == 1
    (letter,) = [found for file in letters.rglob("*.parquet") for found in pq.read_table(file).to_pylist()]
    assert letter["reason"] == "partitionPath"
    assert limit in letter["detail"]


def test_the_longest_path_that_is_taken_is_one_that_the_file_system_can_hold(tmp_path: Path) -> None:
    fill = FILE_PATH_BYTES_MAX - len(str(tmp_path)) - 700
    root = tmp_path.joinpath(*["d" * 200] * (fill // 201))
    room = path_room(str(root))
    longest = max((n for n in range(300, 1024) if refusal(levels(n), room) is None), default=0)
    assert 300 < longest < 1023
    plan = with_levels(write_plan(table_url=str(root), room=room), levels(longest).count("/") + 1)
    assert [found["id"] for found in rows_in(write([row("a", region=levels(longest))], plan), plan)] == ["a"]


def with_levels(plan: WritePlan, levels: int) -> WritePlan:
    """The plan of a table in which slashes of values make levels."""
    paths = replace(plan.rules.partition_path, levels=levels)
    return replace(plan, rules=replace(plan.rules, partition_path=paths))


def levels(size: int) -> str:
    """A partition path of so many bytes in levels that every file system takes."""
    return "/".join("q" * 99 for _ in range(size // 100)) + "/" + "q" * max(size % 100, 1)
