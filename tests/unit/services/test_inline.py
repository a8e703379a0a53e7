"""Table services inside a job: what they do between two micro-batches, and what a failure beside the job costs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from bucketingest.hudi.lock.hudi_lock import LockSettings
from bucketingest.hudi.timeline.instant import CLEAN, COMMIT
from bucketingest.lease.record import LeaseLost, LeaseOwner
from bucketingest.lease.table_lease import TableLease
from bucketingest.services.clean.choose import Retention
from bucketingest.services.compaction.choose import CompactionTriggers
from bucketingest.services.compaction.holder import CompactionHolder
from bucketingest.services.compaction.journal import CompactionJournal
from bucketingest.services.errors import WorkerDied
from bucketingest.services.homes import Home, ServicesPolicy
from bucketingest.services.inline import LOOK_EVERY, TIDY_EVERY, InlineServices, ServicesState
from bucketingest.services.pods.shared_round import share_round
from bucketingest.services.pods.waiting import PATIENCE, POLL
from bucketingest.services.worker import Execute, Propose, Request, Tidy
from support.storage.flaky_storage import FlakyStorage
from support.tables.other_writers import schedule_compaction
from support.tables.services.snapshot import snapshot
from support.tables.table_runs import TestTable, offsets
from support.tables.write_plans import row

ALL = CompactionTriggers(log_files=1)


@dataclass
class Worker:
    """Carries the request out in this process, at once; or dies at an operation."""

    request: Request
    dies_at: int | None = None
    operation: int | None = None
    pid: int = -1
    stopped: bool = False
    _answer: object = None
    _error: Exception | None = None

    def __post_init__(self) -> None:
        try:
            self._answer = self.request.run(self._starts)
        except Exception as error:  # noqa: BLE001 - it is the answer
            self._error = error

    def _starts(self, place: int, _: int) -> None:
        self.operation = place
        gives_up = self.request.gives_up if isinstance(self.request, Execute) else {}
        if place == self.dies_at and place not in gives_up:
            raise WorkerDied("killed")

    def has_ended(self) -> bool:
        return True

    def answer(self) -> object:
        if self._error is not None:
            raise self._error
        return self._answer

    def stop(self) -> None:
        self.stopped = True


@dataclass
class Job:
    """A table with log files, and the services of its job, whose clock a test moves."""

    table: TestTable = field(default_factory=TestTable)
    now: float = 1000.0
    requests: list[Request] = field(default_factory=list)
    dies_at: int | None = None
    tidies: bool = False
    lease_id: str = "another job's"
    reports: list[ServicesState] = field(default_factory=list)
    check_lease: Callable[[], None] = lambda: None
    policy: ServicesPolicy = field(default_factory=ServicesPolicy)

    def __post_init__(self) -> None:
        self.attempt = self.table.attempt()
        self.attempt.run(offsets(0, 2), [row("k0", region="eu"), row("k1", region="us")])
        self.rows = snapshot(self.table.storage)

    def services(self, triggers: CompactionTriggers | None = ALL, storage: Any = None) -> InlineServices:
        storage = storage or self.table.storage
        holder = CompactionHolder(storage, nullcontext, self.check_lease)
        tidy = Tidy(self.table.storage, Retention(retain=timedelta(0)), LockSettings("none"), self.lease_id)
        return InlineServices(
            storage,
            holder,
            triggers,
            forward=lambda: self.now,
            start=self._start,
            tidy=tidy if self.tidies else None,
            policy=self.policy,
            report=self.reports.append,
        )

    def _start(self, request: Request) -> Any:
        self.requests.append(request)
        return Worker(request, self.dies_at)

    def pass_time(self, services: InlineServices, looks: int = 9) -> None:
        """So many looks, each with the steps that are due."""
        for _ in range(looks):
            self.now += LOOK_EVERY.total_seconds() + 1
            while services.is_due():
                services.step()

    @property
    def compactions(self) -> int:
        return sum(each.action == COMMIT for each in self.table.timeline().completed)


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


def write_and_compact(job: Job, services: InlineServices) -> None:
    for number in range(3):
        job.attempt.run(offsets(2 + number, 3 + number), [row("k0", region="eu", at=9 + number)])
        job.now += TIDY_EVERY.total_seconds()
        job.pass_time(services, looks=2)


def test_the_records_of_old_compactions_go_while_the_job_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bucketingest.services.compaction.holder.KEPT_FOR", timedelta(0))
    monkeypatch.setattr("bucketingest.services.compaction.holder.KEPT", 1)
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


PODS = ServicesPolicy("job", makes_jobs=True)


def one_pod(job: Job) -> None:
    """A pod does what the report asks for."""
    wanted = job.reports[-1].pod_work
    assert wanted is not None
    share_round(job.table.storage, wanted.number, wanted.round_number, index=0, of=1)


def test_pods_merge_and_the_holder_commits() -> None:
    job = Job(policy=PODS)
    services = job.services()
    job.pass_time(services, looks=1)
    assert job.reports[-1].home is Home.JOB
    assert job.reports[-1].compacting is not None
    assert [type(each) for each in job.requests] == [Propose], "nothing merges beside the query"
    one_pod(job)
    job.now += POLL.total_seconds()
    services.step()
    assert job.compactions == 1
    last = job.reports[-1]
    assert (last.pod_work, last.compacting, last.compactions) == (None, None, 1)
    assert last.last_compaction is not None
    assert snapshot(job.table.storage) == job.rows


def test_while_pods_work_a_look_is_one_listing() -> None:
    job = Job(policy=PODS)
    services = job.services()
    job.pass_time(services, looks=1)
    job.now += POLL.total_seconds()
    reports = len(job.reports)
    assert services.is_due()
    services.step()
    assert not services.is_due()
    assert len(job.reports) == reports


def test_a_job_that_is_replaced_finds_the_same_work_for_pods() -> None:
    job = Job(policy=PODS)
    job.pass_time(job.services(), looks=1)
    before = job.reports[-1].pod_work
    job.pass_time(job.services(), looks=1)
    assert job.reports[-1].pod_work == before
    one_pod(job)
    job.pass_time(job.services(), looks=1)
    assert job.compactions == 1


def test_without_pods_mode_job_waits_and_says_so() -> None:
    job = Job(policy=PODS)
    services = job.services()
    job.pass_time(services, looks=2 * int(PATIENCE / LOOK_EVERY))
    assert job.reports[-1].failures >= 1
    assert "no pod has worked" in str(job.reports[-1].last_failure)
    assert job.reports[-1].pod_work is not None
    assert job.compactions == 0
    one_pod(job)
    job.pass_time(services, looks=int(PATIENCE / LOOK_EVERY))
    assert job.compactions == 1


def test_without_pods_mode_auto_merges_beside_the_query(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bucketingest.services.homes.LARGE", 0)
    job = Job(policy=ServicesPolicy("auto", makes_jobs=True))
    services = job.services()
    job.pass_time(services, looks=1)
    assert job.reports[-1].pod_work is not None
    job.pass_time(services, looks=2 * int(PATIENCE / LOOK_EVERY))
    assert job.reports[-1].home is Home.INLINE
    assert job.reports[-1].pod_work is None
    assert job.compactions == 1
    assert snapshot(job.table.storage) == job.rows


def test_mode_auto_leaves_the_table_to_hudis_compaction_and_says_so() -> None:
    job = Job(tidies=True, policy=ServicesPolicy("auto"))
    time = schedule_compaction(job.table)
    job.pass_time(job.services(), looks=40)
    assert {type(each) for each in job.requests} == {Propose}
    assert time in str(job.reports[-1].why)


def test_mode_auto_cleans_after_it_has_seen_that_nobody_else_does() -> None:
    job = Job(tidies=True, policy=ServicesPolicy("auto"))
    with TableLease.acquire(job.table.storage, LeaseOwner("shop/orders"), wait=timedelta(0)) as lease:
        job.lease_id = lease.lease_id
        services = job.services()
        job.pass_time(services, looks=1)
        assert isinstance(job.requests[0], Propose)
        write_and_compact(job, services)
    assert job.reports[-1].cleaned_files > 0
