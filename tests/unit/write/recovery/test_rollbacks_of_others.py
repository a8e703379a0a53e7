"""What another writer left: its pending rollbacks are finished, its instants are rolled back only by name."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from bucketingest.hudi.naming import LogFileName, deterministic_file_id, join
from bucketingest.hudi.rollback.markers import create_marker
from bucketingest.hudi.rollback.rollback import RollbackOptions, roll_back
from bucketingest.hudi.timeline.instant import ROLLBACK, Instant, State
from bucketingest.hudi.timeline.instant_time import format_time
from bucketingest.hudi.timeline.timeline import create_inflight, create_requested, path_of
from bucketingest.write.instants.journal import Journal
from bucketingest.write.instants.records import AbortDecision
from bucketingest.write.pipeline_names import pipelines
from bucketingest.write.recovery.decide import Left, Step, choose
from bucketingest.write.recovery.survey import survey
from support.tables.instants.abandoned import (
    FIRST,
    go_on,
    instant_gone_and_rollback_not_completed,
    leave_open,
    open_instant,
    pending_rollback_with_everything_there,
    plan_of,
    roll_back_table,
    two_pending_rollbacks,
)
from support.tables.table_runs import PIPELINE, TestTable, offsets


def rolled_back_under_another_rollback(table: TestTable) -> str:
    instant = open_instant(table)
    time = plan_of(table, instant)
    requested = path_of(Instant(time, ROLLBACK, State.REQUESTED))
    content = table.storage.get(requested)
    table.storage.delete(requested)
    roll_back(table.storage, instant, RollbackOptions(known_times=(time,)))
    table.storage.create(requested, content)
    return time


@pytest.mark.parametrize(
    "trap",
    [
        pending_rollback_with_everything_there,
        two_pending_rollbacks,
        instant_gone_and_rollback_not_completed,
        rolled_back_under_another_rollback,
    ],
)
def test_a_rollback_that_another_writer_left_is_finished(table: TestTable, trap: Callable[[TestTable], str]) -> None:
    leave_open(table)
    time = trap(table)
    assert [outcome.did for outcome in roll_back_table(table)] == [Step.FINISH_ROLLBACK]
    found = table.timeline().find(time, ROLLBACK)
    assert found is not None
    assert found.is_completed
    assert table.leftovers() == []
    assert roll_back_table(table) == []
    go_on(table)


def test_a_rollback_of_a_table_service_is_left_to_hudi(table: TestTable) -> None:
    table.attempt().run(offsets(0, 6), FIRST)
    compaction = format_time(datetime.now(UTC) + timedelta(seconds=1))
    create_requested(table.storage, compaction, "compaction", b"plan")
    time = plan_of(table, compaction, action="compaction")
    before = sorted(info.path for info in table.storage.list(""))
    assert roll_back_table(table) == []
    assert sorted(info.path for info in table.storage.list("")) == before
    (choice,) = choose(survey(table.storage, [time], datetime.now(UTC)).instants, [compaction], force=True)
    assert choice.left is Left.REFUSED


def test_a_pending_rollback_without_a_plan_is_reported_and_left(table: TestTable) -> None:
    table.attempt()
    time = format_time(datetime.now(UTC))
    create_requested(table.storage, time, ROLLBACK, b"")
    found = survey(table.storage, (), datetime.now(UTC))
    assert [(each.rollback_time, each.problem) for each in found.unreadable] == [
        (time, f".hoodie/timeline/{time}.rollback.requested is empty")
    ]
    assert found.instants == ()


def foreign_instant(table: TestTable) -> str:
    """A pending instant of another writer, with a file and its marker."""
    instant = format_time(datetime.now(UTC))
    create_requested(table.storage, instant)
    create_inflight(table.storage, instant, content=b"")
    name = str(LogFileName(deterministic_file_id(1), instant, 1))
    create_marker(table.storage, instant, "eu", name)
    table.storage.create(join("eu", name), b"rows")
    return instant


def test_another_writers_instant_is_rolled_back_only_by_name(table: TestTable) -> None:
    table.attempt().run(offsets(0, 6), FIRST)
    instant = foreign_instant(table)
    assert roll_back_table(table) == []
    assert roll_back_table(table, instant, after=timedelta()) == [], "its file on the timeline is young"
    (outcome,) = roll_back_table(table, instant)
    assert (outcome.did, len(outcome.deleted)) == (Step.ROLL_BACK, 1)
    assert table.leftovers() == []
    assert pipelines(table.storage) == (PIPELINE,), "the other writer's instant became a pipeline's"


def test_a_time_that_an_attempt_took_in_vain_may_be_another_writers_instant(table: TestTable) -> None:
    table.attempt().run(offsets(0, 6), FIRST)
    instant = foreign_instant(table)
    journal = Journal(table.storage, PIPELINE)
    journal.decide(instant, AbortDecision("it never got onto the timeline"))
    before = sorted(info.path for info in table.storage.list(""))
    assert roll_back_table(table) == []
    assert sorted(info.path for info in table.storage.list("")) == before


def test_a_rollback_is_named_by_its_own_time_too(table: TestTable) -> None:
    table.attempt()
    instant = foreign_instant(table)
    time = plan_of(table, instant)
    (outcome,) = roll_back_table(table, time)
    assert (outcome.did, outcome.rollback_time) == (Step.FINISH_ROLLBACK, time)
