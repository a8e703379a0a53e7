"""Passes of many tenants: drivers that never answer cost their own tenant time, and no other."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bucketingest.spec.model import KIND
from bucketingest_operator import passes as passes_module
from bucketingest_operator.act import Actor
from bucketingest_operator.decide.plan import Action, WriteStatus
from bucketingest_operator.kube.api import Api
from bucketingest_operator.kube.leaders_api import NotLeader
from bucketingest_operator.manifests.names import Names
from bucketingest_operator.observation import PodState
from bucketingest_operator.observe.inventory import Inventory
from bucketingest_operator.observe.observe import Copies, Observer
from bucketingest_operator.observe.ownership import Controller
from bucketingest_operator.observe.pod_reading import PodSeen
from bucketingest_operator.observe.progress_client import ProgressClient, Talk
from bucketingest_operator.observe.readers import Readers, Unreadable
from bucketingest_operator.passes import AT_ONCE_MIN, POLLERS, WORKERS, Memory, Passes, PassMetrics
from bucketingest_operator.resource import FINALIZER
from bucketingest_operator.work_queue import WorkQueue
from support.operator.observations import NOW, bucket_ingest

SILENT = 250
VICTIM = "victim"


class _Asking(ProgressClient):
    """Counts the questions to drivers."""

    asked = 0

    async def ask(self, pod: PodSeen | None, resource_name: str, before: Talk | None) -> Talk | None:
        self.asked += pod is not None
        return await super().ask(pod, resource_name, before)


class _NoObjects:
    """An API server that has no pod, Job or ConfigMap."""

    async def pages(self, *_: object) -> AsyncIterator[tuple[list[dict[str, Any]], str]]:
        yield [], "1"


class _Recorder:
    """Carries out nothing, and notes when the victim's lost driver was seen."""

    upgrade_kept = True

    def __init__(self, client: _Asking) -> None:
        self._client = client
        self.saw_loss = asyncio.Event()
        self.asked_before = 0

    async def act(self, resource: Any, actions: Sequence[Action], _wrote: object) -> None:
        for each in actions:
            ends = isinstance(each, WriteStatus) and (each.status.attempts or ())[-1].outcome == "DriverLost"
            if resource.uid == VICTIM and ends and not self.saw_loss.is_set():
                self.asked_before = self._client.asked
                self.saw_loss.set()


def _body(uid: str, namespace: str) -> dict[str, Any]:
    status = {"phase": "Running", "attempt": 1, "observedGeneration": 1}
    pod = Names("orders", uid).driver(1)
    return {
        "metadata": {
            "name": "orders",
            "namespace": namespace,
            "uid": uid,
            "generation": 1,
            "resourceVersion": "1",
            "creationTimestamp": "2026-11-21T11:00:00Z",
            "finalizers": [FINALIZER],
        },
        "spec": bucket_ingest({"table": {"path": f"s3://lake/{uid}", "recordKey": ["value"]}}).spec.to_document(),
        "status": {**status, "attempts": [{"number": 1, "pod": pod, "startedAt": "2026-11-21T11:00:00Z"}]},
    }


def _pod(uid: str, namespace: str) -> PodSeen:
    return PodSeen(
        uid=f"{uid}-pod",
        namespace=namespace,
        name=Names("orders", uid).driver(1),
        role="driver",
        attempt=1,
        created_at=NOW,
        phase="Running",
        state=PodState.RUNNING,
        ip="127.0.0.1",
        controller=Controller(KIND, uid),
    )


def _copies(pods: dict[str, PodSeen]) -> Copies:
    of_pods = SimpleNamespace(of=lambda uid: (pods[uid],) if uid in pods else ())
    nothing = SimpleNamespace(of=lambda _uid: ())
    return cast(Copies, SimpleNamespace(pods=of_pods, jobs=nothing, configs=nothing))


class _Forgetful:
    """Writes statuses for an API server whose definition is older: it drops a field, and then nothing has changed."""

    upgrade_kept = True

    def __init__(self, *dropped: str) -> None:
        self.writes = 0
        self._dropped = dropped

    async def act(self, resource: Any, actions: Sequence[Action], wrote: Callable[[Action, Any], None]) -> None:
        for each in actions:
            if isinstance(each, WriteStatus):
                self.writes += 1
                body = _body(resource.uid, resource.namespace)
                kept = each.status.to_document()
                for field in self._dropped:
                    del kept[field]
                version = "2" if self._dropped else str(1 + self.writes)
                wrote(each, {**body, "metadata": {**body["metadata"], "resourceVersion": version}, "status": kept})


@pytest.mark.parametrize("dropped", [("phase",), ()])
def test_a_status_of_which_an_older_definition_drops_fields_is_written_once(dropped: tuple[str, ...]) -> None:
    async def run() -> None:
        inventory = Inventory(lambda _uid: None, lambda _uid: None)
        inventory.take(_body("one", "ingest"))
        api, probe = cast(Api, _NoObjects()), SimpleNamespace(why_none=_no_refusal, secret_gone=_not_gone)
        async with ProgressClient() as client:
            observer = Observer(
                api, client, inventory, {None: _copies({})}, cast(Any, probe), readers=Readers(Unreadable())
            )
            metrics = PassMetrics(lambda _seconds: None, lambda: None)
            queue = WorkQueue()
            passes = Passes(
                api, inventory, observer, queue, acts_in=lambda _namespace: True, metrics=metrics, restarts_max=10
            )
            passes.actor = cast(Actor, actor := _Forgetful(*dropped))
            memory = Memory()
            counts = []
            for _ in range(6):
                resource = inventory.get("one")
                assert resource is not None
                await passes._look_decide_act(resource, memory)
                counts.append(actor.writes)
        assert counts[-3] > 0
        assert counts[-3] == counts[-1], "each pass writes the status again"
        assert (memory.wrote is not None) == bool(dropped), "of each resource a status that nobody needs"

    asyncio.run(run())


