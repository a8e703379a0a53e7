"""Reads the JSON of Jobs that merge. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bucketingest_operator.manifests.attempt_input import read_digest
from bucketingest_operator.manifests.attempt_objects import ROLE_LABEL
from bucketingest_operator.manifests.merging_jobs import COMPACTION, COMPACTION_DIGEST, COMPACTION_ROLE
from bucketingest_operator.observation import CompactionJob
from bucketingest_operator.observe.job_reading import JobSeen, job_end, read_job
from bucketingest_operator.observe.ownership import Owned, controller_of
from bucketingest_operator.observe.pod_reading import read_time, whole_number
from bucketingest_operator.observe.preflight_reading import CheckSeen, read_preflight

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CompactionJobSeen(Owned):
    """A compaction's Job, and whose it is."""

    job: CompactionJob


AnyJob = JobSeen | CompactionJobSeen | CheckSeen


def read_any_job(job: Object) -> AnyJob | None:
    """A rollback Job, a compaction's or a preflight's; None if its labels are not the operator's."""
    return read_compaction_job(job) or read_preflight(job) or read_job(job)


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
