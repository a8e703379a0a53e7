"""Where one cluster of the machine keeps its things, and the addresses it has: several may run side by side."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from devcluster.errors import ClusterError
from devservers.locations import cache_folder

VARIABLE: Final = "BUCKETINGEST_CLUSTER"
"""Environment variable: name of the instance, by default `dev`."""
NODE_NAME: Final = "node-1"
IPV6_VARIABLE: Final = "BUCKETINGEST_CLUSTER_IPV6"
"""Environment variable: if set, pods and services have IPv6 addresses and no others."""
SLOTS: Final = 64


def cluster_folder() -> Path:
    """What is built once, and kept: binaries, images, certificates."""
    return cache_folder() / "cluster"


@dataclass(frozen=True, slots=True)
class Network:
    """Addresses of one instance: a link between host and node, and networks of pods and services behind it.

    With `ipv6` all that is inside of the cluster has IPv6 addresses alone; this machine still reaches the node by IPv4.
    """

    slot: int
    ipv6: bool = False

    @property
    def host_ip(self) -> str:
        """What pods reach the host by."""
        return f"10.213.{self.slot}.1"

    @property
    def node_ip(self) -> str:
        """What the host reaches API server, registry and DNS by."""
        return f"10.213.{self.slot}.2"

    @property
    def link(self) -> str:
        """The network of the two."""
        return f"10.213.{self.slot}.0/30"

    @property
    def cluster_ip(self) -> str:
        """The node's address inside of the cluster."""
        return f"fd00:213:{self.slot:x}::2" if self.ipv6 else self.node_ip

    @property
    def pods(self) -> str:
        """Network of pods."""
        return f"fd00:214:{self.slot:x}::/112" if self.ipv6 else f"10.214.{self.slot}.0/24"

    @property
    def services(self) -> str:
        """Network of ClusterIPs."""
        return f"fd00:215:{self.slot:x}::/112" if self.ipv6 else f"10.215.{self.slot}.0/24"

    @property
    def api_service_ip(self) -> str:
        """ClusterIP of `kubernetes.default`."""
        return f"fd00:215:{self.slot:x}::1" if self.ipv6 else f"10.215.{self.slot}.1"


@dataclass(frozen=True, slots=True)
class Running:
    """What is remembered of a node that was started: enough to know it again, and to end it and nothing else."""

    pid: int
    started: int
    """Start time of the process in the kernel's ticks: a process id alone may be another's by now."""
    slot: int
    with_node: bool
    ipv6: bool = False

    @property
    def network(self) -> Network:
        """Its addresses."""
        return Network(self.slot, self.ipv6)


@dataclass(frozen=True, slots=True)
class Instance:
    """One embedded cluster of this machine, running or not."""

    name: str

    @property
    def run(self) -> Path:
        """State of the running node; gone with it."""
        return cluster_folder() / "run" / self.name

    @property
    def kubeconfig(self) -> Path:
        """Of an administrator."""
        return self.run / "kubeconfig"

    @property
    def containerd_root(self) -> Path:
        """Unpacked images, kept between runs."""
        return cluster_folder() / "containerd" / self.name

    @property
    def volumes(self) -> Path:
        """Folders behind the node's persistent volumes."""
        return self.run / "volumes"

    @property
    def namespace(self) -> str:
        """Name of the network namespace and of the cgroup."""
        return f"bi-{self.name}"

    def running(self) -> Running | None:
        """The node if it is up."""
        try:
            known = Running(**json.loads((self.run / "running.json").read_text()))
        except FileNotFoundError:
            return None
        return known if start_time(known.pid) == known.started else None

    def remember(self, running: Running) -> None:
        """Note a node that was just started."""
        (self.run / "running.json").write_text(json.dumps(asdict(running)))


def instance(name: str | None = None) -> Instance:
    """The instance of that name, by default the one that the environment names, by default `dev`.

    Raises:
        ClusterError: the name cannot be that of a network interface.
    """
    chosen = name or os.environ.get(VARIABLE) or "dev"
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,8}", chosen):
        raise ClusterError(f"{chosen!r} cannot name a cluster: at most 9 lower-case letters, digits and '-'")
    return Instance(chosen)


def start_time(pid: int) -> int | None:
    """When a process started, in the kernel's ticks; None if there is none, or it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else int(fields[19])
