"""Another writer acts between a decision and its completed file, or plans a compaction without our rows: the rows are
ingested again.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from bucketingest.hudi.timeline.instant import DELTA_COMMIT, Instant, State
from bucketingest.hudi.timeline.overtaking import overtaken_by
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.storage import StorageUnavailable
from bucketingest.write.coordinator_api import StartVerdict
from bucketingest.write.errors import InstantAborted
from bucketingest.write.instants.journal import Journal
from bucketingest.write.instants.records import CommitDecision
from bucketingest.write.recovery.command import RollbackExecutor
from bucketingest.write.recovery.decide import Step, choose
from bucketingest.write.recovery.survey import survey
from support.storage.flaky_storage import FlakyStorage
from support.tables.instants.decided_commits import (
    ALL,
    FIRST,
    SECOND,
    by_a_commit,
    by_a_compaction,
    is_completed_file,
    leave_decided,
)
from support.tables.other_writers import replace_file_groups, schedule_compaction
from support.tables.table_runs import PIPELINE, TestTable, offsets


@pytest.mark.parametrize("overtake", [by_a_compaction, by_a_commit])
def test_a_decided_commit_that_was_overtaken_is_never_completed_late(
    table: TestTable, overtake: Callable[[TestTable], None]
) -> None:
    table.attempt().run(*ALL[0])
    instant = leave_decided(table)
    overtake(table)
    attempt = table.attempt()
    assert attempt.start.verdict is StartVerdict.REWOUND
    assert attempt.coordinator.position == offsets(0, 2)
    assert table.timeline().find(instant) is None
    assert Journal(table.storage, PIPELINE).is_overtaken(instant)
    attempt.go_on(*ALL)
    assert table.visible_keys() == ["k0", "k1", "k2"]
    newest = table.timeline().completed_commits[-1].request_time
    assert newest > max(table.timeline().compactions, default=""), "in the new slice"


def test_a_decided_commit_that_nothing_overtook_is_completed_as_decided(table: TestTable) -> None:
    table.attempt().run(*ALL[0])
    instant = leave_decided(table)
    decision = Journal(table.storage, PIPELINE).decision(instant)
    assert table.attempt().start.verdict is StartVerdict.RESUMED
    found = table.timeline().find(instant)
    assert isinstance(decision, CommitDecision)
    assert found is not None
    assert found.completion_time == decision.completion_time


def test_the_rollback_command_does_not_complete_late_either(table: TestTable) -> None:
    table.attempt().run(*ALL[0])
    instant = leave_decided(table)
    schedule_compaction(table)
    found = survey(table.storage, [instant], datetime.now(UTC) + timedelta(minutes=10))
    (outcome,) = RollbackExecutor(table.storage).carry_out(choose(found.instants, found.wanted, force=True))
    assert outcome.did is Step.ROLL_BACK
    assert table.timeline().find(instant) is None
    table.attempt().go_on(*ALL)
    assert table.visible_keys() == ["k0", "k1", "k2"]


def test_a_completed_file_that_is_put_again_is_looked_at_before(table: TestTable) -> None:
    """The first attempt's answer is lost, and a compaction is scheduled before the retry."""
    table.attempt().run(*ALL[0])
    failures = iter([True])

    def fails(path: str) -> bool:
        if is_completed_file(path) and next(failures, False):
            schedule_compaction(table)
            return True
        return False

    attempt = table.attempt(FlakyStorage(table.storage, fails), max_retries=3)
    with pytest.raises(InstantAborted, match="came before instant"):
        attempt.run(*ALL[1])
    attempt.run(*ALL[1])
    assert table.visible_keys() == ["k0", "k1", "k2"]


def test_rows_in_a_file_group_that_was_replaced_before_they_completed_are_ingested_again(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.run(*ALL[0])
    (group,) = {(r["_hoodie_partition_path"], r["_hoodie_file_name"]) for r in table.visible_rows()[:1]}

    def replace() -> None:
        replace_file_groups(table, {group[0]: [group[1]]})

    with pytest.raises(InstantAborted, match=f"another writer replaced file group {group[1]}"):
        attempt.run(offsets(2, 4), [*SECOND, FIRST[0]], replace)
    attempt.run(offsets(2, 4), [*SECOND, FIRST[0]])
    names = {r["_hoodie_file_name"] for r in table.visible_rows() if r["_hoodie_record_key"] == "k0"}
    assert len(names) == 2, "its bucket has a new file group"


@pytest.mark.parametrize(
    ("file_name", "overtakes"),
    [
        ("20261121080300000.compaction.requested", True),
        ("20261121080100000.compaction.requested", False),
        ("20261121080300000.clustering.inflight", True),
        ("20261121080300000.logcompaction.requested", True),
        ("20261121080300000_20261121080400000.replacecommit", True),
        ("20261121080100000_20261121080400000.deltacommit", True),
        ("20261121080100000_20261121080150000.deltacommit", False),
        ("20261121080300000.deltacommit.inflight", False),
        ("20261121080300000_20261121080400000.rollback", False),
        ("20261121080300000_20261121080400000.clean", False),
        ("20261121080300000_20261121080400000.savepoint", False),
    ],
)
def test_table_services_requested_and_writes_completed_since_the_decision_overtake(
    file_name: str, overtakes: bool
) -> None:
    own = Instant("20261121080000000", DELTA_COMMIT, State.INFLIGHT)
    timeline = Timeline.of_file_names([own.file_name, file_name])
    assert (overtaken_by(timeline, own.request_time, "20261121080200000") is not None) is overtakes


def test_the_storage_that_fails_for_good_leaves_a_decision_that_the_next_start_carries_out(table: TestTable) -> None:
    with pytest.raises(StorageUnavailable):
        table.attempt(FlakyStorage(table.storage, is_completed_file), max_retries=1).run(*ALL[0])
    table.attempt().go_on(*ALL)
    assert table.visible_keys() == ["k0", "k1", "k2"]
