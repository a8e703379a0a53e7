"""Reads the JSON of rollback Jobs and of attempts' ConfigMaps. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from bucketingest_operator.manifests.attempt_input import parse_attempt_input
from bucketingest_operator.manifests.attempt_objects import ROLE_LABEL
from bucketingest_operator.observation import AttemptInput, JobState, RollbackJob
from bucketingest_operator.observe.ownership import Owned, controller_of
from bucketingest_operator.observe.pod_reading import PodSeen, attempt_of, read_time, short

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class JobSeen(Owned):
    """A rollback Job as the API server shows it."""

    name: str
    attempt: int
    state: JobState
    terminating: bool
    message: str
    uid: str


@dataclass(frozen=True, slots=True)
class ConfigSeen(Owned):
    """The ConfigMap of an attempt: only its annotations are kept."""

    attempt: int
    attempt_input: AttemptInput | None


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How a Job ended, and when; RUNNING while a pod of it may run."""

    state: JobState = JobState.RUNNING
    at: datetime | None = None
    message: str = ""


_ENDS: Final = {"Complete": JobState.SUCCEEDED, "Failed": JobState.FAILED}
"""Conditions that are set once no pod of a Job runs any more, unlike SuccessCriteriaMet and FailureTarget."""


def job_end(status: Object) -> JobEnd:
    """How a Job ended, by its status."""
    for each in status.get("conditions") or ():
        if each.get("status") == "True" and each.get("type") in _ENDS:
            at = each.get("lastTransitionTime")
            return JobEnd(_ENDS[each["type"]], read_time(at) if at else None, short(each.get("message") or ""))
    return JobEnd()


def read_job(job: Object) -> JobSeen | None:
    """The Job; None if its labels are not the operator's."""
    metadata = job["metadata"]
    labels = metadata.get("labels") or {}
    attempt = attempt_of(labels)
    if attempt is None or labels.get(ROLE_LABEL) != "rollback":
        return None
    end = job_end(job.get("status") or {})
    return JobSeen(
        metadata["name"],
        attempt,
        end.state,
        "deletionTimestamp" in metadata,
        end.message,
        metadata["uid"],
        namespace=metadata["namespace"],
        controller=controller_of(metadata),
    )


def read_config(config_map: Object) -> ConfigSeen | None:
    """The ConfigMap; None if its labels are not the operator's."""
    metadata = config_map["metadata"]
    labels = metadata.get("labels") or {}
    attempt = attempt_of(labels)
    if attempt is None or labels.get(ROLE_LABEL) != "config":
        return None
    attempt_input = parse_attempt_input(metadata.get("annotations") or {})
    return ConfigSeen(attempt, attempt_input, namespace=metadata["namespace"], controller=controller_of(metadata))


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
    # A mesh may keep the pod, and so the Job, for ever.
    state = JobState.SUCCEEDED if pod.exit_code == 0 else job.state
    return RollbackJob(job.attempt, state, job.terminating, pod.exit_code, message)
