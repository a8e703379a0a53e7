"""One instant per micro-batch: committed once, skipped if it is there, resumed or rolled back after failures."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from bucketingest.hudi.table.file_view import list_data
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import State
from bucketingest.hudi.timeline.timeline import path_of
from bucketingest.write.coordinator_api import Assignment
from bucketingest.write.errors import FencedOut, IncompleteReport, RangeConflict
from bucketingest.write.instants.journal import KEPT_INSTANTS, ROOT, Journal
from bucketingest.write.rows.write_status import WriteStatus
from support.tables.table_runs import PIPELINE, Rows, TestTable, offsets
from support.tables.write_plans import row

FIRST = [row(f"k{n}", region=("eu", "us")[n % 2], amount=n) for n in range(8)]
SECOND = [row(f"k{n}", amount=n) for n in range(8, 12)]


class TaskLost(Exception):
    """The engine's error when its tasks fail."""


def fail() -> None:
    raise TaskLost


def keys(*batches: Rows) -> list[str]:
    return sorted(each["id"] for rows in batches for each in rows)


def test_a_micro_batch_becomes_one_completed_instant(table: TestTable) -> None:
    outcome = table.attempt().run(offsets(0, 8), FIRST)
    (instant,) = table.timeline().completed
    assert outcome.instant_time == instant.request_time
    assert (outcome.rows, outcome.upserts, outcome.deletes, outcome.rejected) == (8, 8, 0, 0)
    assert outcome.files == len({(r["region"], r["_hoodie_file_name"]) for r in table.visible_rows()})
    assert outcome.size_bytes > 0
    assert table.visible_keys() == keys(FIRST)
    assert table.leftovers() == []


