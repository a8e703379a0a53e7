"""Partitions of a large table are loaded when a row of them comes: no key gets a second file group, and no partition
that nobody writes to is read.
"""

from __future__ import annotations

import pathlib
import tempfile
from datetime import timedelta

import pyarrow as pa
import pytest

from bucketingest.hudi.table.file_view import FileView
from bucketingest.hudi.table.table import InsertMode, StateRules
from bucketingest.index.errors import PartitionsNotLoaded
from bucketingest.write.covering import lazy_loading
from bucketingest.write.covering.covered_table import CoveredTable
from bucketingest.write.covering.lazy_loading import LazyLoading
from bucketingest.write.errors import InstantAborted, PositionLost
from support.tables.state.tables import ForgetfulStorage, amounts, check, groups_of_keys, insert_by_another, state_table
from support.tables.table_runs import TestTable, offsets
from support.tables.write_plans import row

REGIONS = ("ap", "eu", "sa", "us")
FILE_IDS = [f"7a6b5c4d-0000-4000-8000-00000000000{number}-0" for number in range(2)]


def made(inserts: InsertMode = "base") -> TestTable:
    """A table with a commit for each region; the last one is of us."""
    table = state_table(inserts=inserts)
    attempt = table.attempt()
    for number, region in enumerate(REGIONS):
        attempt.run(offsets(number, number + 1), [row(f"k-{region}", region=region, at=1)])
    return table


