"""One operator leads, whatever the API server and the clocks do; when it ends, another one leads."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest_operator.kube.api import CALL_SECONDS, AlreadyExists, ApiError, Conflict, NotFound
from bucketingest_operator.kube.leadership import LEASE_SECONDS, TRUSTED_SECONDS, Identity, Leadership


class World:
    """A Lease and a clock that all share."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.lease: dict[str, Any] | None = None
        self.version = 0

    def time(self) -> float:
        return self.now


class LeaseApi:
    """What one operator sees of the Lease: calls take time and may fail, before their effect or after it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.seconds = 0.0
        self.fails: str | None = None

    def _call(self, effect: Any) -> Any:
        if self.fails == "before":
            self.world.now += CALL_SECONDS
            raise ApiError("time-out")
        result = effect()
        if self.fails == "after":
            self.world.now += CALL_SECONDS
            raise ApiError("time-out")
        self.world.now += self.seconds
        return result

    async def get(self, *_: Any) -> Any:
        def effect() -> Any:
            if self.world.lease is None:
                raise NotFound("none", code=404)
            return {
                "metadata": dict(self.world.lease["metadata"]),
                "spec": dict(self.world.lease["spec"]),
            }

        return self._call(effect)

    async def create(self, _kind: Any, _namespace: str, lease: Any) -> Any:
        def effect() -> Any:
            if self.world.lease is not None:
                raise AlreadyExists("there", code=409)
            self._store(lease)

        return self._call(effect)

    async def replace(self, _kind: Any, _namespace: str, _name: str, lease: Any) -> Any:
        def effect() -> Any:
            assert self.world.lease is not None
            if lease["metadata"]["resourceVersion"] != self.world.lease["metadata"]["resourceVersion"]:
                raise Conflict("changed", code=409)
            self._store(lease)

        return self._call(effect)

    def _store(self, lease: Any) -> None:
        self.world.version += 1
        self.world.lease = {"metadata": {"resourceVersion": str(self.world.version)}, "spec": dict(lease["spec"])}


class Candidate:
    def __init__(self, world: World, name: str, *, in_pod: bool = False) -> None:
        self.gained = 0
        self.api = LeaseApi(world)
        identity = Identity(name, in_pod)
        self.leadership = Leadership(self.api, "ops", identity, self._gain, clock=world)  # type: ignore[arg-type]

    def _gain(self) -> None:
        self.gained += 1

    def step(self) -> None:
        asyncio.run(self.leadership.step())

    @property
    def held(self) -> bool:
        return self.leadership.held


@pytest.fixture
def world() -> World:
    return World()


def test_the_first_leads_and_keeps_leading(world: World) -> None:
    first, second = Candidate(world, "a"), Candidate(world, "b")
    for _ in range(20):
        first.step()
        second.step()
        world.now += 2
        assert (first.held, second.held) == (True, False)
    assert (first.gained, second.gained) == (1, 0)


def test_a_leader_that_cannot_renew_stops_before_another_starts(world: World) -> None:
    first, second = Candidate(world, "a"), Candidate(world, "b")
    first.step()
    world.now += 1
    second.step()
    world.now += TRUSTED_SECONDS
    assert not first.held
    second.step()
    assert not second.held
    world.now += LEASE_SECONDS
    second.step()
    assert second.held


def test_after_a_release_another_leads_at_once(world: World) -> None:
    first, second = Candidate(world, "a"), Candidate(world, "b")
    first.step()
    second.step()
    asyncio.run(first.leadership.release())
    assert not first.held
    second.step()
    assert second.held


def test_a_process_that_follows_another_in_its_pod_need_not_wait_for_it(world: World) -> None:
    first, other, same = Candidate(world, "a", in_pod=True), Candidate(world, "b", in_pod=True), Candidate(world, "a")
    first.step()
    other.step()
    same.step()  # on the same machine, and perhaps at the same time
    assert (other.held, same.held) == (False, False)
    next_one = Candidate(world, "a", in_pod=True)
    next_one.step()
    assert next_one.held


def test_a_lease_of_another_operator_is_not_released(world: World) -> None:
    first, second = Candidate(world, "a"), Candidate(world, "b")
    first.step()
    asyncio.run(second.leadership.release())
    second.step()
    assert not second.held


def test_a_leader_is_notified_again_after_a_gap(world: World) -> None:
    first = Candidate(world, "a")
    first.step()
    world.now += TRUSTED_SECONDS + 1
    first.step()
    assert first.held
    assert first.gained == 2


STEPS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from([None, None, None, None, None, None, "before", "after"]),
        st.sampled_from([0.0, 0.0, 0.0, CALL_SECONDS]),
        st.sampled_from([0.0, 1.0, 2.0, 8.0, 14.0, 16.0]),
    ),
    min_size=20,
    max_size=60,
)


@given(STEPS)
def test_two_never_lead_at_the_same_time(steps: list[tuple[int, str | None, float, float]]) -> None:
    world = World()
    candidates = [Candidate(world, name) for name in "ab"]
    for who, fails, seconds, pause in steps:
        acting = candidates[who]
        acting.api.fails, acting.api.seconds = fails, seconds
        acting.step()
        assert sum(each.held for each in candidates) <= 1
        world.now += pause


def test_a_started_action_ends_before_another_leads() -> None:
    assert TRUSTED_SECONDS + CALL_SECONDS < LEASE_SECONDS
