"""Reads the JSON of Jobs that roll back, merge or check, and of attempts' ConfigMaps. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from bucketingest_operator.manifests.attempt_input import parse_attempt_input, read_digest
from bucketingest_operator.manifests.attempt_objects import CHECK_DIGESTS, ROLE_LABEL
from bucketingest_operator.manifests.merging_jobs import COMPACTION, COMPACTION_DIGEST, COMPACTION_ROLE
from bucketingest_operator.observation import (
    AttemptInput,
    CheckJob,
    CheckRole,
    CompactionJob,
    JobState,
    PodReason,
    RollbackJob,
)
from bucketingest_operator.observe.executor_probe import waits_for_volumes
from bucketingest_operator.observe.ownership import Owned, controller_of
from bucketingest_operator.observe.pod_reading import PodSeen, attempt_of, read_time, short, whole_number

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


@dataclass(frozen=True, slots=True)
class CompactionJobSeen(Owned):
    """A compaction's Job, and whose it is."""

    job: CompactionJob


@dataclass(frozen=True, slots=True)
class CheckSeen(Owned):
    """A Job that checks a changed spec or audits a table, and whose it is."""

    job: CheckJob
    role: str


def read_preflight(job: Object) -> CheckSeen | None:
    """The Job; None if its label and annotation are not those of a check."""
    metadata, end = job["metadata"], job_end(job.get("status") or {})
    role = (metadata.get("labels") or {}).get(ROLE_LABEL, "")
    digest = read_digest((metadata.get("annotations") or {}).get(CHECK_DIGESTS.get(role)))
    if not digest:
        return None
    found = CheckJob(
        name=metadata["name"],
        uid=metadata["uid"],
        digest=digest,
        state=end.state,
        created_at=read_time(metadata["creationTimestamp"]),
        terminating="deletionTimestamp" in metadata,
        message=end.message,
    )
    return CheckSeen(found, role, namespace=metadata["namespace"], controller=controller_of(metadata))


def check_jobs(
    role: CheckRole, jobs: Iterable[CheckSeen], pods: Iterable[PodSeen], now: datetime
) -> tuple[CheckJob, ...]:
    """The Jobs of a role, with what the newest pod of each says, in the order of their names."""
    newest: dict[str, PodSeen] = {}
    for pod in sorted(pods, key=lambda each: (each.created_at, each.name)):
        if pod.role == role and pod.controller is not None:
            newest[pod.controller.uid] = pod
    found = (_with_pod(each.job, newest.get(each.job.uid), now) for each in jobs if each.role == role)
    return tuple(sorted(found, key=lambda job: job.name))


def _with_pod(job: CheckJob, pod: PodSeen | None, now: datetime) -> CheckJob:
    if pod is None:
        return job
    if job.state is JobState.RUNNING and pod.exit_code is not None:  # a mesh may keep the pod; it is tried once
        job = replace(job, state=JobState.FAILED if pod.exit_code else JobState.SUCCEEDED)
    if job.state is JobState.RUNNING and pod.reason is PodReason.NONE and waits_for_volumes(pod, now):
        message = "Its node has not set up its volumes: does each Secret that it mounts exist?"
        return replace(job, waiting=PodReason.CONFIG, message=message)
    waiting = pod.reason if job.state is JobState.RUNNING else PodReason.NONE
    return replace(job, waiting=waiting, message=pod.message or job.message, report=pod.report)


def compaction_jobs(jobs: Iterable[CompactionJobSeen], pods: Iterable[PodSeen]) -> tuple[CompactionJob, ...]:
    """The Jobs of compactions, and the one of a suspended resource, in the order of their rounds.

    That one has a single pod, so it is done when its container is: a mesh may keep the pod, and so the Job.
    """
    done = {pod.controller.uid: pod.finished_at for pod in pods if pod.controller is not None and pod.exit_code == 0}
    found = [
        replace(each.job, state=JobState.SUCCEEDED, finished_at=done[each.job.uid])
        if each.job.does_all and each.job.state is JobState.RUNNING and each.job.uid in done
        else each.job
        for each in jobs
    ]
    return tuple(sorted(found, key=lambda one: (one.number, one.round)))


def read_compaction_job(job: Object) -> CompactionJobSeen | None:
    """The Job; None if its labels and annotations are not those of a compaction's."""
    metadata, status = job["metadata"], job.get("status") or {}
    annotations = metadata.get("annotations") or {}
    number, round_number = map(whole_number, annotations.get(COMPACTION, "").partition("/")[::2])
    is_ours = (metadata.get("labels") or {}).get(ROLE_LABEL) == COMPACTION_ROLE
    if not is_ours or number is None or round_number is None:
        return None
    end = job_end(status)
    found = CompactionJob(
        name=metadata["name"],
        uid=metadata["uid"],
        number=number,
        round=round_number,
        digest=read_digest(annotations.get(COMPACTION_DIGEST)) or "",
        state=end.state,
        created_at=read_time(metadata["creationTimestamp"]),
        finished_at=end.at,
        terminating="deletionTimestamp" in metadata,
        active=status.get("active") or 0,
        ready=status.get("ready") or 0,
        message=end.message,
    )
    return CompactionJobSeen(found, namespace=metadata["namespace"], controller=controller_of(metadata))


AnyJob = JobSeen | CompactionJobSeen | CheckSeen


def read_any_job(job: Object) -> AnyJob | None:
    """A rollback Job, a compaction's or a preflight's; None if its labels are not the operator's."""
    return read_compaction_job(job) or read_preflight(job) or read_job(job)
