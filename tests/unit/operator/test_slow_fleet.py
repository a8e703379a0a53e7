"""Slowness of anything may cost time, and never lets more drivers stop at the same time than `--max-restarts`."""

from __future__ import annotations

import pytest

from support.operator.slow_fleet import SlowFleet, Slowness
from support.virtual_time import run

LIMIT = 3
SLOW = {
    "nothing": Slowness(),
    "the API server": Slowness(call=2.0, lost=0.05),
    "its watches": Slowness(watch=5.0),
    "kubelets": Slowness(kubelet=60.0),
    "drivers": Slowness(answer=2.0, silent=0.3),
    "the operator": Slowness(operator=10.0),
    "everything": Slowness(call=2.0, lost=0.05, watch=5.0, kubelet=60.0, answer=2.0, silent=0.3, operator=10.0),
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("slow", SLOW.values(), ids=SLOW)
def test_of_a_fleet_that_restarts_no_more_drivers_are_down_at_a_time_whatever_is_slow(
    slow: Slowness, seed: int
) -> None:
    async def restarted() -> SlowFleet:
        fleet = SlowFleet(slow, seed, pipelines=10, restarts_max=LIMIT)
        await fleet.restart_all()
        return fleet

    assert 1 < run(restarted()).down_max <= LIMIT


def test_a_restart_asks_the_api_server_for_nothing_that_is_known_and_says_nothing_twice() -> None:
    """A call of one restart is a thousand when an upgrade restarts a fleet, and the API server serves others too."""
    pipelines = 10

    async def restarted() -> SlowFleet:
        fleet = SlowFleet(Slowness(), 1, pipelines=pipelines, restarts_max=LIMIT)
        await fleet.restart_all()
        return fleet

    calls = run(restarted()).calls
    assert {call: number / pipelines for call, number in calls.items()} == {
        "replace bucketingests": 3,  # it stops, starts, works: a short wait for its turn is no news
        "delete pods": 1,
        "list pods": 1,  # nothing starts before the last is gone
        **dict.fromkeys(("apply serviceaccounts", "apply roles", "apply rolebindings", "apply networkpolicies"), 1),
        **dict.fromkeys(("create configmaps", "create secrets", "create pods"), 1),
        "create events": 2,
    }