@pytest.fixture(autouse=True)
def every_table_is_large(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(lazy_loading, "EAGER_BYTES_MAX", 0)
    monkeypatch.setattr(lazy_loading, "RECENT_COMMITS", 1)


@pytest.fixture
def table() -> TestTable:
    """No state is left of it."""
    table = made()
    forget(table)
    return table


def forget(table: TestTable) -> None:
    paths = [info.path for info in table.storage.list(".hoodie/.bucketingest/state") if "format" not in info.path]
    table.storage.delete_many(paths)


def test_a_start_loads_the_partitions_of_the_last_commits_only(table: TestTable) -> None:
    outcome = table.attempt().run(offsets(4, 5), [row("k-us", region="us", amount=5, at=2)])
    assert outcome.state is not None
    assert (outcome.state.loaded_keys, outcome.state.partitions) == (1, 1)
    assert amounts(table)["k-us"] == 5


def test_rows_of_another_partition_are_written_after_its_keys_are_loaded(table: TestTable) -> None:
    attempt = table.attempt()
    rows = [row("k-eu", region="eu", amount=5, at=2), row("new", region="eu", at=2)]
    with pytest.raises(InstantAborted, match='not loaded yet: \\["eu"\\]'):
        attempt.run(offsets(4, 6), rows)
    outcome = attempt.run(offsets(4, 6), rows)
    assert outcome.state is not None
    assert outcome.state.partitions == 2
    assert outcome.inserts == 1
    check(table, {"k-ap": 0, "k-eu": 5, "k-sa": 0, "k-us": 0, "new": 0})


def test_a_new_partition_has_nothing_to_load(table: TestTable) -> None:
    table.attempt().run(offsets(4, 5), [row("k", region="new", at=2)])
    assert len(groups_of_keys(table)["k"]) == 1


def test_what_was_loaded_stays_loaded_after_a_restart(table: TestTable) -> None:
    attempt = table.attempt()
    rows = [row("k-eu", region="eu", amount=5, at=2)]
    with pytest.raises(InstantAborted):
        attempt.run(offsets(4, 5), rows)
    attempt.run(offsets(4, 5), rows)
    table.attempt().run(offsets(5, 6), [row("k-eu", region="eu", amount=6, at=3)])
    check(table, {"k-ap": 0, "k-eu": 6, "k-sa": 0, "k-us": 0})


def test_an_attempt_that_ends_before_they_are_loaded_changes_nothing(table: TestTable) -> None:
    rows = [row("k-eu", region="eu", amount=5, at=2)]
    with pytest.raises(InstantAborted):
        table.attempt().run(offsets(4, 5), rows)
    attempt = table.attempt()
    with pytest.raises(InstantAborted):
        attempt.run(offsets(4, 5), rows)
    attempt.run(offsets(4, 5), rows)
    check(table, {"k-ap": 0, "k-eu": 5, "k-sa": 0, "k-us": 0})


def test_a_second_miss_in_a_row_loads_everything(table: TestTable) -> None:
    attempt = table.attempt()
    for region in ("eu", "ap"):
        with pytest.raises(InstantAborted):
            attempt.run(offsets(4, 5), [row(f"k-{region}", region=region, amount=5, at=2)])
    outcome = attempt.run(offsets(4, 5), [row("k-sa", region="sa", amount=5, at=2)])
    assert outcome.state is not None
    assert outcome.state.partitions == 4
    check(table, {"k-ap": 0, "k-eu": 0, "k-sa": 5, "k-us": 0})


def test_in_the_middle_of_an_instant_everything_is_loaded_and_its_rows_are_read_again() -> None:
    table = made("log")
    forget(table)
    attempt = table.attempt(commit_interval=timedelta(hours=1))
    first = offsets(4, 5), [row("k-us", region="us", amount=5, at=2)]
    second = offsets(5, 6), [row("k-eu", region="eu", amount=5, at=2)]
    attempt.run(*first)
    with pytest.raises(InstantAborted):
        attempt.run(*second)
    with pytest.raises(PositionLost):
        attempt.run(*second)
    attempt.coordinator.start()
    attempt.go_on(first, second)
    attempt.coordinator.commit_open()
    check(table, {"k-ap": 0, "k-eu": 5, "k-sa": 0, "k-us": 5})


def test_keys_of_a_partition_that_another_writer_makes_meanwhile_are_not_inserted_again(table: TestTable) -> None:
    """The whole table is listed, as an instant was archived, and the partition is not that of the last commit."""
    attempt = table.attempt()
    attempt.run(offsets(4, 5), [row("k-us", region="us", amount=5, at=2)])

    def others_write() -> None:
        insert_by_another(table, [row("k", region="their", at=1)], region="their", file_id=FILE_IDS[0])
        insert_by_another(table, [row("y", region="us", at=1)], region="us", file_id=FILE_IDS[1])
        first = table.timeline().completed_commits[0]
        history = f".hoodie/timeline/{first.request_time}"
        table.storage.delete_many(
            [each.path for each in table.storage.list(".hoodie/timeline") if history in each.path]
        )

    rows = [row("k", region="their", amount=9, at=2)]
    with pytest.raises(InstantAborted, match="made partition 'their' meanwhile"):
        attempt.run(offsets(5, 6), rows, others_write)
    for _ in range(2):
        try:
            attempt.run(offsets(5, 6), rows)
        except InstantAborted:
            continue
        break
    assert len(groups_of_keys(table)["k"]) == 1
    assert amounts(table)["k"] == 9


def test_after_many_misses_everything_is_loaded() -> None:
    loading = LazyLoading(unloaded=frozenset(f"p{number}" for number in range(20)))
    for number in range(8):
        loading.want([f"p{number}"], everything=False)
        assert loading.wanted == {f"p{number}"}
        loading.loaded()
        loading.met_none()
    loading.want(["p8"], everything=False)
    assert len(loading.wanted) == 12
    assert loading.left_out == frozenset()


def test_a_table_without_files_leaves_nothing_out() -> None:
    loading = LazyLoading()
    loading.choose(FileView({"p": {}}), (), (), ())
    assert loading.unloaded == frozenset()


def test_tasks_errors_reach_the_driver_as_text() -> None:
    error = PartitionsNotLoaded(["a=[1]", 'b"\n'])
    assert PartitionsNotLoaded.of_text(str(error)).partition_paths == ("a=[1]", 'b"\n')
    assert "\n" not in str(error)


def test_files_that_a_listing_leaves_out_are_found_by_their_commit(table: TestTable) -> None:
    insert_by_another(table, [row("k", region="eu", at=1)], region="eu")
    insert_by_another(table, [row("x", region="us", at=1)], region="us", file_id=FILE_IDS[0])
    covered = CoveredTable(ForgetfulStorage(table.storage), StateRules(report_duplicates=False))
    covered.fold_in(table.timeline(), ())
    covered.loading.want(["eu"], everything=False)
    covered.fold_in(table.timeline(), ())
    known = covered.index.look_up("eu")
    assert known is not None
    assert known.find(covered.index.store.hasher.hash(pa.array(["k"])))[0] >= 0
    assert covered.loading.unloaded == {"ap", "sa"}
