"""Reads the JSON of Jobs that check a changed spec or audit a table, and what their pods say. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from bucketingest_operator.manifests.attempt_input import read_digest
from bucketingest_operator.manifests.attempt_objects import CHECK_DIGESTS, ROLE_LABEL
from bucketingest_operator.observation import CheckJob, CheckRole, JobState, PodReason
from bucketingest_operator.observe.executor_probe import waits_for_volumes
from bucketingest_operator.observe.job_reading import job_end
from bucketingest_operator.observe.ownership import Owned, controller_of
from bucketingest_operator.observe.pod_reading import PodSeen, read_time

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CheckSeen(Owned):
    """Such a Job, and whose it is."""

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
