"""Why a driver has no executors: Spark creates them, and only the API server knows what it refuses or lacks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from bucketingest.spec.job_report import ProgressReport
from bucketingest_operator.kube.api import Api, ApiError
from bucketingest_operator.kube.kinds import PODS, SECRETS
from bucketingest_operator.manifests.attempt_objects import Manifests
from bucketingest_operator.manifests.settings import JobSettings
from bucketingest_operator.observation import Executors, PodState
from bucketingest_operator.observe.pod_reading import PodSeen
from bucketingest_operator.observe.progress_client import Talk
from bucketingest_operator.resource import Resource

log = logging.getLogger(__name__)

PATIENCE: Final = timedelta(seconds=30)
"""A driver that has just started has no executors yet."""
AGAIN_SECONDS: Final = 60.0
MOUNT_PATIENCE: Final = timedelta(seconds=60)
"""A pod without volumes and network after this time waits for something that is missing."""


class ExecutorProbe:
    """Asks the API server whether it would accept an executor of a driver: a creation that it only checks (dry run)."""

    def __init__(self, api: Api, settings: JobSettings) -> None:
        self._api = api
        self._settings = settings

    async def why_none(
        self, resource: Resource, pod: PodSeen | None, talk: Talk | None, found: Executors, now: datetime
    ) -> str:
        """The API server's sentence; "" if executors exist or would be accepted, or if it cannot be known."""
        if pod is None or talk is None or found.running or found.pending or not _should_have(pod, talk.report, now):
            return ""
        clock = asyncio.get_running_loop().time()
        if talk.probed_at is None or clock - talk.probed_at >= AGAIN_SECONDS:
            talk.probed_at = clock
            talk.executors_refused = await self._ask(resource, pod.attempt)
        return talk.executors_refused

    async def secret_gone(self, resource: Resource, pods: Sequence[PodSeen], talk: Talk | None, now: datetime) -> bool:
        """Whether these pods of an attempt wait for the Secret of Spark's ports because it no longer exists.

        The operator may not read Secrets: it asks whether it could create this one.
        """
        names = [pod.rpc_secret for pod in pods if _waits_for_secret(pod, now)]
        if talk is None or not names:
            return False
        clock = asyncio.get_running_loop().time()
        if talk.secret_probed_at is None or clock - talk.secret_probed_at >= AGAIN_SECONDS:
            talk.secret_probed_at = clock
            metadata = {"name": names[0], "namespace": resource.namespace}
            probe = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
            try:
                await self._api.create(SECRETS, resource.namespace, probe, dry_run=True)
                talk.secret_gone = True
            except ApiError as error:
                talk.secret_gone = False
                log.debug("a Secret was probed", extra={"namespace": resource.namespace, "answer": error.reason})
        return talk.secret_gone

    async def _ask(self, resource: Resource, attempt: int) -> str:
        if resource.wanted is None or resource.wanted.spec.spark.is_driver_only:
            return ""
        made = Manifests(resource.wanted, resource.namespace, resource.uid, self._settings)
        try:
            await self._api.create(PODS, resource.namespace, made.executor_example(attempt), dry_run=True)
        except ApiError as error:
            # A webhook may not support dry runs: then the answer is not about the executor.
            if error.refuses_the_content and "dry run" not in error.sentence.lower():
                return error.sentence
            log.debug("executors could not be probed", extra={"namespace": resource.namespace, "error": str(error)})
        return ""


def waits_for_volumes(pod: PodSeen, now: datetime) -> bool:
    """Whether a node has not set up a pod's volumes and network in time."""
    return pod.mounting_since is not None and now - pod.mounting_since > MOUNT_PATIENCE


def _waits_for_secret(pod: PodSeen, now: datetime) -> bool:
    return bool(pod.rpc_secret) and not pod.terminating and waits_for_volumes(pod, now)


def _should_have(pod: PodSeen, report: ProgressReport | None, now: datetime) -> bool:
    """Whether a driver runs for long enough and commits nothing although it may have input."""
    if pod.state is not PodState.RUNNING or pod.terminating or now - pod.created_at < PATIENCE or report is None:
        return False
    commit = report.last_commit
    return not report.idle and (commit is None or commit.age_seconds > AGAIN_SECONDS)
