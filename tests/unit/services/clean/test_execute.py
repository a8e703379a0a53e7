"""A clean on a table: what is deleted and recorded, and what stops it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta

import pytest

from bucketingest.errors import BucketIngestError
from bucketingest.hudi.errors import InstantExists, InvalidTable
from bucketingest.hudi.plans.clean_plan import CleanMetadata, CleanPlan, read_clean_plan
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import CLEAN, State
from bucketingest.hudi.timeline.instant_time import format_time
from bucketingest.hudi.timeline.ocf import write_record
from bucketingest.hudi.timeline.timeline import complete, create_inflight, create_requested
from bucketingest.services.clean import execute
from bucketingest.services.clean.choose import Retention
from bucketingest.services.clean.execute import (
    choose_now,
    clean_table,
    finish_pending,
    request,
    run,
)
from bucketingest.services.errors import CleanRefused
from bucketingest.services.protocol.holder import Guarded
from bucketingest.services.protocol.journal import KEPT_FOR
from support.tables.services.cleanable import metadata, pending_clean, planned, three_slices
from support.tables.services.named_slices import HOUR, ago
from support.tables.services.stored_slices import StoredTable


def test_a_clean_deletes_what_it_planned_and_says_so() -> None:
    table = three_slices()
    before, gone = table.data(), planned(table)
    assert len(gone) == 2 * 3 + 1
    done = clean_table(table.guarded(), HOUR)
    assert table.data() == before - gone
    (clean,) = table.cleans()
    (result,) = done.results
    assert clean.is_completed
    assert (result.request_time, result.completion_time, result.files) == (clean.request_time, clean.completion_time, 7)
    plan = read_clean_plan(table.storage, clean.request_time)
    assert plan is not None
    assert plan == done.choice.plan
    assert metadata(table) == CleanMetadata.of(plan, clean.request_time, metadata(table).time_taken_ms)
    assert metadata(table).earliest == ago(10)
    assert table.own_objects() == {f"clean/{clean.request_time}/{name}" for name in ("decision", "done")}


def test_nothing_to_delete_leaves_nothing_on_the_timeline() -> None:
    table = three_slices()
    clean_table(table.guarded(), HOUR)
    before = {info.path for info in table.storage.list()}
    done = clean_table(table.guarded(), HOUR)
    assert (done.results, done.choice.plan) == ((), None)
    assert {info.path for info in table.storage.list()} == before


def test_the_next_clean_goes_on_from_the_last_one() -> None:
    table = three_slices()
    clean_table(table.guarded(), HOUR)
    choice = choose_now(table.guarded(), Retention(retain=timedelta(hours=9)))
    assert choice.limit.instant is None
    assert choice.limit.why.startswith(f"the last clean retained all from {ago(10)} on")


def test_times_are_after_all_known_ones() -> None:
    table = three_slices()
    later = format_time(table.time + timedelta(minutes=1))
    complete(table.storage, ago(1), later, CommitMetadata().encode())
    (result,) = clean_table(table.guarded(), HOUR).results
    assert later < result.request_time < (result.completion_time or "")


def test_a_time_that_another_writer_takes_is_left_to_it() -> None:
    table = three_slices()
    plan = choose_now(table.guarded(), HOUR).plan
    assert plan is not None
    moment = table.time

    def clock() -> datetime:  # asked after the timeline was loaded
        with suppress(InstantExists):
            create_requested(table.storage, format_time(moment), CLEAN)
        return moment

    time = request(table.guarded(clock=clock), plan)
    assert time == format_time(moment + timedelta(milliseconds=1))


def test_without_a_free_time_it_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    table = three_slices()
    plan = choose_now(table.guarded(), HOUR).plan
    assert plan is not None

    def taken(*_: object) -> None:
        raise InstantExists("taken")

    monkeypatch.setattr(execute, "create_requested", taken)
    with pytest.raises(InstantExists, match="no free time"):
        request(table.guarded(), plan)


def test_one_that_is_not_on_the_timeline_is_not_run() -> None:
    table = three_slices()
    before = table.data()
    assert run(table.guarded(), ago(1)).completion_time is None
    assert table.data() == before


def test_a_check_that_fails_stops_before_the_next_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execute, "BATCH", 2)
    table = three_slices()
    before, calls = table.data(), iter(range(100))

    def check() -> None:
        if next(calls) == 3:  # the request's, two batches'
            raise BucketIngestError("fenced out")

    with pytest.raises(BucketIngestError, match="fenced out"):
        clean_table(table.guarded(check=check), HOUR)
    assert len(before - table.data()) == 4
    (clean,) = table.cleans()
    assert clean.state is State.INFLIGHT
    finish_pending(table.guarded())
    assert len(before - table.data()) == 7


def test_what_comes_between_two_batches_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execute, "BATCH", 2)
    table = three_slices()
    clean = pending_clean(table)
    before, last, calls = table.data(), max(planned(table)), iter(range(100))

    def check() -> None:
        if next(calls) == 1:
            table.storage.create(f".hoodie/timeline/{ago(2)}.restore.inflight", b"")

    with pytest.raises(CleanRefused, match="restore"):
        run(table.guarded(check=check), clean)
    assert len(before - table.data()) == 2
    assert last in table.data()


def test_files_that_are_gone_already_count_as_deleted() -> None:
    table = three_slices()
    clean = pending_clean(table)
    table.storage.delete_many(sorted(planned(table))[:3])
    assert run(table.guarded(), clean).files == 7
    assert sum(map(len, metadata(table).files.values())) == 7


def hudis_clean(table: StoredTable, gone: set[str], *, partitions: Sequence[str] = ()) -> str:
    """Hudi plans to delete these files, and these partitions as a whole; the request time."""
    files: dict[str, list[dict[str, object]]] = {"asia": [], "africa": []}
    for path in gone:
        record = {"filePath": f"s3a://bucket/{path}", "isBootstrapBaseFile": False}
        files.setdefault(path.rpartition("/")[0], []).append(record)
    plan = {
        "earliestInstantToRetain": {"timestamp": ago(10), "action": "deltacommit", "state": "COMPLETED"},
        "lastCompletedCommitTimestamp": ago(10),
        "policy": "KEEP_LATEST_COMMITS",
        "version": 2,
        "filePathsToBeDeletedPerPartition": files,
        "partitionsToBeDeleted": list(partitions),
        "extraMetadata": {"theirs": "stays"},
    }
    time = format_time(table.clock())
    create_requested(table.storage, time, CLEAN, write_record("HoodieCleanerPlan", plan))
    create_inflight(table.storage, time, CLEAN)
    table.storage.create("africa/.hoodie_partition_metadata", b"")
    return time


def test_hudis_plan_is_carried_out() -> None:
    table = three_slices()
    gone = planned(table)
    time = hudis_clean(table, gone)
    before = table.data()
    done = clean_table(table.guarded(), HOUR)
    assert [result.request_time for result in done.results] == [time]
    assert table.data() == before - gone
    assert (metadata(table).policy, metadata(table).extra_metadata) == ("KEEP_LATEST_COMMITS", {"theirs": "stays"})
    assert metadata(table).files["africa"] == ()


def test_a_clean_of_a_whole_partition_is_left_to_its_writer_for_a_day() -> None:
    """Its writer may still delete the partition: what it deletes after the completed file nobody looks for."""
    table = three_slices()
    gone = planned(table)
    theirs = hudis_clean(table, gone, partitions=["africa"])
    before = table.data()
    (ours,) = clean_table(table.guarded(), HOUR).results
    assert ours.request_time != theirs, "ours goes on beside it"
    assert table.data() == before - gone
    assert [each.request_time for each in table.timeline().pending] == [theirs]
    table.time += KEPT_FOR
    (finished,) = clean_table(table.guarded(), HOUR).results
    assert finished.request_time == theirs
    assert not table.timeline().pending
    assert "africa/.hoodie_partition_metadata" in table.data(), "no partition is deleted"


def test_a_clean_without_a_plan_is_refused() -> None:
    table = three_slices()
    create_inflight(table.storage, ago(1), CLEAN)
    with pytest.raises(InvalidTable, match="pending without a plan"):
        clean_table(table.guarded(), HOUR)


def test_one_with_files_outside_the_table_is_refused() -> None:
    table = three_slices()
    files = {"eu": [{"filePath": "/elsewhere/x", "isBootstrapBaseFile": True}]}
    plan = {"policy": "", "version": 2, "filePathsToBeDeletedPerPartition": files}
    create_requested(table.storage, ago(1), CLEAN, write_record("HoodieCleanerPlan", plan))
    with pytest.raises(CleanRefused, match="bootstrap"):
        clean_table(table.guarded(), HOUR)


def test_lock_and_check_are_optional() -> None:
    plan = CleanPlan({}, None, "")
    table = three_slices()
    time = request(Guarded(table.storage), plan)
    assert run(Guarded(table.storage), time).files == 0
