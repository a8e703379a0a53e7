"""The Jobs beside an attempt: for a round of a compaction, for all that is due while the resource is suspended, and for
checks, which write nothing.
"""

from __future__ import annotations

from typing import Any, Final

from bucketingest.exit_codes import ExitCode
from bucketingest.spec.job_report import CompactionWork
from bucketingest.spec.model import API_GROUP
from bucketingest.spec.quantity import format_duration
from bucketingest_operator.manifests.attempt_objects import (
    DRAINED_NODE,
    ROLE_LABEL,
    UID_LABEL,
    Manifests,
)
from bucketingest_operator.manifests.pod_specs import (
    AUDIT_CONTAINER,
    COMPACTION_CONTAINER,
    SPEC_FILE,
    merging_pod_spec,
)
from bucketingest_operator.manifests.spark_conf import CONFIG_FOLDER

COMPACTION: Final = f"{API_GROUP}/compaction"
COMPACTION_DIGEST: Final = f"{API_GROUP}/compaction-digest"
"""Annotations of such a Job: number and round of the compaction; what it was made from."""
COMPACTION_ROLE: Final = "compaction"
ALL_DUE: Final = "0/0"
"""Instead of a compaction: all that is due. Compactions are counted from 1."""
_SERVICES_RETRIES: Final = 2


class MergingJobs(Manifests):
    """Makes the Jobs that merge for one resource."""

    def compaction_job(self, work: CompactionWork, digest: str) -> dict[str, Any]:
        """The Job whose pods merge for a round of a compaction. They share the work, so any of them may fail.

        `digest`: of the settings that it is made from.
        """
        settings = self.wanted.spec.services.compaction.job
        pods = max(1, min(settings.parallelism, work.chunks))
        place = ["--number", str(work.number), "--round", str(work.round), "--of", str(pods)]
        args = ["compact-round", self.wanted.spec.table.path, *place]
        spec = {
            "completionMode": "Indexed",
            "completions": pods,
            "parallelism": pods,
            "backoffLimit": settings.retries,
            "ttlSecondsAfterFinished": int(settings.keep.total_seconds()),
            # A pod's claims are free for its successor only when its process has ended.
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {"rules": [DRAINED_NODE]},
        }
        pod_spec = merging_pod_spec(self.wanted, self.names, self.settings, args)
        name = self.names.compaction(work.number, work.round)
        annotations = {COMPACTION: f"{work.number}/{work.round}", COMPACTION_DIGEST: digest}
        return self._job(name, annotations, spec, pod_spec)

    def services_job(self) -> dict[str, Any]:
        """The Job of one pod that does all that is due while the resource is suspended. It stays until the next."""
        held = {"containerName": COMPACTION_CONTAINER, "operator": "In", "values": [int(ExitCode.TABLE_LOCKED)]}
        spec = {
            "backoffLimit": _SERVICES_RETRIES,
            # Another process holds the table: the next Job may find it free.
            "podFailurePolicy": {"rules": [DRAINED_NODE, {"action": "FailJob", "onExitCodes": held}]},
        }
        args = ["services", f"{CONFIG_FOLDER}/{SPEC_FILE}"]
        pod_spec = merging_pod_spec(self.wanted, self.names, self.settings, args, has_spec=True)
        pod_spec["terminationGracePeriodSeconds"] = int(self.settings.grace.total_seconds())
        return self._job(self.names.services, {COMPACTION: ALL_DUE}, spec, pod_spec, has_spec=True)

    def audit_job(self, number: int, digest: str) -> dict[str, Any]:
        """The Job that compares the table with its source while the attempt of this number runs. It is tried once, and
        stays until the next.
        """
        asked = self.wanted.spec.audit
        assert asked is not None
        args = ["audit", f"{CONFIG_FOLDER}/{SPEC_FILE}", "--against", asked.against]
        args += [] if asked.table is None else ["--table", asked.table]
        args += ["--columns", ",".join(asked.columns)] if asked.columns else []
        for option in ("pause", "statement_timeout", "settle"):
            args += [f"--{option.replace('_', '-')}", format_duration(getattr(asked, option))]
        pod_spec = merging_pod_spec(self.wanted, self.names, self.settings, args, has_spec=True, name=AUDIT_CONTAINER)
        if asked.password_from is not None:
            reference = asked.password_from.secret_key_ref.to_document()
            (container,) = pod_spec["containers"]
            container["env"] = [*container["env"], {"name": "PGPASSWORD", "valueFrom": {"secretKeyRef": reference}}]
        limits = {"activeDeadlineSeconds": int(asked.window.duration.total_seconds())}
        return self._check_job("audit", number, digest, pod_spec, limits)

    def _job(
        self,
        name: str,
        annotations: dict[str, str],
        spec: dict[str, Any],
        pod_spec: dict[str, Any],
        *,
        has_spec: bool = False,
    ) -> dict[str, Any]:
        labels = {UID_LABEL: self.uid, ROLE_LABEL: COMPACTION_ROLE}
        manifest = self._object("batch/v1", "Job", name)
        manifest["metadata"]["labels"] |= labels
        manifest["metadata"]["annotations"] = annotations
        metadata = self._pod_metadata(None, None, has_spec=has_spec)
        metadata["labels"] |= labels
        deadline = int(self.wanted.spec.services.compaction.job.deadline.total_seconds())
        template = {"metadata": metadata, "spec": pod_spec}
        return {**manifest, "spec": {**spec, "activeDeadlineSeconds": deadline, "template": template}}
