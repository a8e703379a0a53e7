"""Many pipelines, the real operator's passes, and all is late: API server, watches, kubelets, drivers, the operator.

Waits are random, from a seed, and in virtual time. What is true is what the API server holds, whatever others see.
"""

from __future__ import annotations

import asyncio
import copy
import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

from bucketingest.spec.job_report import ProgressReport
from bucketingest_operator.act import Actor
from bucketingest_operator.kube.api import AlreadyExists, Api, ApiError, Conflict, NotFound
from bucketingest_operator.kube.kinds import BUCKET_INGESTS, CONFIG_MAPS, JOBS, PODS, Kind
from bucketingest_operator.kube.mirror import Mirror
from bucketingest_operator.manifests.attempt_objects import MANAGED, UID_LABEL
from bucketingest_operator.manifests.settings import JobSettings
from bucketingest_operator.observation import Observation
from bucketingest_operator.observe.inventory import Inventory
from bucketingest_operator.observe.observe import Copies, Observer
from bucketingest_operator.observe.pod_reading import PodSeen
from bucketingest_operator.observe.progress_client import ProgressClient, Talk
from bucketingest_operator.observe.readers import Readers, Unreadable
from bucketingest_operator.passes import Passes, PassMetrics
from bucketingest_operator.resource import RESTART_ANNOTATION, Resource
from bucketingest_operator.wiring import TOGETHER_SECONDS
from bucketingest_operator.work_queue import WorkQueue
from support.operator.observations import bucket_ingest, report

Object = dict[str, Any]
Objects = list[Object]
_WORKERS = 8


@dataclass(frozen=True, slots=True)
class Slowness:
    """The longest wait, in seconds, of each part; each wait is between none and that.

    Attributes:
        call: The API server, before and after it does what is asked.
        lost: The share of calls whose answer never comes, whether or not the call was carried out.
        watch: An event, behind the one before it.
        kubelet: A pod until it runs, and one that is deleted until it is gone.
        answer: A driver; `silent` is the share of questions that it does not answer in time.
        operator: A pass, before it decides.
    """

    call: float = 0.01
    lost: float = 0.0
    watch: float = 0.01
    kubelet: float = 1.0
    answer: float = 0.01
    silent: float = 0.0
    operator: float = 0.0


