"""Reads the JSON of Jobs that check a changed spec, and what their pods say. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from bucketingest_operator.manifests.attempt_input import read_digest
from bucketingest_operator.manifests.attempt_objects import PREFLIGHT_DIGEST, PREFLIGHT_ROLE, ROLE_LABEL
from bucketingest_operator.observation import JobState, PodReason, PreflightJob
from bucketingest_operator.observe.executor_probe import waits_for_volumes
from bucketingest_operator.observe.job_reading import job_end
from bucketingest_operator.observe.ownership import Owned, controller_of
from bucketingest_operator.observe.pod_reading import PodSeen, read_time

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PreflightSeen(Owned):
    """A Job that checks a changed spec, and whose it is."""

    job: PreflightJob


def read_preflight(job: Object) -> PreflightSeen | None:
    """The Job; None if its label and annotation are not those of a check."""
    metadata, end = job["metadata"], job_end(job.get("status") or {})
    digest = read_digest((metadata.get("annotations") or {}).get(PREFLIGHT_DIGEST))
    if (metadata.get("labels") or {}).get(ROLE_LABEL) != PREFLIGHT_ROLE or not digest:
        return None
    found = PreflightJob(
        name=metadata["name"],
        uid=metadata["uid"],
        digest=digest,
        state=end.state,
        created_at=read_time(metadata["creationTimestamp"]),
        terminating="deletionTimestamp" in metadata,
        message=end.message,
    )
    return PreflightSeen(found, namespace=metadata["namespace"], controller=controller_of(metadata))


def preflight_jobs(jobs: Iterable[PreflightSeen], pods: Iterable[PodSeen], now: datetime) -> tuple[PreflightJob, ...]:
    """The Jobs, with what the newest pod of each says, in the order of their names."""
    newest: dict[str, PodSeen] = {}
    for pod in sorted(pods, key=lambda each: (each.created_at, each.name)):
        if pod.role == PREFLIGHT_ROLE and pod.controller is not None:
            newest[pod.controller.uid] = pod
    found = (_with_pod(each.job, newest.get(each.job.uid), now) for each in jobs)
    return tuple(sorted(found, key=lambda job: job.name))


def _with_pod(job: PreflightJob, pod: PodSeen | None, now: datetime) -> PreflightJob:
    if pod is None:
        return job
    if job.state is JobState.RUNNING and pod.exit_code is not None:  # a mesh may keep the pod; it is tried once
        job = replace(job, state=JobState.FAILED if pod.exit_code else JobState.SUCCEEDED)
    if job.state is JobState.RUNNING and pod.reason is PodReason.NONE and waits_for_volumes(pod, now):
        message = "Its node has not set up its volumes: does each Secret that it mounts exist?"
        return replace(job, waiting=PodReason.CONFIG, message=message)
    waiting = pod.reason if job.state is JobState.RUNNING else PodReason.NONE
    return replace(job, waiting=waiting, message=pod.message or job.message, report=pod.report)
