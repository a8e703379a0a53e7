"""What pipelines of other names left on the table, also late: a pipeline that was renamed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bucketingest.errors import BucketIngestError
from bucketingest.hudi.naming import deterministic_file_id
from bucketingest.hudi.plans.compaction_plan import CompactionPlan
from bucketingest.hudi.rollback.rollback import roll_back
from bucketingest.hudi.timeline.instant import COMPACTION
from bucketingest.hudi.timeline.timeline import create_requested, path_of
from bucketingest.storage import StorageUnavailable
from bucketingest.write.coordinator_api import StartVerdict
from bucketingest.write.errors import FencedOut
from bucketingest.write.instants.journal import Journal
from bucketingest.write.instants.records import AbortDecision
from support.storage.crashing_storage import Crash, CrashingStorage
from support.storage.flaky_storage import FlakyStorage
from support.tables.other_writers import request_compaction
from support.tables.table_runs import PIPELINE, TestTable, offsets
from support.tables.write_plans import row

ROWS = [row("k0"), row("k1", amount=1)]
RENAMED = "shop/orders-2"


def die() -> None:
    raise Crash


def is_completed_file(path: str) -> bool:
    return path.endswith(".deltacommit") and "/timeline/" in path


def test_an_instant_that_a_pipeline_of_another_name_left_open_is_rolled_back(table: TestTable) -> None:
    former = table.attempt()
    with pytest.raises(Crash):
        former.run(offsets(0, 2), ROWS, die)
    attempt = table.attempt(pipeline=RENAMED)
    assert table.leftovers() == []
    assert attempt.start.verdict is StartVerdict.NEW, "instants of the former name are not this pipeline's"
    with pytest.raises(FencedOut):
        former.run(offsets(0, 2), ROWS)
    attempt.run(offsets(0, 2), ROWS)
    assert table.visible_keys() == ["k0", "k1"]


def test_an_instant_that_is_complete_stays_so_beside_a_compaction_of_its_time(table: TestTable) -> None:
    """The request of the compaction was on its way for long, and the clocks are behind the table's times."""
    with pytest.raises(StorageUnavailable):
        table.attempt(FlakyStorage(table.storage, lambda path: path.endswith("/done"))).run(offsets(0, 2), ROWS)
    (instant,) = table.timeline().completed_commits
    request_compaction(table, instant.request_time, {"operations": []})
    attempt = table.attempt()
    assert attempt.start.verdict in (StartVerdict.RESUMED, StartVerdict.IN_STEP)
    assert attempt.coordinator.position == offsets(0, 2)
    table.attempt()
    assert table.visible_keys() == ["k0", "k1"]


def test_what_a_pipeline_of_another_name_decided_to_commit_is_completed(table: TestTable) -> None:
    rows = [*ROWS, row(None)]
    with pytest.raises(BucketIngestError):
        table.attempt(FlakyStorage(table.storage, is_completed_file)).run(offsets(0, 3), rows)
    table.attempt(pipeline=RENAMED)
    assert table.visible_keys() == ["k0", "k1"]
    assert len(table.published_letters()) == 1
    assert table.attempt().coordinator.position == offsets(0, 3)


def test_late_files_of_a_pipeline_of_another_name_are_swept(table: TestTable) -> None:
    with pytest.raises(Crash):
        table.attempt().run(offsets(0, 2), ROWS, die)
    late = {info.path: table.storage.get(info.path) for info in table.storage.list("eu") if ".log." in info.path}
    table.attempt(pipeline=RENAMED)
    for path, content in late.items():
        table.storage.create(path, content)
    table.attempt(pipeline=RENAMED)
    assert table.leftovers() == []


def test_late_files_are_swept_although_a_compaction_had_the_time_of_their_instant_for_a_while(table: TestTable) -> None:
    """A paused process requests it after the instant was rolled back by hand, and a later one gives it up."""
    with pytest.raises(Crash):
        table.attempt().run(offsets(0, 2), ROWS, die)
    (instant,) = (each.request_time for each in table.timeline().instants)
    late = {info.path: table.storage.get(info.path) for info in table.storage.list("eu") if ".log." in info.path}
    journal = Journal(table.storage, PIPELINE)
    journal.decide(instant, AbortDecision("by hand"))
    roll_back(table.storage, instant)
    for path, content in late.items():
        table.storage.create(path, content)
    request = create_requested(table.storage, instant, COMPACTION, CompactionPlan(()).encode())
    base = f"eu/{deterministic_file_id(0)}_1-0-0_{instant}.parquet"
    table.storage.create(base, b"of the compaction")
    table.attempt()
    assert table.storage.exists(base), "it may be complete soon"
    table.storage.delete(path_of(request))
    table.attempt()
    assert not [path for path in late if table.storage.exists(path)]


def test_what_cannot_be_settled_of_another_name_does_not_stop_the_start(table: TestTable) -> None:
    rows = [*ROWS, row(None)]
    with pytest.raises(Crash):
        table.attempt(dead_letters=CrashingStorage(table.dead_letters, 0, after_effect=False)).run(offsets(0, 3), rows)
    denied = FlakyStorage(table.dead_letters, lambda _: True)
    attempt = table.attempt(dead_letters=denied, pipeline=RENAMED)
    attempt.run(offsets(0, 2), ROWS)
    assert table.published_letters() == []
    table.attempt(pipeline=RENAMED)
    assert len(table.published_letters()) == 1


def test_a_time_that_a_pipeline_of_another_name_claimed_is_not_taken_again(table: TestTable) -> None:
    """A paused process of that name may still roll back the instant of this time, and delete its files."""
    noon = datetime(2026, 11, 21, 12, tzinfo=UTC)
    dies_before_requested = FlakyStorage(table.storage, lambda path: path.endswith(".requested"))
    with pytest.raises(BucketIngestError):
        table.attempt(dies_before_requested, clock=lambda: noon).run(offsets(0, 2), ROWS)
    table.attempt(pipeline=RENAMED, clock=lambda: noon).run(offsets(0, 2), ROWS)
    former, renamed = (Journal(table.storage, pipeline).instants() for pipeline in (PIPELINE, RENAMED))
    assert former
    assert renamed
    assert not set(former) & set(renamed)


def test_a_former_name_that_starts_again_ingests_its_rows_again(table: TestTable) -> None:
    with pytest.raises(Crash):
        table.attempt().run(offsets(0, 2), ROWS, die)
    table.attempt(pipeline=RENAMED)
    table.attempt().run(offsets(0, 2), ROWS)
    assert table.visible_keys() == ["k0", "k1"]


@pytest.mark.parametrize("after_effect", [False, True], ids=["before", "after"])
def test_a_crash_while_another_name_is_settled_is_finished_by_the_next_start(after_effect: bool) -> None:
    for dies_at in range(100):
        table = TestTable()
        with pytest.raises(Crash):
            table.attempt().run(offsets(0, 2), ROWS, die)
        try:
            table.attempt(CrashingStorage(table.storage, dies_at, after_effect=after_effect), pipeline=RENAMED)
        except Crash:
            table.attempt(pipeline=RENAMED)
            assert table.leftovers() == [], f"after a crash at change {dies_at}"
        else:
            assert dies_at > 10
            return
