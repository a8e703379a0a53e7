"""A micro-batch is resumed by an attempt with the same work; else its instant is rolled back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bucketingest.hudi.naming import LogFileName, deterministic_file_id
from bucketingest.hudi.rollback.markers import create_marker, delete_markers, marked_files, marker_directory
from bucketingest.write.errors import ConflictingAttempt, PositionLost
from bucketingest.write.instants.source_range import SourceRange
from support.storage.crashing_storage import Crash
from support.storage.flaky_storage import FlakyStorage
from support.tables.table_runs import Rows, TestTable, offsets
from support.tables.write_plans import row

EU: Rows = [row(f"k{n}", region="eu", amount=n) for n in range(3)]
US: Rows = [row(f"k{n}", region="us", amount=n) for n in range(3)]
"""The same rows by an edited query: other partitions, so that no name collides."""
KEYS = ["k0", "k1", "k2"]
LONG = timedelta(hours=1)


def die() -> None:
    raise Crash


def at(time: int) -> SourceRange:
    return replace(offsets(0, 3), timestamp_ms=time)


def test_files_of_an_edited_query_are_not_kept_next_to_those_of_the_next_attempt(table: TestTable) -> None:
    with pytest.raises(Crash):
        table.attempt(work="SELECT 'eu'").run(offsets(0, 3), EU, die)
    table.attempt(work="SELECT 'us'").run(offsets(0, 3), US)
    assert table.visible_keys() == KEYS
    assert {each["_hoodie_partition_path"] for each in table.visible_rows()} == {"us"}
    assert table.leftovers() == []


def test_the_same_work_is_resumed_and_its_files_adopted(table: TestTable) -> None:
    with pytest.raises(Crash):
        table.attempt(work="SELECT 'eu'").run(offsets(0, 3), EU, die)
    (open_instant,) = table.timeline().pending
    assert table.attempt(work="SELECT 'eu'").run(offsets(0, 3), EU).instant_time == open_instant.request_time


def test_an_edited_query_rolls_back_complete_micro_batches_of_the_open_instant(table: TestTable) -> None:
    first = table.attempt(work="a", commit_interval=LONG)
    first.run(offsets(0, 1), EU[:1])
    with pytest.raises(Crash):
        first.run(offsets(1, 3), EU[1:], die)
    attempt = table.attempt(work="b", commit_interval=LONG)
    with pytest.raises(PositionLost, match="started with other rows, settings or file groups"):
        attempt.run(offsets(1, 3), US[1:])
    table.attempt(work="b").go_on((offsets(0, 3), US))
    assert {each["_hoodie_partition_path"] for each in table.visible_rows()} == {"us"}
    assert table.leftovers() == []


def test_another_batch_time_is_another_micro_batch(table: TestTable) -> None:
    """What current_date() gives may have changed."""
    with pytest.raises(Crash):
        table.attempt().run(at(1000), EU, die)
    table.attempt().run(at(2000), US)
    assert {each["_hoodie_partition_path"] for each in table.visible_rows()} == {"us"}
    assert table.leftovers() == []


def test_the_next_start_gets_the_batch_time_of_the_started_micro_batch(table: TestTable) -> None:
    with pytest.raises(Crash):
        table.attempt().run(at(1000), EU, die)
    replay = table.attempt().start.replay
    assert replay is not None
    assert replay.timestamp_ms == 1000


def dead_letters_elsewhere(table: TestTable) -> dict[str, Any]:
    return {"dead_letters": TestTable().dead_letters}


def no_dead_letters(_: TestTable) -> dict[str, Any]:
    return {"reject": "fail"}


@pytest.mark.parametrize("change", [dead_letters_elsewhere, no_dead_letters])
def test_another_place_for_dead_letters_is_other_work(
    table: TestTable, change: Callable[[TestTable], dict[str, Any]]
) -> None:
    with pytest.raises(Crash):
        table.attempt().run(offsets(0, 3), EU, die)
    (open_instant,) = table.timeline().pending
    assert table.attempt(**change(table)).run(offsets(0, 3), EU).instant_time != open_instant.request_time


def test_a_file_that_the_earlier_run_wrote_and_this_one_does_not_is_a_conflict(table: TestTable) -> None:
    """The same work by its fingerprint, but other rows: a UDF that reads outside data, or data lost at the source."""
    with pytest.raises(Crash):
        table.attempt().run(offsets(0, 3), EU, die)
    attempt = table.attempt()
    with pytest.raises(ConflictingAttempt, match=r"an earlier run of micro-batch 1 .* wrote .*, this one does not"):
        attempt.run(offsets(0, 3), US)
    attempt.run(offsets(0, 3), US)
    assert {each["_hoodie_partition_path"] for each in table.visible_rows()} == {"us"}
    assert table.leftovers() == []


def test_a_file_that_may_still_arrive_from_an_earlier_run_is_a_conflict_too(table: TestTable) -> None:
    attempt = table.attempt()
    with pytest.raises(Crash):
        attempt.run(offsets(0, 3), EU, die)
    (instant,) = table.timeline().pending
    create_marker(
        table.storage,
        instant.request_time,
        "us",
        str(LogFileName(deterministic_file_id(1), instant.request_time, 1)),
    )
    with pytest.raises(ConflictingAttempt):
        attempt.run(offsets(0, 3), EU)


def test_rows_that_differ_each_time_are_searched_for_files_of_tasks_that_ran_twice(table: TestTable) -> None:
    attempt = table.attempt(repeatable=False)

    def first_try() -> None:
        (instant,) = table.timeline().pending
        name = str(LogFileName(deterministic_file_id(1), instant.request_time, 1))
        create_marker(table.storage, instant.request_time, "us", name)

    with pytest.raises(ConflictingAttempt):
        attempt.run(offsets(0, 3), EU, first_try)
    attempt.run(offsets(0, 3), EU)
    assert table.visible_keys() == KEYS
    assert table.leftovers() == []


def test_rows_that_differ_each_time_are_never_resumed_by_another_attempt(table: TestTable) -> None:
    with pytest.raises(Crash):
        table.attempt(repeatable=False).run(offsets(0, 3), EU, die)
    (open_instant,) = table.timeline().pending
    assert table.attempt(repeatable=False).run(offsets(0, 3), EU).instant_time != open_instant.request_time


def test_an_instant_that_an_older_version_began_has_one_kind_of_markers_when_hudi_looks(table: TestTable) -> None:
    with pytest.raises(Crash):
        table.attempt().run(offsets(0, 3), EU, die)
    (instant,) = table.timeline().pending
    files = marked_files(table.storage, instant.request_time)
    delete_markers(table.storage, instant.request_time)
    for file in files:
        partition, _, name = file.rpartition("/")
        create_marker(table.storage, instant.request_time, partition, name)

    lists: list[bytes] = []

    def look() -> None:
        listed = table.storage.list(f"{marker_directory(instant.request_time)}")
        lists.extend(table.storage.get(info.path) for info in listed if "/MARKERS" in info.path)

    assert table.attempt().run(offsets(0, 3), EU, look).instant_time == instant.request_time
    lines = {line for content in lists for line in content.decode().splitlines()}
    assert {"TIMELINE_SERVER_BASED"} | {f"{file}.marker.CREATE" for file in files} == lines
    assert table.leftovers() == []


def test_the_kind_of_markers_is_there_after_the_requested_file_and_before_the_inflight_one(table: TestTable) -> None:
    changed: list[str] = []

    def watch(path: str) -> bool:
        changed.append(path.rpartition("/")[2])
        return False

    table.attempt(FlakyStorage(table.storage, watch)).run(offsets(0, 3), EU)
    (instant,) = table.timeline().completed_commits
    requested, inflight = (f"{instant.request_time}.deltacommit.{state}" for state in ("requested", "inflight"))
    assert changed.index(requested) < changed.index("MARKERS.type") < changed.index(inflight)