@dataclass
class SlowFleet:
    """An API server with pipelines, their nodes and drivers, and the operator. `down` are those whose driver was
    deleted, and whose next one does not run: `down_max` at most so far.
    """

    slowness: Slowness
    seed: int
    pipelines: int
    restarts_max: int
    down: set[str] = field(default_factory=set)
    down_max: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    """Of the operator since the restarts were asked for, by verb and kind."""

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._version = 0
        self._objects: dict[str, dict[tuple[str, str], Object]] = defaultdict(dict)
        self._watchers: dict[str, list[asyncio.Queue[tuple[str, Object]]]] = defaultdict(list)

    # ------------------------------------------------------------------------------------------ the operator's view
    async def get(self, kind: Kind, namespace: str, name: str) -> Object:
        async with self._call("get", kind):
            return self._find(kind, namespace, name)

    async def pages(self, kind: Kind, namespace: str | None, labels: str = "") -> AsyncIterator[tuple[Objects, str]]:
        yield await self.list(kind, namespace, labels)

    async def list(self, kind: Kind, namespace: str | None, labels: str = "") -> tuple[Objects, str]:
        async with self._call("list", kind):
            return self._select(kind, namespace, labels), str(self._version)

    async def create(self, kind: Kind, namespace: str, content: Object) -> Object:
        async with self._call("create", kind):
            key = namespace, content["metadata"]["name"]
            if key in self._objects[kind.plural]:
                raise AlreadyExists("there", code=409)
            return self._put(kind, key, content, "ADDED")

    async def apply(self, kind: Kind, namespace: str, name: str, content: Object) -> Object:
        async with self._call("apply", kind):
            return self._put(kind, (namespace, name), content, "MODIFIED")

    async def replace(self, kind: Kind, namespace: str, name: str, content: Object, part: str) -> Object:
        async with self._call("replace", kind):
            found = self._find(kind, namespace, name)
            if found["metadata"]["resourceVersion"] != content["metadata"]["resourceVersion"]:
                raise Conflict("changed", code=409)
            return self._put(kind, (namespace, name), {**found, part: content[part]}, "MODIFIED")

    async def patch(self, kind: Kind, namespace: str, name: str, content: Object) -> Object:
        async with self._call("patch", kind):
            return self._merge(kind, namespace, name, content["metadata"])

    async def delete(self, kind: Kind, namespace: str, name: str, *, uid: str = "", grace: int | None = None) -> None:
        async with self._call("delete", kind):
            found = self._find(kind, namespace, name)
            if uid not in {"", found["metadata"]["uid"]}:
                raise NotFound("another", code=404)
            if kind is not PODS or grace == 0:
                self._remove(kind, (namespace, name))
            elif "deletionTimestamp" not in found["metadata"]:
                self._note(found["metadata"]["labels"][UID_LABEL], is_down=True)
                self._merge(kind, namespace, name, {"deletionTimestamp": _now()})
                self._later(lambda: self._remove(kind, (namespace, name)))

    async def delete_all(self, kind: Kind, namespace: str, labels: str) -> None:
        async with self._call("delete_all", kind):
            for each in self._select(kind, namespace, labels):
                self._remove(kind, (namespace, each["metadata"]["name"]))

    async def watch(
        self, kind: Kind, namespace: str | None, labels: str = "", *, since: str, seconds: float
    ) -> AsyncIterator[tuple[str, Object]]:
        queue: asyncio.Queue[tuple[str, Object]] = asyncio.Queue()
        for each in self._select(kind, namespace, labels):
            if int(each["metadata"]["resourceVersion"]) > int(since):
                queue.put_nowait(("MODIFIED", each))
        self._watchers[kind.plural].append(queue)
        while seconds:
            event, each = await queue.get()
            await self._wait(self.slowness.watch)
            yield event, each

    def _call(self, verb: str, kind: Kind) -> _Call:
        self.calls[f"{verb} {kind.plural}"] += 1
        return _Call(self)

    async def _wait(self, longest: float) -> None:
        await asyncio.sleep(self._random.uniform(0, longest))

    # ------------------------------------------------------------------------------------------------- what is true
    def _find(self, kind: Kind, namespace: str, name: str) -> Object:
        found = self._objects[kind.plural].get((namespace, name))
        if found is None:
            raise NotFound(name, code=404)
        return copy.deepcopy(found)

    def _select(self, kind: Kind, namespace: str | None, labels: str) -> Objects:
        wanted = dict(each.split("=", 1) for each in labels.split(",") if "=" in each)
        return [
            copy.deepcopy(each)
            for (where, _), each in self._objects[kind.plural].items()
            if namespace in {None, where} and wanted.items() <= (each["metadata"].get("labels") or {}).items()
        ]

    def _merge(self, kind: Kind, namespace: str, name: str, metadata: Object, **parts: Any) -> Object:
        found = self._find(kind, namespace, name)
        if (
            metadata.get("resourceVersion", found["metadata"]["resourceVersion"])
            != found["metadata"]["resourceVersion"]
        ):
            raise Conflict("changed", code=409)
        return self._put(
            kind, (namespace, name), {**found, **parts, "metadata": {**found["metadata"], **metadata}}, "MODIFIED"
        )

    def _put(self, kind: Kind, key: tuple[str, str], content: Object, event: str) -> Object:
        self._version += 1
        before = self._objects[kind.plural].get(key)
        made = {"uid": f"{kind.plural}-{self._version}", "creationTimestamp": _now()}
        metadata = {**made, **({} if before is None else before["metadata"]), **content["metadata"]}
        stored = copy.deepcopy({**content, "metadata": {**metadata, "resourceVersion": str(self._version)}})
        self._objects[kind.plural][key] = stored
        self._tell(kind, event, stored)
        if kind is PODS and event == "ADDED":
            self._later(lambda: self._run(key))
        return copy.deepcopy(stored)

    def _remove(self, kind: Kind, key: tuple[str, str]) -> None:
        gone = self._objects[kind.plural].pop(key, None)
        if gone is not None:
            self._version += 1
            gone["metadata"]["resourceVersion"] = str(self._version)
            self._tell(kind, "DELETED", gone)

    def _tell(self, kind: Kind, event: str, stored: Object) -> None:
        for each in self._watchers[kind.plural]:
            each.put_nowait((event, copy.deepcopy(stored)))

    # ------------------------------------------------------------------------------------------- kubelets and drivers
    def _later(self, do: Callable[[], Any]) -> None:
        asyncio.get_running_loop().call_later(self._random.uniform(0, self.slowness.kubelet), do)

    def _run(self, key: tuple[str, str]) -> None:
        pod = self._objects["pods"].get(key)
        if pod is None or "deletionTimestamp" in pod["metadata"]:
            return
        container = {"name": "driver", "ready": True, "state": {"running": {"startedAt": _now()}}}
        owner = pod["metadata"]["labels"][UID_LABEL]
        status = {"phase": "Running", "podIP": owner, "containerStatuses": [container]}
        self._merge(PODS, *key, {}, status=status)
        self._note(owner, is_down=False)

    def _note(self, owner: str, *, is_down: bool) -> None:
        (self.down.add if is_down else self.down.discard)(owner)
        self.down_max = max(self.down_max, len(self.down))

    async def answer(self, address: str) -> ProgressReport | None:
        """The answer of a driver; None: not in time."""
        await self._wait(self.slowness.answer)
        if self._random.random() < self.slowness.silent:
            return None
        _, name = address.split("_")
        return report(namespace="ingest", name=name)

    # --------------------------------------------------------------------------------------------------- the operator
    async def restart_all(self) -> None:
        """Start the operator with all pipelines, ask for a restart of each, and wait until all have restarted."""
        queue = WorkQueue()
        inventory, readers, turn = Inventory(queue.add, lambda _uid: None), Readers(Unreadable()), asyncio.Lock()
        api = cast(Api, self)

        def changed(owner: str, _before: PodSeen | None, after: PodSeen | None) -> None:
            queue.add(owner, TOGETHER_SECONDS if after is not None and after.is_between else 0)

        copies = Copies(
            Mirror(api, PODS, None, MANAGED, turn, keep=readers.pod, changed=changed),
            Mirror(api, JOBS, None, MANAGED, turn, keep=readers.job, changed=lambda *_: None),
            Mirror(api, CONFIG_MAPS, None, MANAGED, turn, keep=readers.config, changed=lambda *_: None),
        )
        probe = SimpleNamespace(why_none=_no_refusal, secret_gone=_not_gone)
        observer = _SlowObserver(self, api, _Client(self), inventory, {None: copies}, cast(Any, probe), readers=readers)
        passes = Passes(
            api,
            inventory,
            observer,
            queue,
            acts_in=lambda _namespace: True,
            metrics=PassMetrics(lambda _seconds: None, lambda: None),
            restarts_max=self.restarts_max,
        )
        passes.actor = Actor(api, JobSettings(), may_act=lambda _namespace: True, count=lambda *_: None, identity="me")
        self.passes = passes
        parts = [*(each.run() for each in copies.mirrors()), self._watch_resources(inventory)]
        tasks = [asyncio.create_task(each) for each in parts]
        for number in range(self.pipelines):
            self._put(BUCKET_INGESTS, ("ingest", f"p{number}"), _resource(f"p{number}"), "ADDED")
        await asyncio.gather(*(each.synced.wait() for each in copies.mirrors()))
        tasks += [asyncio.create_task(each()) for each in [passes.work] * _WORKERS + [passes.poll] * _WORKERS]
        try:
            await self._until(attempt=1)
            self.down.clear()
            self.down_max = 0
            self.calls.clear()
            for number in range(self.pipelines):
                self._merge(BUCKET_INGESTS, "ingest", f"p{number}", {"annotations": {RESTART_ANNOTATION: "1"}})
            await self._until(attempt=2)
        finally:
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch_resources(self, inventory: Inventory) -> None:
        async for _, body in self.watch(BUCKET_INGESTS, None, since="0", seconds=1):
            inventory.take(body)

    async def _until(self, *, attempt: int) -> None:
        """Wait until each pipeline is ready with this attempt."""
        while not all(_is_ready(each, attempt) for each in self._objects["bucketingests"].values()):
            await asyncio.sleep(1)
            assert asyncio.get_running_loop().time() < 20_000, "some pipeline is never ready"


