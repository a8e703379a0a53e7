"""Addresses of a cluster on this machine are nobody else's."""

from __future__ import annotations

import pytest

from devcluster.errors import ClusterError
from devcluster.instance import SLOTS, Network
from devcluster.node.networks import choose

HOME = ["default", "192.168.1.0/24", "169.254.0.0/16"]


def test_the_first_addresses_are_taken_where_nobody_else_has_them() -> None:
    assert choose(HOME) == Network(0)


def test_another_cluster_of_this_machine_has_the_next_addresses() -> None:
    first = Network(0)
    assert choose([*HOME, first.link, first.pods, first.services]) == Network(1)


@pytest.mark.parametrize("route", ["10.214.0.0/24", "10.215.0.128/25", "10.213.0.2", "10.213.0.0/28"])
def test_a_network_that_overlaps_with_any_of_the_three_is_left_alone(route: str) -> None:
    chosen = choose([*HOME, route])
    assert chosen != Network(0)


def test_a_route_to_everywhere_takes_nothing() -> None:
    assert choose(["0.0.0.0/0"]) == Network(0)


def test_a_network_that_has_all_addresses_is_named_as_the_reason() -> None:
    with pytest.raises(ClusterError, match=f"all {SLOTS} address ranges"):
        choose(["10.0.0.0/8"])
