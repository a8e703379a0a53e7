"""Reads the JSON of rollback Jobs and of attempts' ConfigMaps. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bucketingest_operator.manifests.attempt_input import parse_attempt_input
from bucketingest_operator.manifests.attempt_objects import ROLE_LABEL
from bucketingest_operator.observation import AttemptInput, JobState, RollbackJob
from bucketingest_operator.observe.ownership import Controller, controller_of
from bucketingest_operator.observe.pod_reading import PodSeen, attempt_of, short

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class JobSeen:
    """One rollback Job."""

    name: str
    attempt: int
    state: JobState
    terminating: bool
    message: str
    uid: str
    namespace: str
    controller: Controller | None


@dataclass(frozen=True, slots=True)
class ConfigSeen:
    """The ConfigMap of an attempt: only its annotations are kept."""

    attempt: int
    attempt_input: AttemptInput | None
    namespace: str
    controller: Controller | None


def read_job(job: Object) -> JobSeen | None:
    """The Job; None if its labels are not the operator's."""
    metadata, status = job["metadata"], job.get("status") or {}
    labels = metadata.get("labels") or {}
    attempt = attempt_of(labels)
    if attempt is None or labels.get(ROLE_LABEL) != "rollback":
        return None
    state, message = JobState.RUNNING, ""
    for condition in status.get("conditions") or ():
        # Set once none of its pods runs any more, unlike SuccessCriteriaMet and FailureTarget.
        if condition.get("status") == "True" and condition.get("type") in {"Complete", "Failed"}:
            state = JobState.SUCCEEDED if condition["type"] == "Complete" else JobState.FAILED
            message = short(condition.get("message") or "")
    return JobSeen(
        metadata["name"],
        attempt,
        state,
        "deletionTimestamp" in metadata,
        message,
        metadata["uid"],
        metadata["namespace"],
        controller_of(metadata),
    )


def read_config(config_map: Object) -> ConfigSeen | None:
    """The ConfigMap; None if its labels are not the operator's."""
    metadata = config_map["metadata"]
    labels = metadata.get("labels") or {}
    attempt = attempt_of(labels)
    if attempt is None or labels.get(ROLE_LABEL) != "config":
        return None
    attempt_input = parse_attempt_input(metadata.get("annotations") or {})
    return ConfigSeen(attempt, attempt_input, metadata["namespace"], controller_of(metadata))


def rollback_jobs(jobs: Iterable[JobSeen], pods: Iterable[PodSeen]) -> tuple[RollbackJob, ...]:
    """Rollback Jobs, with the end of the last pod of each."""
    said: dict[int, PodSeen] = {}
    for pod in sorted(pods, key=_end):
        if pod.role == "rollback" and pod.exit_code is not None:
            said[pod.attempt] = pod
    return tuple(_with_end(job, said.get(job.attempt)) for job in jobs)


def _end(pod: PodSeen) -> datetime:
    return pod.finished_at or pod.created_at


def _with_end(job: JobSeen, pod: PodSeen | None) -> RollbackJob:
    if pod is None:
        return RollbackJob(job.attempt, job.state, job.terminating, message=job.message)
    message = pod.report.message if pod.report is not None else pod.message or job.message
    return RollbackJob(job.attempt, job.state, job.terminating, pod.exit_code, message)
