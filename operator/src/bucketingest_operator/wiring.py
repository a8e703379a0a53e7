"""Builds the parts of the operator, starts them in order, and stops them in order."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final

from bucketingest_operator.act import Actor
from bucketingest_operator.guards.admission import Admission
from bucketingest_operator.guards.http_server import serving
from bucketingest_operator.guards.webhook import Webhook, serve
from bucketingest_operator.handlers import KopfThread
from bucketingest_operator.kube.api import Api, ApiError
from bucketingest_operator.kube.kinds import BUCKET_INGESTS, CONFIG_MAPS, JOBS, PODS
from bucketingest_operator.kube.leadership import Leadership, own_identity
from bucketingest_operator.kube.mirror import Mirror
from bucketingest_operator.kube.watch_claims import WatchClaims
from bucketingest_operator.manifests.attempt_objects import MANAGED
from bucketingest_operator.manifests.merging_jobs import COMPACTION_ROLE
from bucketingest_operator.manifests.settings import JobSettings
from bucketingest_operator.metrics.operator_metrics import Metrics
from bucketingest_operator.metrics.resource_metrics import ResourceMetrics
from bucketingest_operator.observe.executor_probe import ExecutorProbe
from bucketingest_operator.observe.inventory import Inventory
from bucketingest_operator.observe.job_reading import AnyJob, ConfigSeen
from bucketingest_operator.observe.observe import Copies, Observer
from bucketingest_operator.observe.pod_reading import PodSeen
from bucketingest_operator.observe.progress_client import ProgressClient
from bucketingest_operator.observe.readers import Readers, Unreadable
from bucketingest_operator.passes import PACE_SECONDS, POLLERS, WORKERS, Passes, PassMetrics
from bucketingest_operator.work_queue import WorkQueue

log = logging.getLogger(__name__)

SWEEP_SECONDS: Final = 300.0
"""How often the list of BucketIngests is compared with the API server's, in case the watch missed a change."""
WATCH_AGAIN_SECONDS: Final = 2.0
HANGS_SECONDS: Final = 60.0
TOGETHER_SECONDS: Final = 1.0
"""One pass for what happens in this time to executors, and to a pod that starts or is being deleted."""
_DENIED: Final = (401, 403)
"""Codes of the API server that say: you have no right to do this."""


@dataclass(frozen=True, slots=True)
class Options:
    """How the operator runs.

    Attributes:
        namespaces: Namespaces to watch; empty: the whole cluster.
        listen: Address of the HTTP server.
        lease_namespace: Where the Lease is.
        lease_name: Its name.
        settings: How jobs' pods are made.
        restarts_max: Planned restarts at the same time.
        webhook: None: without one.
    """

    namespaces: tuple[str, ...]
    listen: str
    lease_namespace: str
    lease_name: str
    settings: JobSettings
    restarts_max: int
    webhook: Webhook | None = None


