"""What is left of a compaction whose objects are being deleted keeps nothing else from its work."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.naming import HEARTBEAT_DIRECTORY, TEMP_DIRECTORY, TIMELINE_DIRECTORY
from bucketingest.hudi.rollback.markers import create_marker
from bucketingest.hudi.table.file_view import list_data
from bucketingest.hudi.timeline import heartbeat
from bucketingest.hudi.timeline.instant import COMMIT, COMPACTION
from bucketingest.hudi.timeline.instant_time import format_time
from bucketingest.hudi.timeline.timeline import Timeline, completed_files, create_inflight, create_requested, path_of
from bucketingest.services.clean.choose import DEFAULT_RETENTION
from bucketingest.services.clean_and_archive import clean
from bucketingest.services.compaction.propose import propose
from bucketingest.services.compaction.records import CompactionJournal, PlanRecord
from bucketingest.services.protocol.holder import Guarded
from bucketingest.services.protocol.journal import KEPT, KEPT_FOR
from bucketingest.services.protocol.records import End
from bucketingest.storage import Level, ObjectInfo, Storage
from support.storage.crashing_storage import Crash, CrashingStorage
from support.storage.passing_storage import PassingStorage
from support.tables.services.compactions import ALL, Written, compact, finish, holder, written
from support.tables.services.snapshot import snapshot
from support.tables.table_runs import offsets
from support.tables.write_plans import row


class LevelsStorage(PassingStorage):
    """Remembers which levels were listed."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.levels: list[str] = []

    def list_level(self, prefix: str = "") -> Level:
        self.levels.append(prefix)
        return super().list_level(prefix)


LATER = KEPT_FOR + timedelta(hours=1)


@pytest.fixture
def old() -> Written:
    """A table with one compaction more than are kept."""
    given = written(base_files=False)
    for number in range(KEPT + 1):
        given.table.attempt().run(offsets(9 + number, 10 + number), [row("k0", at=50 + number)])
        assert compact(given.storage) == [End.COMPLETED]
    return given


def sweep(storage: Storage) -> None:
    holder(storage, lambda: utc_now() + LATER).sweep_old()


def numbers(storage: Storage) -> list[int]:
    return CompactionJournal(storage).numbers()


def test_old_compactions_are_forgotten(old: Written) -> None:
    assert numbers(old.storage) == [1, 2, 3, 4]
    sweep(old.storage)
    assert numbers(old.storage) == [2, 3, 4]


def test_however_many_compactions_ended_each_partition_is_listed_once(old: Written) -> None:
    counting = LevelsStorage(old.storage)
    holder(counting).sweep_old()
    listed = Counter(path for path in counting.levels if not path.startswith(".hoodie"))
    assert set(listed.values()) == {1}
    assert counting.levels.count(TIMELINE_DIRECTORY) == 1


@pytest.mark.parametrize("place", [TEMP_DIRECTORY, HEARTBEAT_DIRECTORY])
def test_markers_and_heartbeat_that_come_late_are_deleted(old: Written, place: str) -> None:
    record = CompactionJournal(old.storage).plan(2)
    assert record is not None
    if place == TEMP_DIRECTORY:
        (partition_path, file_id), *_ = sorted(record.groups())
        create_marker(old.storage, record.compaction, partition_path, f"{file_id}_1-0-1_{record.compaction}.parquet")
    else:
        heartbeat.beat(old.storage, record.compaction)
    assert list(old.storage.list(place))
    holder(old.storage).sweep_old()
    assert not list(old.storage.list(place))


def test_a_second_completed_file_that_comes_late_is_deleted(old: Written) -> None:
    record = CompactionJournal(old.storage).plan(KEPT + 1)
    assert record is not None
    found = Timeline.load(old.storage).find(record.compaction, COMMIT)
    assert found is not None
    content = old.storage.get(path_of(found))
    old.storage.create(path_of(replace(found, completion_time=format_time(utc_now()))), content)
    holder(old.storage).sweep_old()
    assert len(completed_files(old.storage, COMMIT, record.compaction)) == 1


def test_base_files_of_a_compaction_that_was_restored_away_are_deleted(old: Written) -> None:
    record = CompactionJournal(old.storage).plan(KEPT + 1)
    assert record is not None
    found = Timeline.load(old.storage).find(record.compaction, COMMIT)
    assert found is not None
    old.storage.delete(path_of(found))
    for state in ("requested", "inflight"):
        old.storage.delete(f"{TIMELINE_DIRECTORY}/{record.compaction}.compaction.{state}")
    holder(old.storage).sweep_old()
    assert not [info.path for info in list_data(old.storage) if record.compaction in info.path.rpartition("/")[2]]


@pytest.mark.parametrize("dies_at", range(6))
def test_a_crash_meanwhile_keeps_no_clean_from_its_work(old: Written, dies_at: int) -> None:
    storage = old.storage
    with pytest.raises(Crash):
        CompactionJournal(CrashingStorage(storage, dies_at)).forget(1)
    clean(Guarded(storage), DEFAULT_RETENTION)
    sweep(storage)
    assert numbers(storage) == [2, 3, 4]
    clean(Guarded(storage), DEFAULT_RETENTION)


@pytest.fixture
def begun_by_another(old: Written) -> tuple[Storage, str]:
    """A void compaction whose request comes late, and that another writer starts: a file group is in two pending ones
    as soon as the next is requested. The oldest of those that are kept.
    """
    old.table.attempt().run(offsets(10 + KEPT, 11 + KEPT), [row("k0", at=90)])
    proposal = propose(old.storage, ALL, utc_now()).proposal
    assert proposal is not None
    journal, number = CompactionJournal(old.storage), KEPT + 2
    journal.put_plan(number, proposal.record)
    journal.put_go(number, start=False)
    assert finish(old.storage) == [End.VOID]
    for more in range(KEPT):
        old.table.attempt().run(offsets(11 + KEPT + more, 12 + KEPT + more), [row("k0", at=100 + more)])
        assert compact(old.storage) == [End.COMPLETED]
    compaction = proposal.record.compaction
    create_requested(old.storage, compaction, COMPACTION, proposal.record.content)
    create_inflight(old.storage, compaction, COMPACTION)
    return old.storage, compaction


def test_a_void_compaction_that_another_writer_began_and_gave_up_is_taken_off(
    begun_by_another: tuple[Storage, str],
) -> None:
    storage, compaction = begun_by_another
    rows = snapshot(storage)
    sweep(storage)
    assert Timeline.load(storage).pending == ()
    assert snapshot(storage) == rows
    assert compaction not in {record.compaction for record in plans(storage)}


@pytest.mark.parametrize("alive", ["its heartbeat is new", "it began lately"])
def test_a_void_compaction_that_another_writer_may_be_at_stays_and_so_do_its_objects(
    begun_by_another: tuple[Storage, str], alive: str
) -> None:
    storage, compaction = begun_by_another

    class Alive(PassingStorage):
        """Shows a file of another writer as new."""

        def head(self, path: str) -> ObjectInfo:
            info = super().head(path)
            new = heartbeat.heartbeat_path(compaction) if "heartbeat" in alive else ".compaction.inflight"
            return replace(info, modified=info.modified + LATER) if path.endswith(new) else info

    heartbeat.beat(storage, compaction)
    sweep(Alive(storage))
    (pending,) = Timeline.load(storage).pending
    assert pending.request_time == compaction
    assert compaction in {record.compaction for record in plans(storage)}


def plans(storage: Storage) -> list[PlanRecord]:
    journal = CompactionJournal(storage)
    return [record for number in journal.numbers() if (record := journal.plan(number)) is not None]
