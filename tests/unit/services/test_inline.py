"""Table services inside a job: what they do between two micro-batches, and what a failure beside the job costs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Literal

import pytest

from bucketingest.hudi.timeline.instant import CLEAN
from bucketingest.lease.record import LeaseLost, LeaseOwner
from bucketingest.lease.table_lease import TableLease
from bucketingest.services import schedule
from bucketingest.services.compaction.choose import CompactionTriggers
from bucketingest.services.compaction.propose import TableNow
from bucketingest.services.compaction.records import CompactionJournal, Task
from bucketingest.services.errors import StepFailed
from bucketingest.services.merge import merge_group
from bucketingest.services.placement import ServicesPolicy
from bucketingest.services.schedule import FIRST_LOOK, LOOK_EVERY
from bucketingest.services.worker import Execute, Propose, Tidy
from bucketingest.storage import ObjectTooLarge
from bucketingest.storage.interface import Level, ObjectInfo
from support.storage.flaky_storage import FlakyStorage
from support.storage.passing_storage import PassingStorage
from support.tables.other_writers import schedule_compaction
from support.tables.services.compactions import Written, execute, roll_back, started
from support.tables.services.serving_job import Job, write_and_compact
from support.tables.services.snapshot import snapshot
from support.tables.table_runs import offsets
from support.tables.write_plans import row


def test_a_due_compaction_is_done_between_micro_batches() -> None:
    job = Job()
    services = job.services()
    assert not services.is_due(), "a start is not slowed down"
    job.pass_time(services, looks=1)
    assert job.compactions == 1
    assert snapshot(job.table.storage) == job.rows
    job.attempt.run(offsets(2, 3), [row("k0", region="eu", at=9)])
    job.pass_time(services, looks=1)
    assert job.compactions == 2
    before = len(job.requests)
    job.pass_time(services, looks=1)
    assert job.compactions == 2
    assert [type(each) for each in job.requests[before:]] == [Propose], "nothing is due"


def test_many_commits_make_the_next_clean_and_archival_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every commit lists those on the timeline: in half an hour a pipeline may make 9,000."""
    monkeypatch.setattr(schedule, "TIDY_AFTER", 4)
    job = Job(tidies=True)
    with TableLease.acquire(job.table.storage, LeaseOwner("shop/orders"), wait=timedelta(0)) as lease:
        job.lease_id = lease.lease_id
        services = job.services()
        for places in (range(0), range(2, 4), range(4, 7), range(0)):
            for at in places:
                job.attempt.run(offsets(at, at + 1), [row("k0", region="eu", at=at)])
            job.pass_time(services, looks=2)
    assert sum(isinstance(each, Tidy) for each in job.requests) == 2, "at the start, and after four commits"


@pytest.mark.parametrize("mode", ["inline", "auto"])
def test_a_job_that_ends_with_its_input_does_what_is_due_before(mode: Literal["inline", "auto"]) -> None:
    job = Job(tidies=True, policy=ServicesPolicy(mode))
    with TableLease.acquire(job.table.storage, LeaseOwner("shop/orders"), wait=timedelta(0)) as lease:
        job.lease_id = lease.lease_id
        services = job.services()
        assert not services.has_finished
        for _ in range(20):
            services.finish()
            if services.is_due():
                services.step()
            if services.has_finished:
                break
        assert services.has_finished
        assert job.compactions == 1
        assert sum(isinstance(each, Tidy) for each in job.requests) == 1
    assert snapshot(job.table.storage) == job.rows


def test_a_job_that_ends_with_its_input_waits_for_no_other_writer_and_tries_no_failure_again() -> None:
    job = Job(tidies=True)
    schedule_compaction(job.table)
    failing = FlakyStorage(job.table.storage, lambda path: path.endswith(".clean.requested"))
    with TableLease.acquire(job.table.storage, LeaseOwner("shop/orders"), wait=timedelta(0)) as lease:
        job.lease_id = lease.lease_id
        services = job.services(storage=failing)
        services.finish()
        for _ in range(10):
            if services.is_due():
                services.step()
    assert services.has_finished
    assert len(job.requests) <= 3


class Unlisted(PassingStorage):
    """Lists no partition."""

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        assert prefix.startswith(".hoodie"), f"{prefix} is listed between two micro-batches"
        return super().list(prefix)

    def list_level(self, prefix: str = "") -> Level:
        assert prefix.startswith(".hoodie"), f"{prefix} is listed between two micro-batches"
        return super().list_level(prefix)


def test_the_table_is_looked_at_again_when_the_oldest_log_file_is_due() -> None:
    job = Job()
    services = job.services(CompactionTriggers(None, None, timedelta(seconds=54)))
    job.now += FIRST_LOOK.total_seconds()
    while services.is_due():
        services.step()
    assert job.compactions == 0
    job.now += 55
    assert services.is_due(), "sooner than after LOOK_EVERY"


