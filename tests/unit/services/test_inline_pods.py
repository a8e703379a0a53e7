"""Table services whose merges pods make, and mode auto: what the holder waits for, and what it leaves to Hudi."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bucketingest.lease.record import LeaseOwner
from bucketingest.lease.table_lease import TableLease
from bucketingest.services.compaction.records import Task
from bucketingest.services.inline import InlineServices
from bucketingest.services.placement import Home, ServicesPolicy
from bucketingest.services.pods.shared_round import share_round
from bucketingest.services.pods.waiting import PATIENCE, POLL
from bucketingest.services.schedule import LOOK_EVERY
from bucketingest.services.worker import Execute, Propose, Tidy
from support.tables.other_writers import schedule_compaction
from support.tables.services.serving_job import Job, write_and_compact
from support.tables.services.snapshot import snapshot

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
    assert job.reports[-1].pod_work is None, "an operator must not make another Job for what is done"
    while services.is_due():
        services.step()
    assert job.compactions == 1
    tasks = [each.work.task for each in job.requests if isinstance(each, Execute)]
    assert tasks == [Task.LOOK, Task.SWEEP], "beside the query"
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


def finish(job: Job, services: InlineServices, looks: int) -> bool:
    for _ in range(looks):
        services.finish()
        while services.is_due():
            services.step()
        if services.has_finished:
            return True
        job.now += POLL.total_seconds()
    return False


def test_a_job_that_ends_with_its_input_waits_for_its_pods_and_cleans_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bucketingest.services.placement.LARGE", 0)
    job = Job(policy=ServicesPolicy("auto", makes_jobs=True), tidies=True)
    with TableLease.acquire(job.table.storage, LeaseOwner("shop/orders"), wait=timedelta(0)) as lease:
        job.lease_id = lease.lease_id
        services = job.services()
        assert not finish(job, services, looks=5)
        assert job.compactions == 0
        assert not any(isinstance(each, Tidy) for each in job.requests)
        one_pod(job)
        assert finish(job, services, looks=5)
    assert job.compactions == 1
    assert sum(isinstance(each, Tidy) for each in job.requests) == 1
    assert snapshot(job.table.storage) == job.rows


def test_a_job_that_ends_with_its_input_does_not_wait_for_pods_that_do_not_come() -> None:
    job = Job(policy=PODS)
    assert finish(job, job.services(), looks=2 * int(PATIENCE / POLL))
    assert "no pod has worked" in str(job.reports[-1].last_failure)


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
    monkeypatch.setattr("bucketingest.services.placement.LARGE", 0)
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
