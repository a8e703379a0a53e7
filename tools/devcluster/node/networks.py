"""The link between the host and a node: a network namespace, two routes, and addresses nobody else here uses."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable

from devcluster.commands import run, succeeds
from devcluster.errors import ClusterError
from devcluster.instance import SLOTS, Network


def free_network() -> Network:
    """The first addresses that no route of this machine leads to.

    Raises:
        ClusterError: there are none.
    """
    return choose([str(route["dst"]) for route in json.loads(run(["ip", "-j", "-4", "route", "show", "table", "all"]))])


def choose(taken: Iterable[str]) -> Network:
    """The first addresses that overlap with none of the networks that routes lead to. Pure."""
    networks = [ipaddress.ip_network(each, strict=False) for each in taken if each[0].isdigit()]
    # What leads anywhere leads to nowhere in particular.
    used = [network for network in networks if network.prefixlen > 0]
    for slot in range(SLOTS):
        candidate = Network(slot)
        wanted = [ipaddress.ip_network(each) for each in (candidate.link, candidate.pods, candidate.services)]
        if not any(ours.overlaps(theirs) for ours in wanted for theirs in used):
            return candidate
    raise ClusterError(f"all {SLOTS} address ranges for clusters are taken: `ip route` lists them")


def connect(namespace: str, network: Network) -> None:
    """Make the namespace and the way to it. Raises ClusterError."""
    host, node = f"{namespace}-h", f"{namespace}-n"
    ip = ["ip"]
    run([*ip, "netns", "add", namespace])
    run([*ip, "link", "add", host, "type", "veth", "peer", "name", node, "netns", namespace])
    run([*ip, "addr", "add", f"{network.host_ip}/30", "dev", host])
    run([*ip, "link", "set", host, "up"])
    inside = [*ip, "-n", namespace]
    run([*inside, "addr", "add", f"{network.node_ip}/30", "dev", node])
    run([*inside, "link", "set", "lo", "up"])
    run([*inside, "link", "set", node, "up"])
    run([*inside, "route", "add", "default", "via", network.host_ip])
    if network.ipv6:
        # Without `nodad` an address cannot be used for a second.
        run([*ip, "addr", "add", f"{network.cluster_ip[:-1]}1/126", "dev", host, "nodad"])
        run([*inside, "addr", "add", f"{network.cluster_ip}/126", "dev", node, "nodad"])
    for behind in (network.pods, network.services):
        run([*ip, "route", "add", behind, "via", network.cluster_ip])


def disconnect(namespace: str) -> None:
    """Remove what `connect` made; nothing of it need be there."""
    succeeds(["ip", "link", "del", f"{namespace}-h"])
    succeeds(["ip", "netns", "del", namespace])
