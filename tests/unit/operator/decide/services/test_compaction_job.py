"""The Job of a compaction: one at a time, made from what the driver reports, gone when nobody would commit its work."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bucketingest.spec.job_report import CompactionWork, ServicesReport
from bucketingest_operator.decide.plan import Action, CreateCompaction, DeleteJob, WriteStatus
from bucketingest_operator.decide.reconcile import reconcile
from bucketingest_operator.decide.spec_changes import compaction_digest, digest
from bucketingest_operator.observation import (
    REFUSED_REST,
    CompactionJob,
    Contact,
    JobState,
    Observation,
    PodState,
    Refusal,
)
from bucketingest_operator.resource import PAUSE_ANNOTATION
from support.operator.observations import (
    NAMES,
    NOW,
    after,
    attempt,
    bucket_ingest,
    driver,
    ended,
    input_of,
    report,
    resource,
    services,
    status_with,
    termination,
    well,
)

WORK = CompactionWork(compaction="20261121115000000", number=3, round=1, chunks=4, size=10**10)
SPEC = {"services": {"mode": "job"}}
WANTED = bucket_ingest(SPEC)
DIGEST = compaction_digest(WANTED)


def seen(work: CompactionWork | None = WORK, *jobs: CompactionJob, **changes: Any) -> Observation:
    """A healthy pipeline whose driver wants this."""
    found = services(job=work, compacting=None if work is None else work.compaction)
    observation = replace(
        well(),
        resource=resource(WANTED, status=status_with(attempt(1, started=3600))),
        inputs={1: input_of(WANTED)},
        contact=Contact(report(services=found)),
        compaction_jobs=jobs,
    )
    return replace(observation, **changes)


def job(number: int = 3, round_number: int = 1, state: JobState = JobState.RUNNING, **changes: Any) -> CompactionJob:
    name = NAMES.compaction(number, round_number)
    found = CompactionJob(name, number, round_number, DIGEST, state, NOW - timedelta(minutes=1), active=2, ready=2)
    return replace(found, **changes)


def acts(observation: Observation) -> list[Action]:
    """What is decided about Jobs."""
    return [each for each in reconcile(observation).actions if isinstance(each, CreateCompaction | DeleteJob)]


CREATE = CreateCompaction(WORK, DIGEST, WANTED)


def test_a_job_is_created_after_the_status_is_written_on_the_condition_that_nothing_changed() -> None:
    actions = reconcile(seen()).actions
    assert [type(each) for each in actions[:2]] == [WriteStatus, CreateCompaction]
    assert actions[1] == CREATE
    scheduled = after(seen(), status=reconcile(seen()).status)
    assert [type(each) for each in reconcile(scheduled).actions] == [WriteStatus, CreateCompaction]


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        ((), [CREATE]),
        ((job(),), []),
        ((job(terminating=True),), []),
        # another round, or the compaction before
        ((job(round_number=2),), [DeleteJob(NAMES.compaction(3, 2))]),
        ((job(2),), [DeleteJob(NAMES.compaction(2, 1))]),
        ((job(2, terminating=True),), []),
        ((job(2, state=JobState.SUCCEEDED),), [CREATE]),
        # the settings of the Job have changed
        ((job(digest="another"),), [DeleteJob(NAMES.compaction(3, 1))]),
        # it has ended, and its work is still wanted
        ((job(state=JobState.SUCCEEDED, finished_at=NOW - timedelta(seconds=30)),), []),
        (
            (job(state=JobState.SUCCEEDED, finished_at=NOW - timedelta(minutes=3)),),
            [DeleteJob(NAMES.compaction(3, 1))],
        ),
        ((job(state=JobState.FAILED, finished_at=NOW - timedelta(minutes=3)),), []),
        (
            (job(state=JobState.FAILED, finished_at=NOW - timedelta(minutes=11)),),
            [DeleteJob(NAMES.compaction(3, 1))],
        ),
    ],
)
def test_one_job_at_a_time_and_that_of_the_round(jobs: tuple[CompactionJob, ...], expected: list[Action]) -> None:
    assert acts(seen(WORK, *jobs)) == expected


def test_the_job_of_a_round_that_has_ended_goes_and_its_logs_stay() -> None:
    assert acts(seen(None, job())) == [DeleteJob(NAMES.compaction(3, 1))]
    assert acts(seen(None, job(state=JobState.SUCCEEDED))) == []


def test_a_driver_that_does_not_answer_or_restarts_leaves_the_job_alone() -> None:
    silent = seen(WORK, job(), contact=Contact(report(services=services()), NOW - timedelta(seconds=20)))
    assert acts(silent) == []
    lost = seen(WORK, job(), drivers=(driver(state=PodState.FAILED, exit_code=9),), contact=Contact())
    assert acts(lost) == []
    starting = seen(WORK, job(), contact=Contact(report(services=None)))
    assert acts(starting) == [], "its services have not looked yet: a Job that merges for hours must go on"
    wants_none = seen(WORK, job(), contact=Contact(report(services=services())))
    assert acts(wants_none) == [DeleteJob(NAMES.compaction(3, 1))]


def test_suspended_deleted_completed_or_stalled_there_is_no_job() -> None:
    deleted = [DeleteJob(NAMES.compaction(3, 1))]
    suspended = bucket_ingest({**SPEC, "suspend": True})
    assert acts(after(seen(WORK, job()), wanted=suspended)) == deleted
    assert acts(after(seen(WORK, job()), deleting=True)) == deleted
    failed = driver(state=PodState.FAILED, exit_code=3, report=termination(3))
    stalled = reconcile(seen(WORK, drivers=(failed,), contact=Contact())).status
    assert acts(after(seen(WORK, job(), drivers=(failed,), contact=Contact()), status=stalled)) == deleted
    completed = replace(ended("Completed", 5), compaction_jobs=(job(),))
    assert acts(completed) == deleted


def test_a_paused_operator_neither_creates_nor_deletes() -> None:
    paused = {"annotations": {PAUSE_ANNOTATION: "true"}}
    assert acts(after(seen(), **paused)) == []
    assert acts(after(seen(None, job()), **paused)) == []


def test_after_a_refusal_it_waits_before_the_next_try() -> None:
    refusal = Refusal(NAMES.compaction(3, 1), "exceeded quota", NOW - REFUSED_REST / 2)
    assert acts(seen(refusals=(refusal,))) == []
    assert acts(seen(refusals=(replace(refusal, at=NOW - REFUSED_REST),))) == [CREATE]
    assert acts(seen(refusals=(replace(refusal, at=NOW + timedelta(hours=1)),))) == [CREATE], "the clock was set back"
    assert acts(seen(refusals=(replace(refusal, job="another"),))) == [CREATE]


def test_the_size_of_the_job_does_not_restart_the_driver() -> None:
    larger = bucket_ingest({"services": {"mode": "job", "compaction": {"job": {"parallelism": 9}}}})
    assert digest(larger) == digest(WANTED)
    assert compaction_digest(larger) != DIGEST


def test_a_pod_section_gives_the_job_other_pods_and_without_one_it_is_as_in_older_versions() -> None:
    placed = bucket_ingest({"services": {"mode": "job"}, "pod": {"nodeSelector": {"disk": "nvme"}}})
    assert compaction_digest(placed) != compaction_digest(bucket_ingest({"services": {"mode": "job"}}))
    assert compaction_digest(bucket_ingest({})) == "1af86171dc6acc87"


def test_status_changes_only_with_a_compaction() -> None:
    first = reconcile(seen(WORK, job())).status
    found = first.services
    assert found is not None
    assert (found.mode, found.home, found.pending, found.failures) == ("job", "job", WORK.compaction, 0)
    later = seen(WORK, job())
    later = after(later, status=first)
    looked = services(job=WORK, compacting=WORK.compaction, log_files=99, log_bytes=1, oldest_log_seconds=5.0)
    assert reconcile(replace(later, contact=Contact(report(services=looked)))).actions == ()


def test_a_driver_that_has_just_started_does_not_erase_what_the_last_one_found() -> None:
    first = reconcile(seen(None)).status
    assert first.services is not None
    fresh = ServicesReport(
        log_files=0,
        log_bytes=0,
        oldest_log_seconds=None,
        compacting=WORK.compaction,
        compacting_seconds=1,
        compactions=0,
        failures=0,
        mode="job",
    )
    now = reconcile(after(seen(contact=Contact(report(services=fresh))), status=first)).status.services
    assert now is not None
    assert now.oldest_log_at == first.services.oldest_log_at
    assert now.last_compaction == first.services.last_compaction


def test_a_pipeline_without_table_services_has_no_status_of_them() -> None:
    status = reconcile(well()).status
    assert status.services is None
    assert not any(each.type == "ServicesHealthy" for each in status.conditions or ())
    off = bucket_ingest({"services": {"mode": "off"}})
    was = reconcile(seen(None)).status
    switched = replace(well(), resource=resource(off, status=was), inputs={1: input_of(off)})
    assert reconcile(switched).status.services is None
