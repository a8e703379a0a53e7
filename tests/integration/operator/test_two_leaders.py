"""A leader that loses its lease in the middle of an action writes nothing after the first write of the next leader."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest

from bucketingest_operator.act import Actor
from bucketingest_operator.decide.plan import Action, DeleteAttempt, EmitEvent, StartAttempt
from bucketingest_operator.kube.api import CALL_SECONDS, Api, Object
from bucketingest_operator.kube.kinds import LEASES
from bucketingest_operator.kube.leaders_api import NotLeader
from bucketingest_operator.kube.leadership import LEASE_SECONDS, TRUSTED_SECONDS, Leadership
from bucketingest_operator.manifests.settings import JobSettings
from bucketingest_operator.observe.resource_reading import read_resource
from bucketingest_operator.resource import Resource
from support.operator.observations import input_of
from support.operator.scene import Scene


class World:
    """A clock for all, and the writes that have reached the API server, in order, with who made them."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.writes: list[str] = []

    def time(self) -> float:
        return self.now


class GatedApi(Api):
    """The API server behind a gate: so many writes pass, and the next ones are under way until the gate opens."""

    def __init__(self, who: str, world: World) -> None:
        super().__init__()
        self.left: int | None = None
        """How many writes pass; None: all."""
        self.waits = asyncio.Event()
        self._who = who
        self._world = world
        self._opens = asyncio.Event()

    async def call(self, method: str, path: str, **more: Any) -> Object:
        """Any call; only writes that are not the lease's wait at the gate."""
        if method != "GET" and LEASES.plural not in path:
            if self.left == 0:
                self.waits.set()
                await self._opens.wait()
            elif self.left is not None:
                self.left -= 1
            self._world.writes.append(self._who)
        return await super().call(method, path, **more)

    def open(self) -> None:
        """Those that wait pass; the next ones wait again."""
        self._opens.set()
        self._opens, self.waits = asyncio.Event(), asyncio.Event()


class Leader:
    """One operator: its lease, and what carries its plans out."""

    def __init__(self, api: GatedApi, world: World, namespace: str, name: str, who: str) -> None:
        self.api = api
        self.lease = Leadership(api, namespace, who, lambda: None, clock=world, name=name)
        self.actor = Actor(
            api,
            JobSettings(),
            may_act=lambda _namespace: self.lease.held,
            count=lambda _action, _result: None,
            identity=who,
        )

    async def act(self, resource: Resource, actions: Sequence[Action]) -> None:
        """Carry out actions."""
        await self.actor.act(resource, actions, lambda _action, _written: None)


async def overtaken(scene: Scene, resource: Resource, actions: Sequence[Action], passed: int) -> bool:
    """The first leader is overtaken when so many of its writes have passed. Returns whether it had more to do."""
    world = World()
    async with AsyncExitStack() as stack:
        leaders = [
            Leader(
                await stack.enter_async_context(GatedApi(who, world)),
                world,
                scene.namespace,
                f"{resource.name}-{type(actions[0]).__name__.lower()}",
                who,
            )
            for who in ("first", "second")
        ]
        first, second = leaders
        await first.lease.step()
        await second.lease.step()
        assert (first.lease.held, second.lease.held) == (True, False)
        first.api.left = passed
        acting = asyncio.create_task(first.act(resource, actions))
        await stopped(acting, first.api)
        if acting.done():
            acting.result()
            return False
        # What is under way is answered as late as it can be: later the client has given up.
        world.now += TRUSTED_SECONDS + CALL_SECONDS
        await second.lease.step()
        assert (first.lease.held, second.lease.held) == (False, False)
        first.api.open()
        await stopped(acting, first.api)
        world.now += LEASE_SECONDS - TRUSTED_SECONDS
        await second.lease.step()
        assert second.lease.held
        await second.act(resource, actions)
        first.api.left = None
        first.api.open()
        (end,) = await asyncio.gather(acting, return_exceptions=True)
    ours = world.writes.index("second")
    assert set(world.writes[ours:]) == {"second"}, f"after {passed} writes: {world.writes}"
    assert end is None or isinstance(end, NotLeader), "it may have had only one write left"
    return True


async def stopped(acting: asyncio.Task[None], api: GatedApi) -> None:
    """Wait until an action is over, or its next write waits at the gate."""
    waiting = asyncio.create_task(api.waits.wait())
    await asyncio.wait([acting, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


def test_no_write_of_a_leader_follows_the_first_one_of_the_next(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(scene.kube.kubeconfig))
    passed, more = 0, True
    while more:
        scene.apply(f"at-{passed}")
        resource = read_resource(scene.resource(f"at-{passed}"))
        assert resource.wanted is not None
        start = StartAttempt(1, input_of(resource.wanted), resource.wanted)
        event = EmitEvent("Normal", "AttemptStarting", "Starting attempt 1.", "1")
        more = asyncio.run(overtaken(scene, resource, [start, event], passed))
        assert len(scene.pods(resource.name)) == 1, "each attempt has one driver, whoever made it"
        passed += 1
    assert passed > 8, "an action has many calls, and each may be the last"
    cleaning, more = 0, True
    while more:
        resource = read_resource(scene.resource(f"at-{cleaning}"))
        more = asyncio.run(overtaken(scene, resource, [DeleteAttempt(1, has_driver=True, has_job=True)], cleaning))
        assert scene.pods(resource.name) == []
        cleaning += 1
    assert cleaning > 3
