"""What stops a clean between its plan and its deletions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bucketingest.hudi.naming import BaseFileName, LogFileName
from bucketingest.hudi.plans.clean_plan import SAVEPOINTS, CleanPlan
from bucketingest.hudi.plans.compaction_plan import CompactionOperation, CompactionPlan
from bucketingest.hudi.rollback.plan import RollbackPlan
from bucketingest.hudi.timeline.instant import COMMIT, COMPACTION, RESTORE, ROLLBACK
from bucketingest.hudi.timeline.timeline import create_requested, path_of
from bucketingest.services.clean.choose import Retention
from bucketingest.services.clean.execute import choose_now, request, run
from bucketingest.services.clean.guard import Guard
from bucketingest.services.errors import CleanRefused
from support.tables.services.named_slices import FILE_ID, GROUP, HOUR, NamedTable, ago
from support.tables.services.stored_slices import StoredTable

OLD = f"eu/{LogFileName(FILE_ID, ago(300), 1)}"


def two_slices() -> StoredTable:
    table = NamedTable()
    table.write(300)
    table.compact(200)
    table.write(10)
    return StoredTable(table)


def guard(table: StoredTable, plan: CleanPlan | None = None) -> Guard:
    plan = plan or choose_now(table.guarded(), Retention(versions=1)).plan
    assert plan is not None
    assert list(plan.paths) == [OLD]
    return Guard(table.storage, plan, "it")


def take_back_compaction(table: StoredTable) -> None:
    compaction = table.timeline().find(ago(200), COMMIT)
    assert compaction is not None
    table.storage.delete(path_of(compaction))


def roll_back_compaction(table: StoredTable) -> None:
    content = RollbackPlan(ago(200), COMMIT, ()).encode(table.storage.absolute)
    create_requested(table.storage, ago(1), ROLLBACK, content)


def plan_old_slice_again(table: StoredTable) -> None:
    """As a scheduler without a lock does that looked at the table before the last compaction."""
    partition_path, _, name = OLD.rpartition("/")
    operation = CompactionOperation(partition_path, FILE_ID, ago(300), None, (name,))
    create_requested(table.storage, ago(1), COMPACTION, CompactionPlan((operation,)).encode())


def test_without_a_reason_it_lets_pass() -> None:
    guard(two_slices()).check()


@pytest.mark.parametrize(
    ("happens", "reason"),
    [
        (take_back_compaction, f"{ago(200)}, which superseded files of its plan, is no longer completed"),
        (roll_back_compaction, f"{ago(200)}, which superseded files of its plan, is being rolled back"),
        (lambda table: table.savepoint(ago(300), [OLD]), f"savepoint {ago(300)} keeps {OLD}"),
        (lambda table: table.savepoint(ago(300), [], pending=True), f"savepoint {ago(300)} is pending"),
        (plan_old_slice_again, f"pending compaction {ago(1)} reads {OLD}"),
        (lambda table: create_requested(table.storage, ago(1), RESTORE), f"restore {ago(1)} takes the table back"),
        (
            lambda table: table.storage.create(f".hoodie/timeline/{ago(2)}_{ago(1)}.restore", b""),
            f"restore {ago(2)} takes the table back",
        ),
    ],
)
def test_what_happens_meanwhile_stops_it(happens: Callable[[StoredTable], None], reason: str) -> None:
    table = two_slices()
    made = guard(table)
    happens(table)
    with pytest.raises(CleanRefused, match=reason):
        made.check()


def test_a_restore_that_was_pending_before_stops_it_too() -> None:
    table = two_slices()
    plan = choose_now(table.guarded(), HOUR).plan
    create_requested(table.storage, ago(1), RESTORE)
    with pytest.raises(CleanRefused, match=f"restore {ago(1)} takes the table back"):
        guard(table, plan).check()


def test_savepoints_that_do_not_need_the_files_let_it_pass() -> None:
    table = two_slices()
    table.savepoint(ago(10), ["eu/other"])
    table.savepoint(ago(200), [], pending=True)
    plan = choose_now(table.guarded(), Retention(versions=1)).plan
    assert plan is not None
    known = CleanPlan(plan.files, None, "", extra_metadata={SAVEPOINTS: f"{ago(10)},{ago(200)}"})
    guard(table, known).check()


def test_a_pending_savepoint_of_a_retained_moment_lets_it_pass() -> None:
    table = two_slices()
    plan = choose_now(table.guarded(), HOUR).plan
    table.savepoint(ago(10), [], pending=True)
    guard(table, plan).check()
    table.savepoint(ago(200), [], pending=True)
    with pytest.raises(CleanRefused, match=f"savepoint {ago(200)} is pending"):
        guard(table, plan).check()


def test_a_restore_that_is_over_lets_a_plan_pass_that_still_holds() -> None:
    table = two_slices()
    table.storage.create(f".hoodie/timeline/{ago(2)}_{ago(1)}.restore", b"")
    guard(table).check()


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        (BaseFileName(FILE_ID, ago(200)), "the newest slice of eu/"),
        (LogFileName(FILE_ID, ago(10), 1), "the newest slice of eu/"),
        (LogFileName(FILE_ID, ago(250), 1), f"instant {ago(250)} of eu/.* is not completed"),
    ],
)
def test_a_plan_that_would_lose_rows_is_refused_at_once(file: BaseFileName | LogFileName, reason: str) -> None:
    """Whoever made it: the compaction after which it was right may have been rolled back since."""
    table = two_slices()
    table.storage.put(f"eu/{file}", b"")
    with pytest.raises(CleanRefused, match=reason):
        Guard(table.storage, CleanPlan({"eu": (str(file),)}, None, ""), "it")


def test_a_replaced_group_may_go_with_its_newest_slice() -> None:
    named = NamedTable()
    named.write(300)
    named.replace(200, GROUP)
    guard(StoredTable(named)).check()


def test_a_plan_that_is_refused_is_not_requested() -> None:
    """On the timeline Hudi's next clean would carry it out unchecked."""
    table = two_slices()
    plan = choose_now(table.guarded(), HOUR).plan
    assert plan is not None
    with pytest.raises(CleanRefused, match=f"a new clean is not carried out now: savepoint {ago(300)}"):
        request(table.guarded(check=lambda: table.savepoint(ago(300), [OLD])), plan)
    assert table.cleans() == []


def test_nothing_is_deleted_once_it_is_refused() -> None:
    table = two_slices()
    plan = choose_now(table.guarded(), HOUR).plan
    assert plan is not None
    create_requested(table.storage, ago(1), "clean", plan.encode(table.storage.absolute))
    take_back_compaction(table)
    before = table.data()
    with pytest.raises(CleanRefused, match=f"clean {ago(1)} is not carried out now"):
        run(table.guarded(), ago(1))
    assert table.data() == before