def test_after_a_compaction_the_table_is_looked_at_when_the_next_log_file_can_be_due() -> None:
    job = Job()
    services = job.services(CompactionTriggers(1, None, timedelta(seconds=45)))
    job.now += FIRST_LOOK.total_seconds()
    while services.is_due():
        services.step()
    assert job.compactions == 1
    job.now += 45
    assert services.is_due(), "a promise of a minute does not wait for LOOK_EVERY as well"


def test_no_partition_is_listed_between_micro_batches() -> None:
    job = Job()
    services = job.services(own_storage=Unlisted(job.table.storage))
    job.pass_time(services, looks=1)
    assert job.compactions == 1
    tasks = [each.work.task for each in job.requests if isinstance(each, Execute)]
    assert tasks == [Task.MERGE, Task.SWEEP]
    assert snapshot(job.table.storage) == job.rows


def test_base_files_that_an_earlier_process_made_are_listed_beside_the_job() -> None:
    job = Job()
    work = started(job.table.storage)
    execute(job.table.storage, work)
    services = job.services(own_storage=Unlisted(job.table.storage))
    job.pass_time(services, looks=1)
    assert job.compactions == 1
    assert isinstance(job.requests[0], Execute)
    assert job.requests[0].work.task is Task.LOOK


def test_what_was_listed_before_a_rollback_does_not_count() -> None:
    job = Job()
    storage = job.table.storage
    services = job.services(own_storage=Unlisted(storage))
    job.now += LOOK_EVERY.total_seconds() + 1
    services.step()
    services.step()
    (merge,) = [each for each in job.requests if isinstance(each, Execute)]
    roll_back(Written(job.table, job.rows), merge.work, finished=True)
    job.pass_time(services, looks=1)
    assert job.compactions == 1
    assert merge.work.round_number == 1
    assert max(each.work.round_number for each in job.requests if isinstance(each, Execute)) == 2
    Written(job.table, job.rows).unchanged()


def test_what_an_earlier_process_left_is_finished_even_if_services_are_off() -> None:
    job = Job()
    services = job.services()
    job.now += LOOK_EVERY.total_seconds() + 1
    services.step()
    services.step()
    assert isinstance(job.requests[-1], Execute)
    assert job.compactions == 0
    off = job.services(None)
    job.pass_time(off)
    assert job.compactions == 1
    assert not any(isinstance(each, Propose) for each in job.requests[1:])
    assert not off.is_due()


def test_a_merge_that_kills_its_process_is_given_up_and_the_others_are_committed() -> None:
    job = Job(dies_at=0)
    job.pass_time(job.services(), looks=30)
    assert job.compactions == 1
    assert isinstance(job.requests[-1], Propose)
    assert len(job.requests[-1].skipped) == 1, "it would cost as much again"
    first = [each for each in job.requests if isinstance(each, Execute)]
    assert [sorted(each.gives_up) for each in first[:4]] == [[], [], [], [0]]
    assert snapshot(job.table.storage) == job.rows


def test_a_failure_does_not_end_the_job_and_is_tried_again_later(caplog: pytest.LogCaptureFixture) -> None:
    job = Job()
    failing = FlakyStorage(job.table.storage, lambda path: path.endswith(".compaction.requested"))
    services = job.services(storage=failing)
    job.pass_time(services, looks=3)
    assert job.compactions == 0
    assert "table service failed" in caplog.text
    assert not services.is_due(), "it pauses"
    job.pass_time(job.services(), looks=3)
    assert job.compactions == 1


def damaged(job: Job, key: str = "eu") -> None:
    """The pages of a base file are not what they were; its footer is."""
    (path,) = (info.path for info in job.table.storage.list(key) if info.path.endswith(".parquet"))
    content = job.table.storage.get(path)
    job.table.storage.put(path, content[:4] + bytes(len(content) // 4) + content[4 + len(content) // 4 :])


def test_a_damaged_base_file_is_left_out_and_ingestion_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    job = Job()
    services = job.services()
    job.pass_time(services, looks=1)
    damaged(job)
    job.attempt.run(offsets(2, 4), [row("k0", region="eu", at=9), row("k1", region="us", at=9)])
    job.pass_time(services, looks=3)
    assert job.compactions == 2
    assert "file group not merged, it stays" in caplog.text
    assert "table service failed" not in caplog.text


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), MemoryError(), AssertionError("a defect")])
def test_no_error_of_the_process_beside_the_job_ends_ingestion(error: Exception) -> None:
    job = Job()

    def fails(_: object) -> None:
        raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TableNow, "load", fails)
        job.pass_time(job.services(), looks=1)
    assert isinstance(job.reports[-1].last_error, StepFailed)
    assert type(error).__name__ in str(job.reports[-1].last_failure)
    assert job.reports[-1].failing == 1
    job.pass_time(job.services())
    assert (job.compactions, job.reports[-1].failing) == (1, 0)


