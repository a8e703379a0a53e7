"""What tasks read of a table to decide whether a key moves: it is what the plan knew, whatever came since."""

from __future__ import annotations

import pathlib
import tempfile
from typing import NoReturn

import pytest

from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.index.whole_table import contested
from bucketingest.storage import NotFound
from bucketingest.storage.interface import Level
from bucketingest.write.moving.key_owner import TableAt
from support.storage.passing_storage import PassingStorage
from support.tables.state.tables import groups_of_keys, insert_by_another, places, state_table
from support.tables.table_runs import TestTable, offsets
from support.tables.write_plans import row


class ForgetfulStorage(PassingStorage):
    """Its listings of partitions are empty."""

    def list_level(self, prefix: str = "") -> Level:
        level = super().list_level(prefix)
        return Level(level.directories, []) if prefix == "eu" else level


@pytest.fixture
def table(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> TestTable:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    table = state_table(is_global=True)
    table.attempt().run(offsets(0, 1), [row("a", amount=1, at=1)])
    return table


def view(table: TestTable) -> str:
    return table.timeline().completed_commits[-1].completion_time or ""


def test_what_completed_later_is_left_out(table: TestTable) -> None:
    (group,) = groups_of_keys(table)["a"]
    before = view(table)
    first = TableAt(table.storage, before).slice_of("eu", group)
    insert_by_another(table, [row("a", amount=5, at=5)], file_id=group)
    assert TableAt(table.storage, before).slice_of("eu", group) == first
    assert TableAt(table.storage, view(table)).slice_of("eu", group) != first
    assert Timeline.load(table.storage).as_of(view(table)) == table.timeline()


def test_a_file_that_a_listing_leaves_out_is_read(table: TestTable) -> None:
    (group,) = groups_of_keys(table)["a"]
    known = TableAt(table.storage, view(table)).slice_of("eu", group)
    assert TableAt(ForgetfulStorage(table.storage), view(table)).slice_of("eu", group) == known


def test_a_file_group_that_is_gone_is_not_an_empty_one(table: TestTable) -> None:
    with pytest.raises(NotFound, match="file group other of partition 'eu' was removed"):
        TableAt(table.storage, view(table)).slice_of("eu", "other")


def test_rows_of_keys_that_we_moved_are_not_read_again(table: TestTable, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = table.attempt()
    attempt.run(offsets(1, 2), [row("a", region="us", amount=2, at=2)])

    def read(*_: object) -> NoReturn:
        raise AssertionError("the commit says that the key left")

    monkeypatch.setattr(contested, "current_rows", read)
    attempt.run(offsets(2, 3), [row("b", at=3)])
    assert places(table) == {"a": ("us", 2), "b": ("eu", 0)}
