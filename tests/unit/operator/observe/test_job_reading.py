"""Reading the JSON of rollback Jobs and ConfigMaps."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from bucketingest_operator.manifests.attempt_input import input_annotations
from bucketingest_operator.observation import CompactionJob, JobState, PodState
from bucketingest_operator.observe.job_reading import (
    CompactionJobSeen,
    compaction_jobs,
    read_config,
    read_job,
    rollback_jobs,
)
from bucketingest_operator.observe.ownership import Controller
from bucketingest_operator.observe.pod_reading import PodSeen
from support.operator.observations import UID, bucket_ingest, input_of, termination


def labelled(role: str, **metadata: Any) -> dict[str, Any]:
    labels = {"bucketingest.dev/uid": UID, "bucketingest.dev/attempt": "2", "bucketingest.dev/role": role}
    return {"uid": "j", "name": "orders-2-rollback", "namespace": "ingest", "labels": labels, **metadata}


def job(*conditions: dict[str, str], **metadata: Any) -> Any:
    return read_job({"metadata": labelled("rollback", **metadata), "status": {"conditions": list(conditions)}})


@pytest.mark.parametrize(
    ("kind", "value", "state"),
    [
        ("Complete", "True", JobState.SUCCEEDED),
        ("Complete", "False", JobState.RUNNING),
        ("Failed", "True", JobState.FAILED),
        # Its pods may still run.
        ("SuccessCriteriaMet", "True", JobState.RUNNING),
        ("FailureTarget", "True", JobState.RUNNING),
        ("Suspended", "True", JobState.RUNNING),
    ],
)
def test_a_job_has_ended_when_none_of_its_pods_runs(kind: str, value: str, state: JobState) -> None:
    assert job({"type": kind, "status": value}).state is state


def test_a_job_that_is_being_deleted_says_so() -> None:
    assert job(deletionTimestamp="2026-11-21T12:00:00Z").terminating
    assert not job().terminating


def pod(minute: int, code: int | None, **fields: Any) -> PodSeen:
    at = datetime(2026, 11, 21, 12, minute, tzinfo=UTC)
    return PodSeen(
        uid=f"p{minute}",
        namespace="ingest",
        name=f"p{minute}",
        role="rollback",
        attempt=2,
        created_at=at,
        phase="Failed",
        state=PodState.FAILED,
        exit_code=code,
        **fields,
    )


def test_the_last_pod_of_a_job_says_how_it_ended() -> None:
    failed = job({"type": "Failed", "status": "True", "message": "backoff limit"})
    pods = [pod(3, 7, report=termination(7, "Denied.")), pod(1, 6), pod(5, None)]
    (found,) = rollback_jobs([failed], pods)
    assert (found.exit_code, found.message, found.state) == (7, "Denied.", JobState.FAILED)


def test_a_job_whose_container_is_done_has_ended_though_a_mesh_keeps_its_pod() -> None:
    (found,) = rollback_jobs([job()], [pod(3, 7), pod(4, 0)])
    assert found.state is JobState.SUCCEEDED
    (found,) = rollback_jobs([job()], [pod(3, 7), pod(5, None)])
    assert found.state is JobState.RUNNING, "another pod may follow one that failed"


def merging(number: int, uid: str) -> CompactionJobSeen:
    at = datetime(2026, 11, 21, 12, tzinfo=UTC)
    return CompactionJobSeen(
        CompactionJob(f"orders-{uid}", number, 0, "", JobState.RUNNING, at, uid=uid), namespace="ingest"
    )


def test_the_job_of_a_suspended_resource_is_done_with_its_container_though_a_mesh_keeps_its_pod() -> None:
    ended = pod(3, 0, finished_at=datetime(2026, 11, 21, 12, 4, tzinfo=UTC), controller=Controller("Job", "all"))
    (found,) = compaction_jobs([merging(0, "all")], [ended])
    assert (found.state, found.finished_at) == (JobState.SUCCEEDED, ended.finished_at)
    for other in (replace(ended, exit_code=7), replace(ended, exit_code=None), replace(ended, controller=None)):
        assert compaction_jobs([merging(0, "all")], [other])[0].state is JobState.RUNNING, "another pod may follow"
    one_of_many = replace(ended, controller=Controller("Job", "round"))
    assert compaction_jobs([merging(3, "round")], [one_of_many])[0].state is JobState.RUNNING


def test_a_job_without_pods_says_what_kubernetes_says() -> None:
    failed = job({"type": "Failed", "status": "True", "message": "backoff limit"})
    (found,) = rollback_jobs([failed], [])
    assert (found.exit_code, found.message) == (None, "backoff limit")


def test_jobs_of_other_owners_are_ignored() -> None:
    assert read_job({"metadata": labelled("driver")}) is None


def test_a_config_map_has_the_input_of_its_attempt() -> None:
    attempt_input = input_of(bucket_ingest())
    found = read_config({"metadata": labelled("config", annotations=input_annotations(attempt_input))})
    assert found is not None
    assert (found.attempt, found.attempt_input) == (2, attempt_input)


def test_a_config_map_without_annotations_still_belongs_to_an_attempt() -> None:
    found = read_config({"metadata": labelled("config")})
    assert found is not None
    assert found.attempt_input is None
    assert read_config({"metadata": labelled("driver")}) is None
