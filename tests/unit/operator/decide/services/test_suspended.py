"""Table services of a suspended resource: a Job once a day, only where it is asked for, and gone before a driver."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bucketingest.spec.status import LastCommit, ServicesStatus, Status
from bucketingest_operator.decide.plan import Action, CreateServices, DeleteJob, WriteStatus
from bucketingest_operator.decide.reconcile import reconcile
from bucketingest_operator.decide.services.suspended import AFTER_FAILURE, EVERY
from bucketingest_operator.decide.spec_changes import digest
from bucketingest_operator.observation import (
    REFUSED_REST,
    Claim,
    CompactionJob,
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
    input_of,
    resource,
    status_with,
)

SERVICES = {"whileSuspended": True}
WANTED = bucket_ingest({"suspend": True, "services": SERVICES})
COMMIT = LastCommit.model_validate({"instant": "20261121105950000", "time": NOW - timedelta(hours=1), "rows": 1})
CREATE, DELETE = CreateServices(WANTED), DeleteJob(NAMES.services)
MINUTE = timedelta(minutes=1)


def seen(*jobs: CompactionJob, ended_ago: timedelta = timedelta(hours=2), **changes: Any) -> Observation:
    """A suspended pipeline whose driver has ended."""
    seconds = ended_ago.total_seconds()
    status = status_with(attempt(1, started=seconds + 60, ended=seconds, outcome="Suspended"), last_commit=COMMIT)
    found = Observation(NOW, resource(WANTED, status=status), inputs={1: input_of(WANTED)}, compaction_jobs=jobs)
    return replace(found, **changes)


def job(state: JobState = JobState.SUCCEEDED, ago: timedelta = timedelta(), **changes: Any) -> CompactionJob:
    """A Job that ended so long ago, unless it runs."""
    finished = None if state is JobState.RUNNING else NOW - ago
    return replace(CompactionJob(NAMES.services, 0, 0, "", state, NOW - ago - MINUTE, finished_at=finished), **changes)


def acts(observation: Observation) -> list[Action]:
    return [each for each in reconcile(observation).actions if isinstance(each, CreateServices | DeleteJob)]


def judged(observation: Observation) -> tuple[str, str, str | None]:
    """Value and reason of the condition, and the result in the status."""
    status = reconcile(observation).status
    (found,) = [each for each in status.conditions or () if each.type == "ServicesHealthy"]
    assert status.services is not None
    return found.status, found.reason, status.services.suspended_run


def test_the_first_run_comes_when_the_last_drivers_log_files_are_old_enough() -> None:
    young = seen(ended_ago=timedelta(minutes=59))
    assert acts(young) == []
    assert reconcile(young).look_again == MINUTE
    due = reconcile(seen()).actions
    assert [type(each) for each in due[:2]] == [WriteStatus, CreateServices], "only if nothing has changed meanwhile"
    assert acts(seen()) == [CREATE]
    patient = bucket_ingest({"suspend": True, "services": {**SERVICES, "compaction": {"logAge": "720h"}}})
    assert acts(after(seen(ended_ago=EVERY - MINUTE), wanted=patient)) == []
    assert acts(after(seen(ended_ago=EVERY), wanted=patient)) == [CreateServices(patient)]
    promised = bucket_ingest({"suspend": True, "services": SERVICES, "slo": {"readOptimizedFreshness": "4m"}})
    assert acts(after(seen(ended_ago=2 * MINUTE), wanted=promised)) == []
    assert acts(after(seen(ended_ago=3 * MINUTE), wanted=promised)) == [CreateServices(promised)]


@pytest.mark.parametrize(
    ("given", "expected", "said"),
    [
        (job(JobState.RUNNING), [], ("True", "RunsSuspended", "Running")),
        (job(terminating=True), [], ("True", "DoneSuspended", "Done")),
        (job(ago=EVERY - MINUTE), [], ("True", "DoneSuspended", "Done")),
        (job(ago=EVERY), [DELETE], ("True", "DoneSuspended", "Done")),
        (job(JobState.FAILED, AFTER_FAILURE - MINUTE), [], ("False", "SuspendedRunFailed", "Failed")),
        (job(JobState.FAILED, AFTER_FAILURE), [DELETE], ("False", "SuspendedRunFailed", "Failed")),
        (
            job(JobState.FAILED, message="Container compaction failed with exit code 13 matching FailJob rule"),
            [],
            ("Unknown", "TableHeld", "Skipped"),
        ),
    ],
)
def test_another_run_follows_after_a_day_and_after_a_failure_in_an_hour(
    given: CompactionJob, expected: list[Action], said: tuple[str, str, str]
) -> None:
    assert acts(seen(given)) == expected
    assert judged(seen(given)) == said


def test_a_failure_is_one_event() -> None:
    failed = reconcile(seen(job(JobState.FAILED))).actions
    assert "SuspendedRunFailed" in [getattr(each, "reason", "") for each in failed]


@pytest.mark.parametrize(
    "spec",
    [
        {"suspend": True},
        {"suspend": True, "services": {"whileSuspended": False}},
        {"suspend": True, "services": {"whileSuspended": True, "mode": "off"}},
        {"services": SERVICES},
    ],
)
def test_without_being_asked_for_or_not_suspended_there_is_no_job(spec: dict[str, Any]) -> None:
    wanted = bucket_ingest(spec)
    assert acts(after(seen(), wanted=wanted)) == []
    for state in JobState:
        assert acts(after(seen(job(state)), wanted=wanted)) == [DELETE]
    assert acts(after(seen(job(terminating=True)), wanted=wanted)) == []


def test_a_deletion_stops_it_and_a_paused_operator_leaves_it() -> None:
    assert acts(after(seen(job(JobState.RUNNING)), deleting=True)) == [DELETE]
    paused = {"annotations": {PAUSE_ANNOTATION: "true"}}
    assert acts(after(seen(), **paused)) == []
    assert acts(after(seen(job(ago=EVERY)), **paused)) == []


def rival(**changes: Any) -> tuple[Claim, ...]:
    return (Claim("other", "orders", "uid", NOW, **changes),)


ROLLBACK = {"type": "TimelineClean", "status": "False", "reason": "RollbackPending", "lastTransitionTime": NOW}


@pytest.mark.parametrize(
    "observation",
    [
        seen(drivers=(driver(state=PodState.RUNNING),)),
        seen(claims=rival(has_driver=True)),
        seen(claims=rival(holds=True)),
        seen(namespace_terminating=True),
        after(seen(), status=Status()),
        after(seen(), status=status_with(attempt(1, ended=7200), last_commit=COMMIT, conditions=[ROLLBACK])),
        after(seen(), status=status_with(attempt(1, ended=7200))),
    ],
    ids=["driver", "other driver", "other holder", "namespace", "no attempt", "rollback", "no commit"],
)
def test_it_waits_for_whoever_may_hold_the_table_and_for_a_table(observation: Observation) -> None:
    assert acts(observation) == []


def test_after_a_refusal_it_waits_before_the_next_try() -> None:
    refusal = Refusal(NAMES.services, "exceeded quota", NOW - REFUSED_REST / 2)
    assert acts(seen(refusals=(refusal,))) == []
    (found,) = [
        each for each in reconcile(seen(refusals=(refusal,))).status.conditions or () if each.reason == "JobRefused"
    ]
    assert (found.status, found.message) == ("False", "exceeded quota")
    assert acts(seen(refusals=(replace(refusal, at=NOW - REFUSED_REST),))) == [CREATE]


def test_a_job_that_was_done_is_not_failed_when_a_mesh_keeps_its_pod_until_the_deadline() -> None:
    ended = NOW - timedelta(hours=3)
    said = ServicesStatus(mode="inline", suspended_run="Done", suspended_run_at=ended)
    over = job(JobState.FAILED, message="DeadlineExceeded", created_at=ended - MINUTE)
    found = seen(over)
    found = after(found, status=found.resource.status.model_copy(update={"services": said}))
    assert judged(found) == ("True", "DoneSuspended", "Done")
    assert reconcile(found).look_again <= EVERY - timedelta(hours=3)
    later = replace(found, compaction_jobs=(replace(over, created_at=ended + MINUTE),))
    assert judged(later)[1] == "SuspendedRunFailed", "what was done before it says nothing of this one"


def test_the_field_does_not_restart_a_driver() -> None:
    assert digest(bucket_ingest({"services": SERVICES})) == digest(bucket_ingest())
