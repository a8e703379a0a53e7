"""Reading the JSON of Jobs that check a spec, with what their pods say."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from bucketingest_operator.observation import JobState, PodReason, PodState
from bucketingest_operator.observe.executor_probe import MOUNT_PATIENCE
from bucketingest_operator.observe.job_reading import CheckSeen, check_jobs, read_any_job, read_preflight
from bucketingest_operator.observe.ownership import Controller
from bucketingest_operator.observe.pod_reading import PodSeen, read_pod
from support.operator.made_objects import manifests
from support.operator.observations import NOW, UID, termination

DIGEST = "0123456789abcdef"


def made(*conditions: dict[str, str], **metadata: Any) -> dict[str, Any]:
    """As the API server returns what the operator makes."""
    job = manifests().preflight_job(3, DIGEST)
    own = {"uid": "check-1", "creationTimestamp": "2026-11-21T11:59:00Z", **metadata}
    return {**job, "metadata": {**job["metadata"], **own}, "status": {"conditions": list(conditions)}}


def seen(*conditions: dict[str, str], **metadata: Any) -> CheckSeen:
    found = read_preflight(made(*conditions, **metadata))
    assert found is not None
    return found


def pod(**changes: Any) -> PodSeen:
    fields: dict[str, Any] = {
        "uid": "p",
        "namespace": "ingest",
        "name": "p",
        "role": "preflight",
        "attempt": 3,
        "created_at": NOW,
        "phase": "Pending",
        "state": PodState.PENDING,
        "controller": Controller("Job", "check-1"),
    }
    return PodSeen(**{**fields, **changes})


def test_what_the_operator_makes_is_read_back() -> None:
    assert isinstance(read_any_job(made()), CheckSeen)
    found = seen()
    assert (found.job.digest, found.job.state, found.job.uid) == (DIGEST, JobState.RUNNING, "check-1")
    assert found.controller == Controller("BucketIngest", UID)
    template = manifests().preflight_job(3, DIGEST)["spec"]["template"]
    metadata = {"uid": "p", "name": "p", "namespace": "ingest", "creationTimestamp": "2026-11-21T11:59:00Z"}
    read = read_pod({"metadata": {**template["metadata"], **metadata}, "spec": template["spec"], "status": {}})
    assert read is not None
    assert (read.role, read.attempt) == ("preflight", 3)


def test_a_job_without_the_label_or_the_hash_is_none() -> None:
    other = made()
    other["metadata"]["annotations"] = {}
    assert read_preflight(other) is None
    other = made()
    other["metadata"]["labels"] = {**other["metadata"]["labels"], "bucketingest.dev/role": "rollback"}
    assert read_preflight(other) is None


@pytest.mark.parametrize(
    ("kind", "state"),
    [("Complete", JobState.SUCCEEDED), ("Failed", JobState.FAILED), ("FailureTarget", JobState.RUNNING)],
)
def test_its_state_is_that_of_its_conditions(kind: str, state: JobState) -> None:
    assert seen({"type": kind, "status": "True", "message": "said"}).job.state is state


def test_the_newest_pod_says_why_it_waits_or_how_it_ended() -> None:
    waits = pod(reason=PodReason.IMAGE_PULL, message="ErrImagePull")
    (job,) = check_jobs("preflight", [seen()], [waits], NOW)
    assert (job.waiting, job.message) == (PodReason.IMAGE_PULL, "ErrImagePull")
    said = termination(15, "no broker", "PreflightFailed")
    over = pod(name="q", created_at=NOW + timedelta(seconds=1), state=PodState.FAILED, report=said)
    failed = seen({"type": "Failed", "status": "True", "message": "BackoffLimitExceeded"})
    (job,) = check_jobs("preflight", [failed], [over, waits], NOW)
    assert (job.waiting, job.message, job.report) == (PodReason.NONE, "BackoffLimitExceeded", said)
    (job,) = check_jobs("preflight", [failed], [pod(controller=Controller("Job", "another"), report=said)], NOW)
    assert job.report is None


@pytest.mark.parametrize(("code", "state"), [(0, JobState.SUCCEEDED), (15, JobState.FAILED), (None, JobState.RUNNING)])
def test_it_has_ended_with_its_container_though_a_mesh_keeps_the_pod(code: int | None, state: JobState) -> None:
    (job,) = check_jobs("preflight", [seen()], [pod(exit_code=code)], NOW)
    assert job.state is state


def test_a_pod_whose_volumes_never_come_lacks_a_secret() -> None:
    waits = pod(mounting_since=NOW - MOUNT_PATIENCE - timedelta(seconds=1))
    (job,) = check_jobs("preflight", [seen()], [waits], NOW)
    assert (job.waiting, "Secret" in job.message) == (PodReason.CONFIG, True)
