"""What other writers do late to instants whose journal objects are gone, and to instants far back on the timeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from bucketingest.hudi.naming import join
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.timeline import create_inflight
from bucketingest.write.coordinator_api import StartVerdict
from bucketingest.write.errors import PositionLost
from bucketingest.write.instants.journal import Journal
from bucketingest.write.instants.source_range import SourceRange
from support.tables.instants.abandoned import plan_of
from support.tables.other_writers import archive, commit, later, schedule_compaction
from support.tables.table_runs import PIPELINE, Rows, TestTable, offsets
from support.tables.write_plans import row

FAR: Final = 210
"""Instants between the one that is lost and the newest."""


def rows_of(number: int) -> tuple[SourceRange, Rows]:
    return offsets(number, number + 1), [row("k0", amount=number)]


def forget_all(table: TestTable) -> None:
    journal = Journal(table.storage, PIPELINE)
    journal.forget(journal.instants())


def test_a_plan_that_leaves_out_a_forgotten_instant_is_found_once_and_every_start_after_it_works(
    table: TestTable,
) -> None:
    attempt = table.attempt()
    attempt.go_on(rows_of(0), rows_of(1))
    second = table.timeline().completed_commits[1].request_time
    forget_all(table)
    schedule_compaction(table, without=[second])
    with pytest.raises(PositionLost, match=second):
        attempt.run(*rows_of(2))
    again = table.attempt()
    assert again.start.verdict is StartVerdict.REWOUND
    assert again.coordinator.position is not None
    assert again.coordinator.position.end == offsets(0, 1).end
    again.go_on(rows_of(1), rows_of(2))
    last = table.attempt()
    assert last.start.verdict is StartVerdict.IN_STEP
    assert last.coordinator.position == offsets(2, 3)


def test_a_mark_that_came_alone_does_not_make_a_completed_instant_undecided(table: TestTable) -> None:
    """A process died, or paused, between two objects of a forgotten instant."""
    table.attempt().go_on(rows_of(0), rows_of(1))
    second = table.timeline().completed_commits[1].request_time
    forget_all(table)
    schedule_compaction(table, without=[second])
    table.storage.create(f".hoodie/.bucketingest/shop~orders/instants/{second}/overtaken", b"{}")
    again = table.attempt()
    assert again.start.verdict is StartVerdict.REWOUND
    assert Journal(table.storage, PIPELINE).decision(second) is None
    again.go_on(rows_of(1), rows_of(2))
    assert table.attempt().start.verdict is StartVerdict.IN_STEP


@pytest.fixture(scope="module")
def objects() -> dict[str, bytes]:
    """All objects of a table with a long timeline."""
    table = TestTable()
    attempt = table.attempt()
    for number in range(FAR):
        attempt.run(*rows_of(number))
    forget_all(table)
    return {info.path: table.storage.get(info.path) for info in table.storage.list()}


def by_a_plan(table: TestTable, instant: str) -> None:
    """Its scheduler loaded the timeline before the instant completed, and its request was on its way until now."""
    after = [each.request_time for each in table.timeline().completed_commits if each.request_time >= instant]
    schedule_compaction(table, time=later(table.timeline().completion_time(instant) or ""), without=after)


def by_a_rollback(table: TestTable, instant: str) -> None:
    plan_of(table, instant)


@pytest.mark.parametrize("lost", [by_a_plan, by_a_rollback])
def test_an_instant_far_back_that_another_writer_takes_out_late_is_ingested_again(
    table: TestTable, objects: dict[str, bytes], lost: Callable[[TestTable, str], None]
) -> None:
    for path, content in objects.items():
        table.storage.put(path, content)
    second = table.timeline().completed_commits[1].request_time
    attempt = table.attempt()
    lost(table, second)
    with pytest.raises(PositionLost, match=second):
        attempt.run(*rows_of(FAR))
    again = table.attempt()
    assert again.start.verdict is StartVerdict.REWOUND
    assert again.coordinator.position is not None
    assert again.coordinator.position.end == offsets(0, 1).end


def test_an_archived_instant_that_comes_again_after_it_was_forgotten_keeps_its_rows(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.go_on((offsets(0, 1), [row("k0")]), (offsets(1, 2), [row("k1")]))
    first = table.timeline().completed_commits[0].request_time
    content = table.storage.get(join(".hoodie/timeline", f"{first}.deltacommit.inflight"))
    archive(table)
    commit(table, CommitMetadata())
    forget_all(table)
    create_inflight(table.storage, first, content=content)
    table.attempt()
    assert table.visible_keys() == ["k0", "k1"]
    assert table.leftovers() == []


def test_a_forgotten_instant_that_comes_again_below_the_archive_does_not_fail_the_start(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.go_on(rows_of(0), rows_of(1))
    first, second = (each.request_time for each in table.timeline().completed_commits)
    content = table.storage.get(join(".hoodie/timeline", f"{first}.deltacommit.inflight"))
    archive(table)
    commit(table, CommitMetadata())
    create_inflight(table.storage, later(first), content=content)
    create_inflight(table.storage, second, content=content)
    table.attempt()
    assert table.leftovers() == []
    assert len(table.visible_keys()) == 2