class Operator:
    """The operator. It runs until `stop`."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._identity = own_identity(os.environ)
        self._stopping = asyncio.Event()
        self._queue = WorkQueue(self._namespace_of)
        self._metrics = Metrics()
        self._unreadable = Unreadable()
        self._inventory = Inventory(self._queue.add, self._removed, self._unreadable, options.settings.image)
        self._passes: Passes | None = None
        self._observer: Observer | None = None
        self._claims: WatchClaims | None = None
        self._copies: dict[str | None, Copies] = {}
        self._listed = asyncio.Event()
        self._beat = time.monotonic()
        self.port = 0

    def stop(self) -> None:
        """Make `run` end in order."""
        self._stopping.set()

    async def run(self) -> None:
        """Run until `stop`. Raises the error that ended a part that should run forever."""
        loop = asyncio.get_running_loop()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(each, self.stop)
        async with AsyncExitStack() as stack:
            api = await stack.enter_async_context(Api())
            progress = await stack.enter_async_context(ProgressClient())
            leadership = Leadership(
                api,
                self._options.lease_namespace,
                self._identity,
                self._look_at_all,
                name=self._options.lease_name,
            )
            release = f"{self._options.lease_namespace}/{self._options.lease_name}"
            claims = self._claims = WatchClaims(api, release, self._options.namespaces, self._look_at_all)

            def acts_in(namespace: str) -> bool:
                return leadership.held and claims.may_act(namespace)

            self._passes = self._make_passes(api, progress, acts_in)
            self._metrics.watch(
                leads=lambda: leadership.held,
                resources=lambda: len(self._inventory),
                overdue=lambda: self._queue.overdue,
                calls=lambda: api.calls,
                unreadable=lambda: self._unreadable.count,
                taken=lambda: claims.taken,
            )
            resources = ResourceMetrics(self._inventory, self._passes.memory_of, acts_in)

            def metrics_text() -> bytearray:
                text = resources.text()
                text += self._metrics.text()
                return text

            self.port = await stack.enter_async_context(
                serving(self._options.listen, metrics_text, self._ready, self._healthy)
            )
            await self._run_parts(api, leadership, claims, self._passes)

    async def _run_parts(self, api: Api, leadership: Leadership, claims: WatchClaims, passes: Passes) -> None:
        parts: list[asyncio.Task[Any]] = [
            asyncio.create_task(mirror.run()) for copies in self._copies.values() for mirror in copies.mirrors()
        ]
        workers: list[asyncio.Task[Any]] = []
        stopping = asyncio.create_task(self._stopping.wait())
        parts += [asyncio.create_task(each) for each in (self._watch(api), self._sweep(api), self._pulse(passes))]
        starting = asyncio.create_task(self._synced())
        try:
            done, _ = await asyncio.wait([*parts, stopping, starting], return_when=asyncio.FIRST_COMPLETED)
            if starting in done:
                starting.result()
                parts.append(asyncio.create_task(leadership.run()))
                workers.append(asyncio.create_task(claims.run(lambda: leadership.held)))
                workers += [asyncio.create_task(passes.work(number)) for number in range(WORKERS)]
                workers += [asyncio.create_task(passes.poll(number)) for number in range(POLLERS)]
                if self._options.webhook is not None:
                    judge = Admission(self._inventory, self._options.settings).why_refused
                    parts.append(asyncio.create_task(serve(self._options.webhook, judge)))
                log.info("watching", extra={"namespaces": list(self._options.namespaces) or "all"})
                done, _ = await asyncio.wait([*parts, *workers, stopping], return_when=asyncio.FIRST_COMPLETED)
            for each in done - {stopping, starting}:
                each.result()
                raise RuntimeError(f"A part of the operator has ended: {each.get_name()}.")
        finally:
            log.info("stopping")
            # Passes end first: another operator may get the lease only when this one no longer acts.
            await passes.drain()
            await _cancel([*workers, starting, stopping])
            if leadership.held:
                await claims.release()
            await leadership.release()
            await _cancel(parts)

    def _make_passes(self, api: Api, progress: ProgressClient, acts_in: Callable[[str], bool]) -> Passes:
        readers, turn = Readers(self._unreadable), asyncio.Lock()
        for namespace in self._options.namespaces or (None,):
            self._copies[namespace] = Copies(
                Mirror[PodSeen](api, PODS, namespace, MANAGED, turn, keep=readers.pod, changed=self._pod_changed),
                Mirror[AnyJob](api, JOBS, namespace, MANAGED, turn, keep=readers.job, changed=self._changed),
                # What happens to a ConfigMap gives nothing to do.
                Mirror[ConfigSeen](
                    api, CONFIG_MAPS, namespace, MANAGED, turn, keep=readers.config, changed=lambda *_: None
                ),
            )
        probe = ExecutorProbe(api, self._options.settings)
        observer = self._observer = Observer(api, progress, self._inventory, self._copies, probe, readers=readers)
        metrics = PassMetrics(self._metrics.took, self._metrics.failed)
        passes = Passes(
            api,
            self._inventory,
            observer,
            self._queue,
            acts_in=acts_in,
            metrics=metrics,
            restarts_max=self._options.restarts_max,
        )
        passes.actor = Actor(
            api,
            self._options.settings,
            may_act=passes.may_act,
            count=self._metrics.acted,
            identity=str(self._identity),
            refused=passes.note_refusal,
        )
        return passes

    # -------------------------------------------------------------------------------------------------- watched changes
    def _event(self, kind: str | None, body: dict[str, Any]) -> None:
        if kind == "DELETED":
            self._inventory.forget(body["metadata"]["uid"])
        else:
            self._inventory.take(body)

    def _namespace_of(self, uid: str) -> str:
        resource = self._inventory.get(uid)
        return "" if resource is None else resource.namespace

    def _removed(self, uid: str) -> None:
        if self._passes is not None:
            self._passes.forget(uid)

    def _pod_changed(self, owner: str, before: PodSeen | None, after: PodSeen | None) -> None:
        pod, resource = after or before, self._inventory.get(owner)
        if pod is not None and resource is not None and pod.namespace == resource.namespace:
            if after is None and self._observer is not None:
                self._observer.ended.note(owner, pod)
            waits = pod.role in {"executor", COMPACTION_ROLE} or (after is not None and after.is_between)
            self._queue.add(owner, TOGETHER_SECONDS if waits else 0)

    def _changed(self, owner: str, _before: object, _after: object) -> None:
        if self._inventory.get(owner) is not None:
            self._queue.add(owner)

    def _look_at_all(self) -> None:
        if self._passes is not None:
            self._passes.budget.seed(self._inventory)
        for resource in self._inventory:
            self._queue.add(resource.uid)

    # --------------------------------------------------------------------------------------------------- health, start
    def _ready(self) -> bool:
        useless = self._claims is not None and self._claims.useless
        return (
            self._listed.is_set()
            and not useless
            and all(mirror.synced.is_set() for copies in self._copies.values() for mirror in copies.mirrors())
        )

    def _healthy(self) -> bool:
        return time.monotonic() - self._beat < HANGS_SECONDS

    async def _synced(self) -> None:
        """Wait until everything was read once."""
        await self._listed.wait()
        for copies in self._copies.values():
            for mirror in copies.mirrors():
                await mirror.synced.wait()

    async def _pulse(self, passes: Passes) -> None:
        while True:
            self._beat = time.monotonic()
            await asyncio.sleep(PACE_SECONDS)
            passes.pace(time.monotonic() - self._beat - PACE_SECONDS)

    async def _watch(self, api: Api) -> None:
        """Let Kopf watch, forever: it ends when the API server fails for longer than it waits, or the CRD is away.

        It starts after the CRD exists: it looks for it only at its start. Raises what Kopf ended with if the operator
        may not watch: only a person can change that, and a process that ends is seen.
        """
        await self._listed.wait()
        while True:
            error = await KopfThread(self._event, self._options.namespaces).run()
            if error is not None and getattr(error, "status", None) in _DENIED:
                raise error
            log.warning("the watch of BucketIngests has ended and starts again", extra={"error": repr(error)})
            await asyncio.sleep(WATCH_AGAIN_SECONDS)
            await self._read_all(api)

    async def _sweep(self, api: Api) -> None:
        """Read all BucketIngests before the first decision, and regularly after it: a watch may miss one."""
        while True:
            await self._read_all(api)
            self._listed.set()
            await asyncio.sleep(SWEEP_SECONDS)

    async def _read_all(self, api: Api) -> None:
        """Read all BucketIngests, however long the API server does not answer."""
        while True:
            known = {resource.uid: resource.version for resource in self._inventory}
            try:
                there: set[str] = set()
                for namespace in self._options.namespaces or (None,):
                    async for page, _ in api.pages(BUCKET_INGESTS, namespace):
                        for each in page:
                            there.add(each["metadata"]["uid"])
                            self._inventory.take(each, instead_of=known.get(each["metadata"]["uid"]))
            except ApiError as error:
                log.warning("cannot list BucketIngests", extra={"error": str(error)})
                await asyncio.sleep(5)
                continue
            for uid in known.keys() - there:
                self._inventory.forget(uid)
            return


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