def test_what_is_due_while_another_acts_stays_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes_module, "NOT_OURS_SECONDS", 0.01)

    async def run() -> None:
        queue = WorkQueue()
        inventory = Inventory(queue.add, lambda _uid: None)
        inventory.take(_body("one", "ingest"))
        looks, leads = 0, iter([False, False])
        twice = asyncio.Event()

        def looks_and_stops(*_: object) -> bool:
            nonlocal looks
            looks += 1
            if looks == 2:
                twice.set()
            raise NotLeader("another operator acts")

        metrics = PassMetrics(lambda _seconds: None, lambda: None)
        observer = cast(Observer, SimpleNamespace(must_ask=looks_and_stops))
        api = cast(Api, _NoObjects())
        passes = Passes(
            api, inventory, observer, queue, acts_in=lambda _: next(leads, True), metrics=metrics, restarts_max=10
        )
        worker = asyncio.create_task(passes.work())
        async with asyncio.timeout(60):
            await twice.wait()
        worker.cancel()

    asyncio.run(run())


def test_a_driver_that_is_to_be_asked_while_another_acts_is_asked_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes_module, "NOT_OURS_SECONDS", 0.01)

    async def run() -> None:
        queue, leads, asked = WorkQueue(), iter([True, False]), asyncio.Event()
        inventory = Inventory(queue.add, lambda _uid: None)
        inventory.take(_body("one", "ingest"))

        async def ask(*_: object) -> None:
            asked.set()

        observer = cast(Observer, SimpleNamespace(must_ask=lambda *_: True, ask=ask))
        metrics = PassMetrics(lambda _seconds: None, lambda: None)
        api = cast(Api, _NoObjects())
        passes = Passes(
            api, inventory, observer, queue, acts_in=lambda _: next(leads, True), metrics=metrics, restarts_max=10
        )
        workers = [asyncio.create_task(each) for each in (passes.work(), passes.poll())]
        async with asyncio.timeout(60):
            await asked.wait()
        for each in workers:
            each.cancel()

    asyncio.run(run())


def test_drivers_that_accept_and_never_answer_do_not_delay_the_restart_of_another_tenants() -> None:
    async def run() -> None:
        silent = socket.create_server(("127.0.0.1", 0), backlog=SILENT)  # nobody accepts: only the kernel answers
        queue = WorkQueue(lambda uid: VICTIM if uid == VICTIM else "hostile")
        inventory = Inventory(queue.add, lambda _uid: None)
        hostile = [f"u{number}" for number in range(SILENT)]
        for uid in hostile:
            inventory.take(_body(uid, "hostile"))
        inventory.take(_body(VICTIM, VICTIM))
        pods = {uid: _pod(uid, "hostile") for uid in hostile}
        api = cast(Api, _NoObjects())
        probe = SimpleNamespace(why_none=_no_refusal, secret_gone=_not_gone)
        async with _Asking(silent.getsockname()[1]) as client:
            recorder = _Recorder(client)
            observer = Observer(
                api, client, inventory, {None: _copies(pods)}, cast(Any, probe), readers=Readers(Unreadable())
            )
            metrics = PassMetrics(lambda _seconds: None, lambda: None)
            passes = Passes(
                api, inventory, observer, queue, acts_in=lambda _namespace: True, metrics=metrics, restarts_max=10
            )
            passes.actor = cast(Actor, recorder)
            workers = [asyncio.create_task(passes.work()) for _ in range(WORKERS)]
            workers += [asyncio.create_task(passes.poll()) for _ in range(POLLERS)]
            async with asyncio.timeout(120):
                await recorder.saw_loss.wait()
            for each in workers:
                each.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        silent.close()
        assert recorder.asked_before <= 2 * POLLERS, "the victim waited for drivers of another tenant"

    asyncio.run(run())


def test_an_event_loop_that_is_late_gets_fewer_passes_so_that_the_lease_is_renewed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(passes_module, "PACE_SECONDS", 0.001)

    async def run() -> None:
        queue = WorkQueue()
        inventory = Inventory(queue.add, lambda _uid: None)
        running, goes_on = 0, asyncio.Event()

        async def observe(*_: object, **__: object) -> None:
            nonlocal running
            running += 1
            await goes_on.wait()
            running -= 1
            raise NotLeader("that is enough")

        async def settled() -> int:
            for _ in range(100):
                await asyncio.sleep(0.001)
            return running

        observer = cast(Observer, SimpleNamespace(must_ask=lambda *_: False, observe=observe))
        metrics = PassMetrics(lambda _seconds: None, lambda: None)
        api = cast(Api, _NoObjects())
        passes = Passes(api, inventory, observer, queue, acts_in=lambda _: True, metrics=metrics, restarts_max=10)
        for _ in range(10):
            passes.pace(9.0)
        workers = [asyncio.create_task(passes.work(number)) for number in range(WORKERS)]
        for number in range(2 * WORKERS):
            inventory.take(_body(f"u{number}", "ingest"))
        assert await settled() == AT_ONCE_MIN
        passes.pace(0.0)
        assert await settled() == 2 * AT_ONCE_MIN
        for _ in range(WORKERS):
            passes.pace(0.0)
        assert await settled() == WORKERS
        goes_on.set()
        for each in workers:
            each.cancel()
        await asyncio.gather(*workers, return_exceptions=True)

    asyncio.run(run())


async def _no_refusal(*_: object) -> str:
    return ""


async def _not_gone(*_: object) -> bool:
    return False
