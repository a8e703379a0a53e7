"""What paused processes and late requests put onto the timeline, or back onto it, also below the archive."""

from __future__ import annotations

import io
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bucketingest.hudi.errors import RollbackError
from bucketingest.hudi.naming import BaseFileName, join
from bucketingest.hudi.plans.compaction_plan import read_compaction_plan
from bucketingest.hudi.rollback.rollback import roll_back
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import COMMIT, COMPACTION, Instant, State
from bucketingest.hudi.timeline.timeline import complete, create_inflight, create_requested, path_of
from bucketingest.hudi.timeline.write_stat import WriteStat
from bucketingest.storage import AlreadyExists
from bucketingest.storage.interface import Data
from bucketingest.write.coordinator_api import StartVerdict
from bucketingest.write.errors import FencedOut, InstantAborted, PositionLost
from bucketingest.write.instants.journal import Journal
from bucketingest.write.instants.records import CommitDecision
from bucketingest.write.instants.writer_identity import WriterIdentity
from bucketingest.write.recovery.execute import InstantExecutor
from bucketingest.write.recovery.facts import FactReader
from support.storage.passing_storage import PassingStorage
from support.tables.instants.abandoned import Killed, die, roll_back_table
from support.tables.other_writers import archive, commit, later, next_time, roll_back_completed, schedule_compaction
from support.tables.state.tables import amounts, check, data_files, state_table
from support.tables.table_runs import PIPELINE, TestTable, offsets
from support.tables.write_plans import row

ROWS = [row("k0"), row("k1", amount=1)]


def aborted(table: TestTable) -> tuple[str, bytes]:
    """Request time of an instant of the pipeline that was aborted, and what its pending files had."""
    with pytest.raises(Killed):
        table.attempt().run(offsets(0, 2), ROWS, die)
    (mine,) = table.timeline().pending
    content, journal = table.storage.get(path_of(mine)), Journal(table.storage, PIPELINE)
    identity = WriterIdentity(PIPELINE, journal.claim_epoch("test"), table.dead_letters)
    InstantExecutor(table.storage, journal, identity).abort(mine.request_time, "test")
    return mine.request_time, content


def test_an_archived_instant_that_a_process_puts_back_hides_nothing_for_long(table: TestTable) -> None:
    """Readers treat the oldest instant on the timeline as the end of the archive."""
    attempt = table.attempt()
    attempt.run(offsets(0, 2), ROWS)
    attempt.run(offsets(2, 3), [row("k2")])
    old = table.timeline().completed_commits[0].request_time
    content = table.storage.get(join(".hoodie/timeline", f"{old}.deltacommit.inflight"))
    archive(table)
    commit(table, CommitMetadata())
    assert len(table.visible_keys()) == 3
    create_inflight(table.storage, old, content=content)
    assert len(table.visible_keys()) < 3
    again = table.attempt()
    assert len(table.visible_keys()) == 3
    assert table.leftovers() == []
    assert again.coordinator.position == offsets(2, 3)


