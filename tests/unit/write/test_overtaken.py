"""Another writer comes between a decision and its completed file, or plans a compaction without our rows: they are
ingested again.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from bucketingest.errors import BucketIngestError
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import DELTA_COMMIT, Instant, State
from bucketingest.hudi.timeline.overtaking import overtaken_by
from bucketingest.hudi.timeline.timeline import Timeline, complete, path_of
from bucketingest.storage import StorageUnavailable
from bucketingest.storage.interface import Data
from bucketingest.write.coordinator_api import StartVerdict
from bucketingest.write.errors import InstantAborted, PositionLost
from bucketingest.write.instants.journal import Journal
from bucketingest.write.instants.records import CommitDecision
from bucketingest.write.recovery.command import Abandoner
from bucketingest.write.recovery.decide import Step, choose
from bucketingest.write.recovery.survey import survey
from support.flaky_storage import FlakyStorage
from support.other_writers import archive, commit, next_time, replace_file_groups, schedule_compaction
from support.table_runs import PIPELINE, TestTable, offsets
from support.write_plans import row

FIRST = [row("k0", amount=1), row("k1", amount=2)]
SECOND = [row("k2", amount=3)]
AGAIN = (offsets(2, 3), [row("k0", amount=3)])
"""Into a file group that is there."""
ALL = ((offsets(0, 2), FIRST), (offsets(2, 3), SECOND))


@pytest.fixture
def table() -> TestTable:
    return TestTable()


def is_completed_file(path: str) -> bool:
    return path.endswith(".deltacommit") and "/timeline/" in path


def overtaken_of(table: TestTable) -> set[str]:
    standing = Journal(table.storage, PIPELINE).standing()
    return {instant for instant, objects in standing.items() if "overtaken" in objects}


def leave_decided(table: TestTable) -> str:
    """An attempt that dies between its decision and the completed file; the instant."""
    with pytest.raises(BucketIngestError):
        table.attempt(FlakyStorage(table.storage, is_completed_file)).run(*ALL[1])
    (instant,) = table.timeline().pending
    return instant.request_time


def by_a_compaction(table: TestTable) -> None:
    schedule_compaction(table)


def by_a_commit(table: TestTable) -> None:
    commit(table, CommitMetadata())


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
    (outcome,) = Abandoner(table.storage).carry_out(choose(found.instants, found.wanted, force=True))
    assert outcome.did is Step.ROLL_BACK
    assert table.timeline().find(instant) is None
    table.attempt().go_on(*ALL)
    assert table.visible_keys() == ["k0", "k1", "k2"]


def test_a_completed_file_that_is_put_again_is_looked_at_before(table: TestTable) -> None:
    """The first try's answer is lost, and a compaction is scheduled before the second."""
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


class LateCompletedFile(FlakyStorage):
    """A storage on which a scheduler without a lock puts its plan onto the timeline just before our completed file."""

    def __init__(self, table: TestTable) -> None:
        super().__init__(table.storage, lambda _: False)
        self._table = table
        self.planned = False

    def create(self, path: str, data: Data) -> None:
        if is_completed_file(path) and not self.planned:
            self.planned = True
            request_time, completion_time = path.rpartition("/")[2].removesuffix(".deltacommit").split("_")
            schedule_compaction(self._table, time=next_time(self._table, completion_time), without=[request_time])
        super().create(path, data)


def test_a_commit_that_a_scheduler_without_lock_overtook_is_found_by_the_look_after_it(table: TestTable) -> None:
    table.attempt().run(*ALL[0])
    attempt = table.attempt(LateCompletedFile(table))
    with pytest.raises(PositionLost, match=r"compaction \d+ leaves out instant"):
        attempt.run(*AGAIN)
    (overtaken,) = overtaken_of(table)
    found = table.timeline().find(overtaken)
    assert found is not None
    assert found.is_completed, "readers have seen it: its files stay"
    again = table.attempt()
    assert again.start.verdict is StartVerdict.REWOUND
    assert again.coordinator.position is not None
    assert again.coordinator.position.end == offsets(0, 2).end
    again.go_on(AGAIN)
    assert table.attempt().coordinator.position == offsets(2, 3)
    assert table.visible_keys() == ["k0", "k0", "k0", "k1"], "once in the old slice, once in the new one"


@pytest.fixture
def seen(table: TestTable) -> list[str]:
    """The table's two instants in the same file groups."""
    attempt = table.attempt()
    attempt.run(*ALL[0])
    attempt.run(*AGAIN)
    return [instant.request_time for instant in table.timeline().completed_commits]


@pytest.mark.parametrize("missing", [0, 1], ids=["older", "newer"])
def test_a_plan_that_leaves_rows_out_is_found_by_the_next_look(table: TestTable, seen: list[str], missing: int) -> None:
    attempt = table.attempt()
    compaction = schedule_compaction(table, without=[seen[missing]])
    with pytest.raises(PositionLost, match=seen[missing]):
        attempt.run(offsets(3, 4), SECOND)
    journal = Journal(table.storage, PIPELINE)
    assert overtaken_of(table) == {seen[missing]}
    assert journal.audited() == {compaction}


