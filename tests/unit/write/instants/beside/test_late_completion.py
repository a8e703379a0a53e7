"""A completed file that appears during or after the rollback of its instant."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.timeline import complete, path_of
from bucketingest.storage import StorageUnavailable
from bucketingest.storage.interface import Data
from bucketingest.write.coordinator_api import StartVerdict
from bucketingest.write.instants.journal import Journal
from bucketingest.write.instants.records import CommitDecision
from bucketingest.write.recovery.command import RollbackExecutor
from bucketingest.write.recovery.decide import Step, choose
from bucketingest.write.recovery.survey import survey
from support.storage.flaky_storage import FlakyStorage
from support.tables.instants.decided_commits import ALL, by_a_commit, by_a_compaction, leave_decided
from support.tables.other_writers import archive, commit, schedule_compaction
from support.tables.table_runs import PIPELINE, TestTable, offsets
from support.tables.write_plans import row


def test_a_late_completed_file_of_a_rolled_back_instant_is_deleted_at_the_next_start(
    table: TestTable,
) -> None:
    table.attempt().run(*ALL[0])
    instant = leave_decided(table)
    decision = Journal(table.storage, PIPELINE).decision(instant)
    assert isinstance(decision, CommitDecision)
    schedule_compaction(table)
    table.attempt().go_on(*ALL)
    complete(table.storage, instant, decision.completion_time, decision.content)  # by the paused attempt
    attempt = table.attempt()
    assert attempt.coordinator.position == offsets(2, 3)
    assert table.timeline().find(instant) is None
    assert table.visible_keys() == ["k0", "k1", "k2"]


def test_an_instant_that_was_completed_after_its_rollback_and_archived_stops_nothing(table: TestTable) -> None:
    """Its attempt was paused before the completed file; then another writer archived it as a completed one."""
    table.attempt().run(*ALL[0])
    instant = leave_decided(table)
    by_a_commit(table)
    table.attempt().go_on(ALL[1])
    decision = Journal(table.storage, PIPELINE).decision(instant)
    assert isinstance(decision, CommitDecision)
    complete(table.storage, instant, decision.completion_time, decision.content)
    archive(table)
    commit(table, CommitMetadata())
    table.attempt().run(offsets(3, 4), [row("k3", amount=4)])
    assert table.visible_keys()[-1] == "k3"
    assert table.attempt().coordinator.position == offsets(3, 4)


class CompletedFileLandsLate(FlakyStorage):
    """A storage on which the completed file of an instant appears when its rollback has been requested."""

    def __init__(self, table: TestTable, instant: str) -> None:
        super().__init__(table.storage, lambda _: self.dies and self._landed)
        self._table = table
        self._instant = instant
        self._landed = False
        self.dies = False
        """Whether nothing more is changed afterwards."""

    def create(self, path: str, data: Data) -> None:
        super().create(path, data)
        if path.endswith(".rollback.requested"):
            decision = Journal(self._table.storage, PIPELINE).decision(self._instant)
            assert isinstance(decision, CommitDecision)
            complete(self._table.storage, self._instant, decision.completion_time, decision.content)
            self._landed = True


def test_a_rollback_that_a_late_completed_file_overtook_is_finished(table: TestTable) -> None:
    """Every write of Hudi's single writer fails over a rollback that stays pending."""
    table.attempt().run(*ALL[0])
    instant = leave_decided(table)
    by_a_compaction(table)
    attempt = table.attempt(CompletedFileLandsLate(table, instant))
    assert attempt.start.verdict is StartVerdict.REWOUND
    assert [each.action for each in table.timeline().pending if each.action == "rollback"] == []
    assert table.timeline().find(instant) is None
    attempt.go_on(ALL[1])
    assert table.visible_keys()[-1] == "k2"
    assert table.attempt().coordinator.position == offsets(2, 3)


def test_a_rollback_that_a_late_completed_file_overtook_is_finished_by_the_next_start(table: TestTable) -> None:
    """The start that requested it died."""
    table.attempt().run(*ALL[0])
    instant = leave_decided(table)
    by_a_compaction(table)
    storage = CompletedFileLandsLate(table, instant)
    storage.dies = True
    with pytest.raises(StorageUnavailable):
        table.attempt(storage)
    attempt = table.attempt()
    assert attempt.start.verdict is StartVerdict.REWOUND
    assert [each.action for each in table.timeline().pending if each.action == "rollback"] == []
    assert table.timeline().find(instant) is None
    attempt.go_on(ALL[1])
    assert table.attempt().coordinator.position == offsets(2, 3)


def test_an_instant_that_its_own_attempt_took_for_complete_meanwhile_is_rolled_back_all_the_same(
    table: TestTable,
) -> None:
    """The start that finished the rollback died after it had deleted the completed file."""
    table.attempt().run(*ALL[0])
    instant = leave_decided(table)
    by_a_compaction(table)
    storage = CompletedFileLandsLate(table, instant)
    storage.dies = True
    with pytest.raises(StorageUnavailable):
        table.attempt(storage)
    completed = table.timeline().find(instant)
    assert completed is not None
    table.storage.delete(path_of(completed))
    Journal(table.storage, PIPELINE).mark_done(instant)
    attempt = table.attempt()
    assert table.timeline().find(instant) is None
    assert [each.action for each in table.timeline().pending if each.action == "rollback"] == []
    attempt.go_on(ALL[1])
    assert table.attempt().coordinator.position == offsets(2, 3)


def test_the_rollback_command_takes_no_completed_file_away(table: TestTable) -> None:
    """Its rows come again only when the pipeline starts; readers keep them until then."""
    table.attempt().run(*ALL[0])
    instant = leave_decided(table)
    by_a_compaction(table)
    found = survey(table.storage, [instant], datetime.now(UTC) + timedelta(minutes=10))
    choices = choose(found.instants, found.wanted, force=True)
    (outcome,) = RollbackExecutor(CompletedFileLandsLate(table, instant)).carry_out(choices)
    assert outcome.did is Step.COMPLETE, "by another attempt, meanwhile"
    left = table.timeline().find(instant)
    assert left is not None
    assert left.is_completed
    table.attempt().go_on(ALL[1])
    assert table.timeline().find(instant) is None