def test_a_full_scratch_disk_fails_the_merge_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(merge_group, "merge_slices", full)
    job.pass_time(job.services())
    assert [each.failures for each in job.reports[-1:]] == [0]
    assert job.table.leftovers() == []
    assert snapshot(job.table.storage) == job.rows


class Small(PassingStorage):
    """Takes no base file of partition eu in one request."""

    def create(self, path: str, data: Any) -> None:
        if path.startswith("eu/") and path.endswith(".parquet"):
            raise ObjectTooLarge(f"{self.url}/{path} has 6 GiB; the store takes at most 5 GiB in one request")
        super().create(path, data)


def test_a_base_file_that_is_too_large_for_the_store_stops_no_other_service() -> None:
    job = Job()
    job.pass_time(job.services(storage=Small(job.table.storage)))
    assert (job.compactions, job.reports[-1].failures) == (1, 0)
    assert job.table.leftovers() == []
    partitions = {info.path.split("/")[0] for info in job.table.storage.list() if info.path.endswith(".parquet")}
    assert partitions == {"us"}
    assert (job.reports[-1].too_large or "").endswith("of partition 'eu'")
    assert snapshot(job.table.storage) == job.rows


def test_the_table_is_tidied_while_a_compaction_waits() -> None:
    job = Job(tidies=True)
    with TableLease.acquire(job.table.storage, LeaseOwner("shop/orders"), wait=timedelta(0)) as lease:
        job.lease_id = lease.lease_id
        services = job.services(storage=FlakyStorage(job.table.storage, lambda path: path.startswith("eu/")))
        for _ in range(40):
            job.pass_time(services, looks=1)
    assert job.compactions == 0, "storage does not take its base files"
    assert sum(isinstance(each, Tidy) for each in job.requests) >= 2


def test_a_lost_lease_ends_the_job() -> None:
    def lost() -> None:
        raise LeaseLost("another job took the table")

    job = Job(check_lease=lost)
    services = job.services()
    job.now += LOOK_EVERY.total_seconds() + 1
    services.step()
    with pytest.raises(LeaseLost):
        services.step()


def test_another_writers_compaction_is_left_to_it() -> None:
    job = Job()
    schedule_compaction(job.table)
    job.pass_time(job.services(), looks=3)
    assert [type(each) for each in job.requests] == [Propose] * 3
    assert len(job.table.timeline().pending) == 1


def test_stopping_ends_the_process_beside_the_job() -> None:
    job = Job()
    services = job.services()
    job.now += LOOK_EVERY.total_seconds() + 1
    services.step()
    services.stop()
    assert services.pid is None
    assert not services.is_due()


def test_the_records_of_old_compactions_go_while_the_job_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bucketingest.services.protocol.journal.KEPT_FOR", timedelta(0))
    monkeypatch.setattr("bucketingest.services.protocol.journal.KEPT", 1)
    job = Job(tidies=True)
    with TableLease.acquire(job.table.storage, LeaseOwner("shop/orders"), wait=timedelta(0)) as lease:
        job.lease_id = lease.lease_id
        write_and_compact(job, job.services())
        assert job.compactions == 3
        assert len(CompactionJournal(job.table.storage).numbers()) < 3


def test_the_table_is_cleaned_now_and_then() -> None:
    job = Job(tidies=True)
    with TableLease.acquire(job.table.storage, LeaseOwner("shop/orders"), wait=timedelta(0)) as lease:
        job.lease_id = lease.lease_id
        write_and_compact(job, job.services())
    assert job.compactions == 3
    assert job.reports[-1].cleaned_files > 0
    assert [each.action for each in job.table.timeline().completed if each.action == CLEAN]
    assert snapshot(job.table.storage).keys() == job.rows.keys()


def test_a_clean_whose_job_has_lost_the_table_changes_nothing_and_ends_the_job() -> None:
    job = Job(tidies=True)
    services = job.services()
    with pytest.raises(LeaseLost):  # as soon as there is something to delete
        write_and_compact(job, services)
    assert not [each for each in job.table.timeline().instants if each.action == CLEAN]


def test_a_clean_waits_for_catalogs_and_learns_when_files_were_superseded_last() -> None:
    job = Job(tidies=True)
    asked: list[float] = []

    def never(superseded_at: float) -> bool:
        asked.append(superseded_at)
        return False

    job.lets_clean = never
    services = job.services()
    job.pass_time(services, looks=2)
    assert job.compactions == 1
    assert not any(isinstance(each, Tidy) for each in job.requests)
    assert asked[0] < asked[-1] <= job.now, "a compaction supersedes files"
    job.lets_clean = lambda _: True
    with pytest.raises(LeaseLost):  # the clean begins, without a lease here
        job.pass_time(services, looks=1)
    assert any(isinstance(each, Tidy) for each in job.requests)