class _Call:
    """A call that waits, and whose answer may be lost: before or after it is carried out."""

    def __init__(self, fleet: SlowFleet) -> None:
        self._fleet = fleet

    async def __aenter__(self) -> None:
        await self._lose()

    async def __aexit__(self, error: object, *_: object) -> None:
        if error is None:
            await self._lose()

    async def _lose(self) -> None:
        await self._fleet._wait(self._fleet.slowness.call)
        if self._fleet._random.random() < self._fleet.slowness.lost / 2:
            raise ApiError("the API server does not answer")


class _Client(ProgressClient):
    def __init__(self, fleet: SlowFleet) -> None:
        super().__init__()
        self._fleet = fleet

    async def _read(self, ip: str | None) -> ProgressReport | None:
        return None if ip is None else await self._fleet.answer(ip)


class _SlowObserver(Observer):
    """An operator that has little time: what a pass has seen is old when it decides."""

    def __init__(self, fleet: SlowFleet, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._fleet = fleet

    async def observe(self, resource: Resource, talk: Talk | None, **options: Any) -> tuple[Observation, Talk | None]:
        await self._fleet._wait(self._fleet.slowness.operator)
        seen = await super().observe(resource, talk, **options)
        await self._fleet._wait(self._fleet.slowness.operator)
        return seen


def _resource(name: str) -> Object:
    wanted = bucket_ingest({"table": {"path": f"s3://lake/{name}", "recordKey": ["value"]}})
    metadata = {"name": name, "namespace": "ingest", "uid": f"uid_{name}", "generation": 1}
    return {**wanted.to_document(), "metadata": metadata}


def _is_ready(body: Object, attempt: int) -> bool:
    status = body.get("status") or {}
    ready = [each for each in status.get("conditions") or () if each["type"] == "Ready" and each["status"] == "True"]
    return bool(ready) and status.get("attempt", 0) >= attempt


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def _no_refusal(*_: object) -> str:
    return ""


async def _not_gone(*_: object) -> bool:
    return False