def test_a_completed_file_that_a_process_puts_back_is_taken_off_again(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.run(offsets(0, 2), ROWS)
    attempt.run(offsets(2, 3), [row("k2")])
    path = next(iter(table.completed()))
    content = table.storage.get(path)
    archive(table)
    commit(table, CommitMetadata())
    table.storage.create(path, content)
    table.attempt()
    assert not table.storage.exists(path)
    assert len(table.visible_keys()) == 3


def test_an_aborted_instant_that_requests_complete_and_begin_again_is_rolled_back(table: TestTable) -> None:
    """Two requests that were on their way land after the instant was aborted and swept: its inflight file, and its
    completed one.
    """
    mine, content = aborted(table)
    create_inflight(table.storage, mine, content=content)
    complete(table.storage, mine, later(mine), content)
    table.attempt().run(offsets(0, 2), ROWS)
    assert mine not in {each.request_time for each in table.timeline().writes}
    assert table.visible_keys() == ["k0", "k1"]


def test_log_files_of_an_instant_whose_time_a_compaction_takes_are_swept(table: TestTable) -> None:
    """Readers know a file's instant by its time alone. A scheduler without the table's lock may choose that time."""
    table.attempt().run(offsets(0, 2), ROWS)
    with pytest.raises(Killed):
        table.attempt().run(offsets(2, 3), [row("k9")], die)
    (mine,) = [instant.request_time for instant in table.timeline().pending]
    schedule_compaction(table, time=mine)
    create_inflight(table.storage, mine, COMPACTION)
    complete(table.storage, mine, later(mine), CommitMetadata().encode(), COMMIT)
    assert "k9" in table.visible_keys()
    table.attempt()
    table.attempt()
    assert table.visible_keys() == ["k0", "k1"]


def compact_as_another(table: TestTable, time: str, merged: Mapping[str, int]) -> None:
    """Another writer carries out its compaction of one file group, in which are these amounts."""
    plan = read_compaction_plan(table.storage, time)
    assert plan is not None
    (group,) = plan.operations
    rows = pq.read_table(pa.BufferReader(table.storage.get(join(group.partition_path, group.base_file or ""))))
    keys = rows["_hoodie_record_key"].to_pylist()
    amount = pa.array([merged[key] for key in keys], rows["amount"].type)
    out = io.BytesIO()
    pq.write_table(rows.set_column(rows.schema.get_field_index("amount"), rows.schema.field("amount"), amount), out)
    base = BaseFileName(group.file_id, "9-9-9", time)
    create_inflight(table.storage, time, COMPACTION)
    table.storage.create(join(group.partition_path, str(base)), out.getvalue())
    stat = WriteStat.of_base_file(group.partition_path, base, size=len(out.getvalue()), inserts=0)
    complete(table.storage, time, next_time(table), CommitMetadata({group.partition_path: [stat]}).encode(), COMMIT)


def beside_a_compaction(*, completed: bool = True) -> tuple[TestTable, str]:
    """A table whose attempt died with an open instant, and the time of that, which a compaction has too."""
    table = state_table()
    attempt = table.attempt()
    attempt.run(offsets(0, 2), ROWS)
    attempt.run(offsets(2, 3), [row("k0", amount=5)])
    with pytest.raises(Killed):
        table.attempt().run(offsets(3, 5), [row("k1", amount=7), row("k9")], die)
    (mine,) = [instant.request_time for instant in table.timeline().pending]
    schedule_compaction(table, time=mine)
    if completed:
        compact_as_another(table, mine, {"k0": 5, "k1": 1})
    return table, mine


@pytest.mark.parametrize("completed", [True, False], ids=["completed", "pending"])
def test_an_instant_whose_time_a_compaction_takes_leaves_nothing_that_the_compaction_would_show(
    completed: bool,
) -> None:
    """In an index with a state new keys are in base files, as a compaction's are: only its plan tells them apart."""
    table, mine = beside_a_compaction(completed=completed)
    again = table.attempt()
    assert [each.action for each in table.timeline().pending] == ([] if completed else [COMPACTION])
    if not completed:
        compact_as_another(table, mine, {"k0": 5, "k1": 1})
    assert amounts(table) == {"k0": 5, "k1": 1}
    again.run(offsets(3, 5), [row("k1", amount=7), row("k9")])
    table.attempt()
    assert amounts(table) == {"k0": 5, "k1": 7, "k9": 0}


def test_a_start_goes_on_when_the_compaction_of_the_same_time_is_archived_after_the_rollback_command() -> None:
    table, _ = beside_a_compaction()
    roll_back_table(table)
    archive(table, only=COMMIT)
    table.attempt().run(offsets(3, 5), [row("k1", amount=7), row("k9")])
    assert amounts(table) == {"k0": 5, "k1": 7, "k9": 0}


def test_a_compaction_of_the_same_time_whose_plan_is_gone_shows_nothing_of_the_instant() -> None:
    table, mine = beside_a_compaction()
    table.storage.delete(path_of(Instant(mine, COMPACTION, State.REQUESTED)))
    table.attempt()
    assert amounts(table) == {"k0": 5, "k1": 1}


def test_a_file_that_a_rollback_took_and_a_paused_task_puts_back_is_known_to_the_attempt_that_goes_on() -> None:
    """Its instant stays completed, so readers show the file: its keys belong there. The attempt had listed the table
    between the two, and no instant since has its partition.
    """
    table = state_table()
    attempt = table.attempt()
    attempt.run(offsets(0, 2), ROWS)
    before = set(data_files(table))
    attempt.run(offsets(2, 4), [row("k8"), row("k9")])
    (late,) = set(data_files(table)) - before
    content, instant = table.storage.get(late), table.timeline().completed_commits[-1].request_time
    table.storage.delete(late)

    def roll_back() -> None:
        roll_back_completed(table, instant)

    with pytest.raises(PositionLost):
        attempt.run(offsets(4, 5), [row("k1", amount=4)], roll_back)
    table.storage.create(late, content)
    attempt.coordinator.start()
    attempt.run(offsets(2, 5), [row("k8"), row("k9"), row("k1", amount=4)])
    attempt.run(offsets(5, 6), [row("k9", amount=5)])
    table.attempt().run(offsets(6, 7), [row("k8", amount=6)])
    check(table, {"k0": 0, "k1": 4, "k8": 6, "k9": 5})


def test_a_file_that_a_rollback_takes_after_the_start_cannot_be_put_back_when_its_keys_have_another_place() -> None:
    """The rollback was requested before the start, which found the file, and deletes it after."""
    table = state_table()
    attempt = table.attempt()
    attempt.run(offsets(0, 2), ROWS)
    before = set(data_files(table))
    attempt.run(offsets(2, 4), [row("k8"), row("k9")])
    (late,) = set(data_files(table)) - before
    instant = table.timeline().completed_commits[-1].request_time

    def roll_back() -> None:
        roll_back_completed(table, instant)

    with pytest.raises(PositionLost):
        attempt.run(offsets(4, 5), [row("k1", amount=4)], roll_back)
    attempt.coordinator.start()
    table.storage.delete(late)
    attempt.run(offsets(2, 5), [row("k8"), row("k9"), row("k1", amount=4)])
    with pytest.raises(AlreadyExists):
        table.storage.create(late, b"")
    table.attempt().run(offsets(5, 6), [row("k9", amount=5)])
    check(table, {"k0": 0, "k1": 4, "k8": 0, "k9": 5})


def test_a_completed_file_that_comes_again_after_it_was_taken_off_is_not_the_position(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.run(offsets(0, 2), ROWS)
    attempt.run(offsets(2, 3), [row("k2")])
    path = min(table.completed())
    content, newest_time = table.storage.get(path), table.timeline().completed_commits[-1].request_time
    Journal(table.storage, PIPELINE).keep_position(newest_time, offsets(2, 3))
    archive(table)
    commit(table, CommitMetadata())
    table.storage.create(path, content)

    class Returning(PassingStorage):
        """A request that was on its way puts the file back as soon as it was deleted."""

        def delete(self, deleted: str) -> None:
            super().delete(deleted)
            if deleted == path:
                super().create(path, content)

    assert table.attempt(Returning(table.storage)).coordinator.position == offsets(2, 3)
    assert table.storage.exists(path)


def test_a_completed_file_that_comes_again_behind_the_request_of_an_aborted_instant_is_not_the_position(
    table: TestTable,
) -> None:
    """As the second oldest on the timeline it cannot be removed before the oldest, which is not in the history."""
    mine, request = aborted(table)
    attempt = table.attempt()
    attempt.run(offsets(0, 2), ROWS)
    attempt.run(offsets(2, 3), [row("k2")])
    first, second = table.timeline().completed_commits
    path = path_of(first)
    content = table.storage.get(path)
    Journal(table.storage, PIPELINE).keep_position(second.request_time, offsets(2, 3))
    archive(table)
    commit(table, CommitMetadata())
    create_requested(table.storage, mine, content=request)
    table.storage.create(path, content)
    assert table.attempt().coordinator.position == offsets(2, 3)
    assert not table.storage.exists(path)


def test_an_instant_that_is_requested_after_newer_ones_were_archived_goes_at_once(table: TestTable) -> None:
    """While it is the oldest, readers take the archived ones for not committed, and so does a compaction of theirs."""
    table.attempt().run(offsets(0, 2), ROWS)

    class Paused(PassingStorage):
        """This process is paused before it requests its first instant, and others go on."""

        first = ""

        def create(self, path: str, data: Data) -> None:
            if path.endswith(".deltacommit.requested") and not self.first:
                self.first = path
                commit(table, CommitMetadata())
                archive(table)
                commit(table, CommitMetadata())
            super().create(path, data)

        def delete(self, path: str) -> None:
            super().delete(path)
            if path == self.first:
                deleted.append(path)

    deleted: list[str] = []
    paused = Paused(table.storage)
    table.attempt(paused).run(offsets(2, 3), [row("k2")])
    assert deleted == [paused.first]
    assert table.visible_keys() == ["k0", "k1", "k2"]


def test_a_compaction_that_is_older_than_archived_instants_does_not_stop_the_start(table: TestTable) -> None:
    """Hudi's scheduler was paused between its choice of a time and its request, and takes no lock."""
    first = table.attempt()
    first.go_on((offsets(0, 1), [row("k0")]), (offsets(1, 2), [row("k1")]))
    before = later(table.timeline().completed_commits[0].request_time)
    archive(table)
    schedule_compaction(table, time=before)
    again = table.attempt()
    assert again.start.verdict is StartVerdict.IN_STEP
    again.run(offsets(2, 3), [row("k2")])
    assert again.coordinator.position == offsets(2, 3)


def test_an_archival_that_died_midway_is_not_finished_beyond_instants_of_others(table: TestTable) -> None:
    """With an older instant of another writer on the timeline, readers would treat our instant as never completed."""
    table.attempt()
    commit(table, CommitMetadata())
    table.attempt().run(offsets(0, 2), ROWS)
    stay = {info.path: table.storage.get(info.path) for info in table.storage.list_level(".hoodie/timeline").objects}
    archive(table)
    for path, content in stay.items():
        table.storage.put(path, content)
    table.attempt()
    assert table.visible_keys() == ["k0", "k1"]


def test_rows_of_an_archived_instant_are_not_rolled_back_by_a_paused_attempt(table: TestTable) -> None:
    """To that attempt the instant is off the timeline, as if another writer had rolled it back."""
    table.attempt().run(offsets(0, 2), ROWS)
    done = table.timeline().completed_commits[0]
    archive(table)
    older = str(int(done.request_time) - 1000)
    create_requested(table.storage, older, content=b"")  # so the archived one is not older than the timeline
    assert not table.timeline().is_archived(done.request_time)
    journal = Journal(table.storage, PIPELINE)
    decision = journal.decision(done.request_time)
    assert isinstance(decision, CommitDecision)
    epoch = journal.claim_epoch("a paused attempt")
    identity = WriterIdentity(PIPELINE, epoch, table.dead_letters)
    InstantExecutor(table.storage, journal, identity).complete(done.request_time, decision, ())
    with pytest.raises(RollbackError, match="is completed"):
        roll_back(table.storage, done.request_time)
    table.storage.delete(join(".hoodie/timeline", f"{older}.deltacommit.requested"))
    commit(table, CommitMetadata())
    assert table.visible_keys() == ["k0", "k1"]
    assert table.timeline().find(done.request_time) is None, "it was put back"


def test_an_attempt_that_was_fenced_out_does_not_close_what_a_newer_one_has_decided(table: TestTable) -> None:
    """It is not complete yet: closed, it would stay pending for ever."""
    with pytest.raises(Killed):
        table.attempt().run(offsets(0, 2), ROWS, die)
    (mine,) = table.timeline().pending
    journal = Journal(table.storage, PIPELINE)
    older = WriterIdentity(PIPELINE, journal.claim_epoch("older"), table.dead_letters)
    found = FactReader(table.storage, table.timeline()).facts(mine.request_time, PIPELINE)
    journal.claim_epoch("newer")
    journal.decide(mine.request_time, CommitDecision(later(mine.request_time), CommitMetadata().encode()))
    with pytest.raises(FencedOut):
        InstantExecutor(table.storage, journal, older).after_loss(found, "test")
    assert not journal.is_done(mine.request_time)


def test_what_an_archival_that_died_had_not_made_final_is_left_on_the_timeline(table: TestTable) -> None:
    """The next archival replaces its manifest."""
    table.attempt().run(offsets(0, 2), ROWS)
    before = {info.path: table.storage.get(info.path) for info in table.storage.list_level(".hoodie/timeline").objects}
    archive(table)
    table.storage.delete(".hoodie/timeline/history/_version_")
    for path, content in before.items():
        table.storage.put(path, content)
    table.attempt()
    assert before.keys() <= {info.path for info in table.storage.list_level(".hoodie/timeline").objects}


def test_a_forgotten_instant_of_the_pipeline_is_rolled_back(table: TestTable) -> None:
    """An attempt was paused until its instant was forgotten, and then put it onto the timeline."""
    table.attempt().run(offsets(0, 2), ROWS)
    done = table.timeline().completed_commits[0].request_time
    content = table.storage.get(join(".hoodie/timeline", f"{done}.deltacommit.requested"))
    late = str(int(done) - 1000)
    create_requested(table.storage, late, content=content)
    attempt = table.attempt()
    assert table.leftovers() == []
    assert Journal(table.storage, PIPELINE).is_aborted(late)
    assert attempt.coordinator.position == offsets(0, 2)


def test_an_instant_that_is_older_than_archived_ones_is_not_resumed(table: TestTable) -> None:
    """Its attempt was paused before it put its file onto the timeline: as the oldest it hides archived ones."""
    with pytest.raises(Killed):
        table.attempt().run(offsets(0, 2), ROWS, die)
    commit(table, CommitMetadata())
    archive(table)
    attempt = table.attempt()
    assert attempt.start.verdict is StartVerdict.REWOUND
    assert table.timeline().pending == ()
    attempt.run(offsets(0, 2), ROWS)
    assert table.visible_keys() == ["k0", "k1"]


def test_an_instant_that_is_older_than_archived_ones_is_not_committed(table: TestTable) -> None:
    """Its attempt was paused as before and continues."""

    def archive_newer() -> None:
        commit(table, CommitMetadata())
        archive(table)

    attempt = table.attempt()
    with pytest.raises(InstantAborted, match="newer instants were archived"):
        attempt.run(offsets(0, 2), ROWS, archive_newer)
    assert table.leftovers() == []
    attempt.run(offsets(0, 2), ROWS)
    assert table.visible_keys() == ["k0", "k1"]
