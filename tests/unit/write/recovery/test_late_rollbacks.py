"""A rollback of another writer lands after its instant was archived: finishing it deletes the instant's files."""

from __future__ import annotations

import pytest

from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.write.coordinator_api import StartVerdict
from bucketingest.write.errors import PositionLost
from support.tables.abandoned import plan_of
from support.tables.other_writers import archive, commit
from support.tables.table_runs import Attempt, TestTable, offsets
from support.tables.write_plans import row

ALL = [(offsets(0, 1), [row("k0")]), (offsets(1, 2), [row("k1")]), (offsets(2, 4), [row("k2"), row(None)])]


def archive_two(table: TestTable) -> tuple[Attempt, str]:
    """Two archived instants of the pipeline and one that is not; the attempt that wrote them, and the first one."""
    attempt = table.attempt()
    attempt.go_on(*ALL[:2])
    first = table.timeline().completed_commits[0].request_time
    archive(table)
    commit(table, CommitMetadata())
    attempt.run(*ALL[2])
    return attempt, first


def test_its_rows_are_ingested_again_by_the_next_start(table: TestTable) -> None:
    _, first = archive_two(table)
    plan_of(table, first)
    again = table.attempt()
    assert again.start.verdict is StartVerdict.REWOUND
    assert again.coordinator.position is not None
    assert again.coordinator.position.end == ALL[0][0].start
    again.go_on(*ALL)
    assert again.coordinator.position == offsets(2, 4)
    assert len(table.published_letters()) == 1
    last = table.attempt()
    assert last.start.verdict is StartVerdict.IN_STEP, "once"
    assert last.coordinator.position == offsets(2, 4)


def test_its_rows_are_ingested_again_by_the_attempt_that_runs(table: TestTable) -> None:
    attempt, first = archive_two(table)
    attempt.run(offsets(4, 5), [row("k4")])
    plan_of(table, first)
    with pytest.raises(PositionLost, match=first):
        attempt.run(offsets(5, 6), [row("k5")])


def test_a_rollback_of_an_instant_that_never_completed_is_of_no_concern(table: TestTable) -> None:
    attempt, first = archive_two(table)
    plan_of(table, str(int(first) - 1))
    attempt.run(offsets(4, 5), [row("k4")])
    assert table.attempt().start.verdict is StartVerdict.IN_STEP