def test_a_plan_that_leaves_rows_out_while_no_attempt_runs_is_found_at_the_next_start(
    table: TestTable, seen: list[str]
) -> None:
    schedule_compaction(table, without=[seen[0]])
    attempt = table.attempt()
    assert attempt.start.verdict is StartVerdict.REWOUND
    assert attempt.coordinator.position is not None
    assert attempt.coordinator.position.end == offsets(0, 2).start


def test_rows_that_were_archived_before_a_plan_appeared_that_leaves_them_out_are_found_too(
    table: TestTable, seen: list[str]
) -> None:
    """By a scheduler that slept between its look at the timeline and its plan."""
    plan = schedule_compaction(table, without=[seen[1]])
    path = path_of(Instant(plan, "compaction", State.REQUESTED))
    content = table.storage.get(path)
    table.storage.delete(path)
    archive(table)
    commit(table, CommitMetadata())
    table.storage.create(path, content)
    again = table.attempt()
    assert again.start.verdict is StartVerdict.REWOUND
    again.run(*AGAIN)
    again.run(offsets(3, 4), SECOND)
    assert table.attempt().coordinator.position == offsets(3, 4)
    first = table.timeline().completed_commits[-2].request_time
    for info in list(table.storage.list_level(".hoodie/timeline").objects):
        if first in info.path:  # archived as well: what came again is not missed for that
            table.storage.delete(info.path)
    later = table.attempt()
    assert later.start.verdict is StartVerdict.IN_STEP
    assert later.coordinator.position == offsets(3, 4)


def test_a_plan_that_has_all_rows_disturbs_nobody(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.run(*ALL[0])
    schedule_compaction(table)
    attempt.run(*ALL[1])
    assert table.attempt().start.verdict is StartVerdict.IN_STEP


def test_marks_of_audited_compactions_go_with_the_compactions(table: TestTable) -> None:
    table.attempt().run(*ALL[0])
    compaction = schedule_compaction(table)
    table.attempt()
    journal = Journal(table.storage, PIPELINE)
    assert journal.audited() == {compaction}
    table.storage.delete(path_of(Instant(compaction, "compaction", State.REQUESTED)))
    newer = schedule_compaction(table)
    table.attempt()
    assert journal.audited() == {newer}


def test_the_mark_stays_as_long_as_the_instant_is_on_the_timeline(
    table: TestTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bucketingest.write.instants.journal.KEPT_FOR", timedelta(minutes=-1))
    monkeypatch.setattr("bucketingest.write.instants.journal.KEPT_INSTANTS", 1)
    table.attempt().run(*ALL[0])
    with pytest.raises(PositionLost):
        table.attempt(LateCompletedFile(table)).run(*AGAIN)
    (overtaken,) = overtaken_of(table)
    table.attempt().go_on(AGAIN, (offsets(3, 4), SECOND))
    assert overtaken_of(table) == {overtaken}
    assert table.attempt().coordinator.position == offsets(3, 4)


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


def test_a_late_completed_file_of_a_rolled_back_instant_is_deleted_at_the_next_start(
    table: TestTable,
) -> None:
    table.attempt().run(*ALL[0])
    instant = leave_decided(table)
    decision = Journal(table.storage, PIPELINE).decision(instant)
    assert isinstance(decision, CommitDecision)
    schedule_compaction(table)
    table.attempt().go_on(*ALL)
    complete(table.storage, instant, decision.completion_time, decision.content)  # by the attempt that slept
    attempt = table.attempt()
    assert attempt.coordinator.position == offsets(2, 3)
    assert table.timeline().find(instant) is None
    assert table.visible_keys() == ["k0", "k1", "k2"]


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


def test_an_instant_that_was_completed_after_its_rollback_and_archived_is_no_obstacle(table: TestTable) -> None:
    """Its attempt slept before the completed file; then another writer archived it as a completed one."""
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
    """The start that finished the rollback died after it had taken the completed file away."""
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
    """Its rows come again only when the pipeline starts, and readers have them until then."""
    table.attempt().run(*ALL[0])
    instant = leave_decided(table)
    by_a_compaction(table)
    found = survey(table.storage, [instant], datetime.now(UTC) + timedelta(minutes=10))
    choices = choose(found.instants, found.wanted, force=True)
    (outcome,) = Abandoner(CompletedFileLandsLate(table, instant)).carry_out(choices)
    assert outcome.did is Step.COMPLETE, "by another attempt, meanwhile"
    left = table.timeline().find(instant)
    assert left is not None
    assert left.is_completed
    table.attempt().go_on(ALL[1])
    assert table.timeline().find(instant) is None