def test_a_commit_says_whose_it_is_and_up_to_where_the_source_is_in_the_table(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.run(offsets(0, 8), FIRST)
    (path,) = table.completed()
    metadata = CommitMetadata.decode(table.storage.get(path), path)
    extra = metadata.extra_metadata
    assert json.loads(extra["bucketingest.ranges"]) == [offsets(0, 8).to_json()]
    assert {name: extra[f"bucketingest.{name}"] for name in ("pipeline", "epoch", "rows", "deletes", "rejected")} == {
        "pipeline": PIPELINE,
        "epoch": str(attempt.coordinator.epoch),
        "rows": "8",
        "deletes": "0",
        "rejected": "0",
    }
    assert extra["bucketingest.bucket.count"] == "4"
    assert extra["bucketingest.bucket.hash"] == "hudi"
    assert extra["bucketingest.bucket.hash.fields"] == extra["bucketingest.record.key"] == "id"
    assert json.loads(extra["schema"])["fields"][0]["name"] == "id"
    paths = [stat.path for stats in metadata.write_stats.values() for stat in stats if stat.path]
    assert all(table.storage.exists(path) for path in paths)
    assert len(paths) == len({row["_hoodie_file_name"] + row["region"] for row in table.visible_rows()})


def test_an_empty_micro_batch_is_committed_without_files(table: TestTable) -> None:
    outcome = table.attempt().run(offsets(0, 8), [])
    assert (outcome.rows, outcome.files) == (0, 0)
    assert table.attempt().coordinator.position == offsets(0, 8)


def test_a_range_that_the_table_has_is_skipped(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.run(offsets(0, 8), FIRST)
    before = table.completed()
    assert attempt.run(offsets(0, 8), FIRST).instant_time is None
    assert table.attempt().run(offsets(0, 8), FIRST).instant_time is None
    assert table.completed() == before


def test_the_next_attempt_continues_where_the_table_is(table: TestTable) -> None:
    table.attempt().run(offsets(0, 8), FIRST)
    attempt = table.attempt()
    assert attempt.coordinator.position == offsets(0, 8)
    attempt.run(offsets(8, 12), SECOND)
    assert table.visible_keys() == keys(FIRST, SECOND)


def test_a_range_that_leaves_rows_out_touches_nothing(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.run(offsets(0, 8), FIRST)
    before = sorted(info.path for info in table.storage.list(""))
    with pytest.raises(RangeConflict):
        attempt.run(offsets(9, 12), SECOND)
    assert sorted(info.path for info in table.storage.list("")) == before


@pytest.mark.parametrize("restarted", [False, True])
def test_a_micro_batch_whose_tasks_failed_is_resumed_in_its_instant(table: TestTable, restarted: bool) -> None:
    attempt = table.attempt()
    with pytest.raises(TaskLost):
        attempt.run(offsets(0, 8), FIRST, fail)
    (open_instant,) = table.timeline().pending
    assert table.visible_keys() == []
    again = table.attempt() if restarted else attempt
    assert again.run(offsets(0, 8), FIRST).instant_time == open_instant.request_time
    assert table.visible_keys() == keys(FIRST)
    assert table.leftovers() == []


def test_files_of_failed_tasks_are_adopted_not_written_again(table: TestTable) -> None:
    with pytest.raises(TaskLost):
        table.attempt().run(offsets(0, 8), FIRST, fail)
    before = {info.path: info.etag for info in list_data(table.storage) if ".log." in info.path}
    table.attempt().run(offsets(0, 8), FIRST)
    assert {info.path: info.etag for info in list_data(table.storage) if ".log." in info.path} == before


def test_an_open_instant_of_another_range_is_rolled_back_first(table: TestTable) -> None:
    with pytest.raises(TaskLost):
        table.attempt().run(offsets(0, 8), FIRST, fail)
    (abandoned,) = table.timeline().pending
    outcome = table.attempt().run(offsets(0, 4), FIRST[:4])
    assert outcome.instant_time != abandoned.request_time
    assert table.visible_keys() == keys(FIRST[:4])
    assert table.timeline().find(abandoned.request_time) is None
    assert table.leftovers() == []
    assert [instant.action for instant in table.timeline().completed] == ["rollback", "deltacommit"]


def test_an_open_instant_that_is_given_up_is_written_again_by_the_next_attempt(table: TestTable) -> None:
    """That attempt writes other columns: it could not resume it, and would have to start twice."""
    attempt = table.attempt(commit_interval=timedelta(hours=1))
    attempt.run(offsets(0, 8), FIRST)
    with pytest.raises(TaskLost):
        attempt.run(offsets(8, 12), SECOND, fail)
    attempt.coordinator.give_up("columns become more")
    assert table.timeline().pending == ()
    again = table.attempt(commit_interval=timedelta(hours=1), work="other")
    assert again.coordinator.position is None
    again.go_on((offsets(0, 8), FIRST), (offsets(8, 12), SECOND))
    again.coordinator.commit_open()
    assert table.visible_keys() == keys(FIRST, SECOND)
    assert table.leftovers() == []


def test_what_a_cut_off_task_writes_after_the_rollback_is_swept_at_the_next_start(table: TestTable) -> None:
    with pytest.raises(TaskLost):
        table.attempt().run(offsets(0, 8), FIRST, fail)
    files = {info.path: table.storage.get(info.path) for info in list_data(table.storage) if ".log." in info.path}
    table.attempt().run(offsets(0, 4), FIRST[:4])
    committed = [info.path for info in list_data(table.storage) if ".log." in info.path]
    late = next(iter(files))
    assert late not in committed
    table.storage.create(late, files[late])
    table.attempt()
    assert [info.path for info in list_data(table.storage) if ".log." in info.path] == committed
    assert table.visible_keys() == keys(FIRST[:4])


def test_a_task_that_did_not_report_stops_the_commit_and_the_range_is_resumed(table: TestTable) -> None:
    attempt = table.attempt()

    def lose_a_task(assignment: Assignment) -> list[WriteStatus]:
        return [WriteStatus(0)]

    with pytest.raises(IncompleteReport):
        attempt.coordinator.run(offsets(0, 8), lose_a_task)
    assert table.timeline().completed == ()
    attempt.run(offsets(0, 8), FIRST)
    assert table.visible_keys() == keys(FIRST)


def test_an_attempt_that_was_replaced_commits_nothing(table: TestTable) -> None:
    older = table.attempt()
    with pytest.raises(FencedOut):
        older.run(offsets(0, 8), FIRST, table.attempt)
    assert table.timeline().completed == ()
    table.attempt().run(offsets(0, 8), FIRST)
    assert table.visible_keys() == keys(FIRST)
    assert table.leftovers() == []


def test_a_replaced_attempt_that_wakes_up_after_the_commit_adds_nothing(table: TestTable) -> None:
    older = table.attempt()

    def newer_commits_the_same() -> None:
        table.attempt().run(offsets(0, 8), FIRST)

    with pytest.raises(FencedOut):
        older.run(offsets(0, 8), FIRST, newer_commits_the_same)
    assert table.visible_keys() == keys(FIRST)
    assert len(table.completed()) == 1
    assert table.leftovers() == []


def test_a_replaced_attempt_starts_nothing_that_must_be_rolled_back(table: TestTable) -> None:
    older = table.attempt()
    older.run(offsets(0, 8), FIRST)
    table.attempt()
    with pytest.raises(FencedOut):
        older.run(offsets(8, 16), FIRST)
    assert table.timeline().pending == ()
    assert table.leftovers() == []


@pytest.fixture
def forgets_immediately(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bucketingest.write.instants.journal.KEPT_FOR", timedelta(0))


@pytest.mark.usefixtures("forgets_immediately")
def test_a_replaced_attempt_that_wakes_up_when_all_is_forgotten_leaves_no_work_behind(table: TestTable) -> None:
    older = table.attempt()

    def newer_commits_much() -> None:
        newer = table.attempt()
        newer.run(offsets(0, 8), FIRST)
        for number in range(8, 8 + KEPT_INSTANTS):
            newer.run(offsets(number, number + 1), [row(f"k{number}")])

    with pytest.raises(FencedOut):
        older.run(offsets(0, 8), FIRST, newer_commits_much)
    before = table.completed()
    assert table.attempt().coordinator.position == offsets(7 + KEPT_INSTANTS, 8 + KEPT_INSTANTS)
    assert table.completed() == before
    assert len(table.visible_keys()) == 8 + KEPT_INSTANTS


@pytest.mark.usefixtures("forgets_immediately")
def test_objects_of_old_instants_are_forgotten(table: TestTable) -> None:
    attempt = table.attempt()
    for number in range(KEPT_INSTANTS + 3):
        attempt.run(offsets(number, number + 1), [row(f"k{number}")])
    instants = [instant.request_time for instant in table.timeline().completed]
    assert Journal(table.storage, PIPELINE).instants() == instants[-KEPT_INSTANTS:]
    remaining = [info.path for info in table.storage.list(f"{ROOT}/shop~orders/instants")]
    assert len(remaining) == 5 * KEPT_INSTANTS


def test_an_instant_that_was_requested_only_is_inflight_before_it_completes(table: TestTable) -> None:
    with pytest.raises(TaskLost):
        table.attempt().run(offsets(0, 8), FIRST, fail)
    (instant,) = table.timeline().pending
    table.storage.delete(path_of(instant))
    table.attempt().run(offsets(0, 8), FIRST)
    states = {
        info.path.rpartition(".")[2]
        for info in table.storage.list(".hoodie/timeline")
        if instant.request_time in info.path
    }
    assert instant.state is State.INFLIGHT
    assert {"requested", "inflight", "deltacommit"} <= states


def test_an_open_instant_lives_again_when_it_is_resumed(table: TestTable) -> None:
    with pytest.raises(TaskLost):
        table.attempt().run(offsets(0, 8), FIRST, fail)
    (instant,) = table.timeline().pending
    table.storage.delete(f".hoodie/.heartbeat/{instant.request_time}")
    seen: list[bool] = []

    def look() -> None:
        seen.append(table.storage.exists(f".hoodie/.heartbeat/{instant.request_time}"))

    table.attempt().run(offsets(0, 8), FIRST, look)
    assert seen == [True]


def test_two_pipelines_feed_one_table_from_their_own_positions(table: TestTable) -> None:
    orders, returns = table.attempt(), table.attempt(pipeline="shop/returns")
    orders.run(offsets(0, 8), FIRST)
    returns.run(offsets(0, 3), [row("r", region="de")])
    orders.run(offsets(8, 12), SECOND)
    assert table.attempt().coordinator.position == offsets(8, 12)
    assert table.attempt(pipeline="shop/returns").coordinator.position == offsets(0, 3)
    assert table.visible_keys() == keys(FIRST, SECOND, [row("r")])
