"""Simulates the node of all driver pods: binds them, reports them running, answers `/progress` at each address."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web

from bucketingest.spec.job_report import CommitReport, InflightReport, LagReport, ProgressReport
from bucketingest_operator.kube.api import Api, ApiError, Object
from bucketingest_operator.kube.kinds import NODES, PODS
from bucketingest_operator.manifests.attempt_objects import MANAGED
from bucketingest_operator.manifests.pod_specs import HTTP_PORT

NODE = "played-fleet"
ADDRESSES = "198.18"
"""Of pods, all on this machine: the range for benchmarks. Kubernetes accepts no loopback address as an endpoint of a
Service: its controllers would try again and again, and the API server do little else.
"""
_PART = 65_536 * 2


class Fleet:
    """All driver pods of a cluster that has no node. `seen`: when a resource's first pod appeared.

    Args:
        api: As an administrator.
        commit_seconds: Time between commits of a job, so that its status changes.
    """

    def __init__(self, api: Api, commit_seconds: float) -> None:
        self._api = api
        self._commit_seconds = commit_seconds
        self._began = time.time()
        self._by_address: dict[str, tuple[str, str]] = {}
        self._bound: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._limit = asyncio.Semaphore(8)
        self.seen: dict[str, float] = {}
        self.stopping: set[str] = set()
        """Resources whose driver is stopped, and the next one does not run yet."""
        self.stopping_max = 0
        self.restarted: set[str] = set()
        """Resources with a second driver that runs."""
        self.asked = 0
        """Number of requests for `/progress`."""

    @property
    def running(self) -> int:
        """Pods that were given an address."""
        return len(self._by_address)

    async def run(self) -> None:
        """Simulate the node, for ever."""
        try:
            await self._api.create(NODES, None, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        except ApiError as error:
            if error.code != 409:
                raise
        runner = web.AppRunner(self._application(), access_log=None)
        await runner.setup()
        await _route("replace")
        await web.TCPSite(runner, "0.0.0.0", HTTP_PORT).start()
        try:
            while True:
                pods, version = await self._api.list(PODS, None, MANAGED)
                for pod in pods:
                    self._take(pod)
                try:
                    async for kind, pod in self._api.watch(PODS, None, MANAGED, since=version, seconds=3600):
                        if kind == "ADDED":
                            self._take(pod)
                        elif kind == "MODIFIED" and "deletionTimestamp" in pod["metadata"]:
                            self._end(pod)
                        elif kind == "MODIFIED" and (pod.get("status") or {}).get("phase") == "Running":
                            self._note_running(pod)
                except ApiError:
                    continue
        finally:
            await runner.cleanup()
            await _route("delete")

    def _take(self, pod: Object) -> None:
        metadata = pod["metadata"]
        if metadata["labels"].get("bucketingest.dev/role") != "driver" or metadata["uid"] in self._bound:
            return
        name = metadata["labels"]["app.kubernetes.io/instance"]
        self.seen.setdefault(f"{metadata['namespace']}/{name}", time.monotonic())
        self._bound.add(metadata["uid"])
        self._spawn(self._start(metadata["namespace"], metadata["name"], name))

    def _end(self, pod: Object) -> None:
        """Its process ends at once."""
        metadata = pod["metadata"]
        if metadata["uid"] not in self._bound:
            return
        self._bound.discard(metadata["uid"])
        self.stopping.add(f"{metadata['namespace']}/{metadata['labels']['app.kubernetes.io/instance']}")
        self.stopping_max = max(self.stopping_max, len(self.stopping))
        self._spawn(self._api.delete(PODS, metadata["namespace"], metadata["name"], grace=0))

    def _note_running(self, pod: Object) -> None:
        """In the order of the API server's changes, as `_end`: the operator acts on what it sees there, not when this
        busy process gets its answers.
        """
        metadata = pod["metadata"]
        if (resource := f"{metadata['namespace']}/{metadata['labels']['app.kubernetes.io/instance']}") in self.stopping:
            self.stopping.discard(resource)
            self.restarted.add(resource)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _start(self, namespace: str, pod: str, name: str) -> None:
        number = len(self._by_address) + 1
        address = f"{ADDRESSES}.{number // 250}.{number % 250 + 1}"
        self._by_address[address] = (namespace, name)
        target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
        container: dict[str, Any] = {
            "name": "driver",
            "image": "played",
            "imageID": "",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": _text(datetime.now(UTC))}},
        }
        status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "containerStatuses": [container]}
        async with self._limit:
            await self._insist("POST", PODS.path(namespace, pod, "binding"), binding)
            await self._insist("PATCH", PODS.path(namespace, pod, "status"), {"status": status})

    async def _insist(self, method: str, path: str, body: Object) -> None:
        """A node tries again while the API server does not answer."""
        while True:
            try:
                await self._api.call(method, path, body=body)
                return
            except ApiError as error:
                if error.code in {404, 409}:
                    return  # the pod is gone, or it was bound by a call whose answer was lost

    def _application(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/progress", self._progress)
        return app

    async def _progress(self, request: web.Request) -> web.Response:
        self.asked += 1
        assert request.transport is not None
        namespace, name = self._by_address[request.transport.get_extra_info("sockname")[0]]
        report = self._report(namespace, name)
        return web.Response(text=report.model_dump_json(by_alias=True), content_type="application/json")

    def _report(self, namespace: str, name: str) -> ProgressReport:
        """A healthy job that commits at its own times."""
        shift = hash(name) % 1000 / 1000 * self._commit_seconds
        since = time.time() - self._began + shift
        commits = int(since // self._commit_seconds) + 1
        age = since % self._commit_seconds
        at = datetime.now(UTC) - timedelta(seconds=age)
        instant = at.strftime("%Y%m%d%H%M%S") + "000"
        return ProgressReport(
            pipeline=f"{namespace}/{name}",
            namespace=namespace,
            name=name,
            phase="running",
            epoch=1,
            verdict="new",
            verdict_reason="there was nothing",
            running_seconds=since,
            last_commit=CommitReport(
                instant=instant,
                completion_time=instant,
                at=at,
                rows=1000 * commits,
                micro_batches=3,
                latency_seconds=self._commit_seconds,
                age_seconds=age,
            ),
            inflight=InflightReport(instant=instant, age_seconds=age),
            lag=LagReport(offsets=int(age * 100), seconds=age),
            idle=False,
            batch=commits,
            batches=commits,
            commits=commits,
            rows=1000 * commits,
            deletes=0,
            dead_letters=0,
            bytes=_PART * commits,
            rows_per_second=100,
            skew=1.1,
            rollbacks=0,
            position_losses=0,
            last_report_at=at,
            last_report_age_seconds=1,
        )


async def _route(what: str) -> None:
    """Add or remove the addresses of pods."""
    command = ("ip", "route", what, "local", f"{ADDRESSES}.0.0/16", "dev", "lo")
    process = await asyncio.create_subprocess_exec(*command)
    if await process.wait():
        raise RuntimeError(f"{' '.join(command)} failed: the benchmark needs root.")


def _text(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
