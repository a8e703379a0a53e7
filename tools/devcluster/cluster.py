"""Which cluster is used: the user's own before kind before the embedded node, each behind one small interface."""

from __future__ import annotations

import os
import re
import shutil
import socket
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from typing_extensions import override

from devcluster.binaries import find_tool
from devcluster.commands import run, say, succeeds
from devcluster.errors import ClusterError
from devcluster.images.project import Image, builder
from devcluster.instance import Instance, cluster_folder, instance
from devcluster.node import embedded

REGISTRY_VARIABLE: Final = "BUCKETINGEST_REGISTRY"
"""Environment variable: registry and folder that a user's cluster pulls from, such as `registry.example/team`."""
HOST_VARIABLE: Final = "BUCKETINGEST_HOST_IP"
"""Environment variable: address by which pods of a user's cluster reach servers on this machine."""


class Cluster(ABC):
    """A cluster that runs, or that `up` can bring up."""

    @property
    @abstractmethod
    def kubeconfig(self) -> Path:
        """Of an administrator."""

    @property
    @abstractmethod
    def host_ip(self) -> str:
        """Address by which pods reach servers on this machine. Raises ClusterError if it is unknown."""

    @abstractmethod
    def up(self, *, with_node: bool = True) -> None:
        """Bring it up, or find it up. Raises ClusterError."""

    @abstractmethod
    def down(self) -> None:
        """End it, if devcluster started it."""

    @abstractmethod
    def push(self, image: Image) -> str:
        """Bring an image to it; returns the name by which pods have it. Raises ClusterError."""

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """What kubectl prints. Raises ClusterError."""
        return run([find_tool("kubectl"), "--kubeconfig", str(self.kubeconfig), *arguments], stdin=stdin)


@dataclass(frozen=True, slots=True)
class EmbeddedCluster(Cluster):
    """The node that runs in namespaces of this machine."""

    instance: Instance

    @property
    @override
    def kubeconfig(self) -> Path:
        return self.instance.kubeconfig

    @property
    @override
    def host_ip(self) -> str:
        running = self.instance.running()
        if running is None:
            raise ClusterError(f"cluster {self.instance.name} is not up")
        return running.network.host_ip

    @override
    def up(self, *, with_node: bool = True) -> None:
        embedded.up(self.instance, with_node=with_node)

    @override
    def down(self) -> None:
        embedded.down(self.instance)

    @override
    def push(self, image: Image) -> str:
        running = self.instance.running()
        if running is None or not running.with_node:
            raise ClusterError(f"cluster {self.instance.name} is not up, or has no node")
        builder().push(image, f"{running.network.node_ip}:5000", plain_http=True)
        return f"localhost:5000/{image.repository}:{image.tag}"


@dataclass(frozen=True, slots=True)
class KindCluster(Cluster):
    """A kind cluster that devcluster creates, in the user's Docker."""

    instance: Instance

    @property
    @override
    def kubeconfig(self) -> Path:
        return self.instance.kubeconfig

    @property
    def _name(self) -> str:
        return f"bucketingest-{self.instance.name}"

    @property
    @override
    def host_ip(self) -> str:
        if chosen := os.environ.get(HOST_VARIABLE):
            return chosen
        gateways = "{{range .IPAM.Config}}{{.Gateway}} {{end}}"
        found = run(["docker", "network", "inspect", "kind", "--format", gateways]).split()
        return next(each for each in found if ":" not in each)

    @override
    def up(self, *, with_node: bool = True) -> None:
        self.kubeconfig.parent.mkdir(parents=True, exist_ok=True)
        if self._name not in run(["kind", "get", "clusters"]).split():
            say(f"creating kind cluster {self._name}")
            waiting = ["--wait", "120s"] if with_node else []
            run(
                ["kind", "create", "cluster", "--name", self._name, "--kubeconfig", self.kubeconfig, *waiting],
                shown=True,
            )
        run(["kind", "export", "kubeconfig", "--name", self._name, "--kubeconfig", self.kubeconfig])

    @override
    def down(self) -> None:
        run(["kind", "delete", "cluster", "--name", self._name, "--kubeconfig", self.kubeconfig])

    @override
    def push(self, image: Image) -> str:
        run(["kind", "load", "docker-image", image.local, "--name", self._name])
        return image.local


@dataclass(frozen=True, slots=True)
class UsersCluster(Cluster):
    """A cluster that others run: KUBECONFIG names it; nothing of it is started or ended."""

    own: Path

    @property
    @override
    def kubeconfig(self) -> Path:
        return self.own

    @property
    @override
    def host_ip(self) -> str:
        if chosen := os.environ.get(HOST_VARIABLE):
            return chosen
        server = self.kubectl("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
        found = re.match(r"https?://\[?([^/\]]+?)\]?(?::(\d+))?(?:/|$)", server)
        if found is None:
            raise ClusterError(f"the kubeconfig's server {server!r} is no URL: set {HOST_VARIABLE}")
        # The address with which this machine goes there is the one that is known there.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((found[1], int(found[2] or 443)))
            return str(probe.getsockname()[0])

    @override
    def up(self, *, with_node: bool = True) -> None:
        if not succeeds([find_tool("kubectl"), "--kubeconfig", self.own, "version"]):
            raise ClusterError(f"the cluster of KUBECONFIG={self.own} does not answer")
        say(f"using the cluster of KUBECONFIG={self.own}")

    @override
    def down(self) -> None:
        say(f"the cluster of KUBECONFIG={self.own} is yours: it is left alone")

    @override
    def push(self, image: Image) -> str:
        registry = os.environ.get(REGISTRY_VARIABLE)
        if not registry:
            raise ClusterError(f"set {REGISTRY_VARIABLE} to a registry that the cluster of KUBECONFIG pulls from")
        builder().push(image, registry)
        return f"{registry}/{image.repository}:{image.tag}"


def choose(name: str | None = None) -> Cluster:
    """The cluster to use: that of KUBECONFIG, else kind where it is installed, else the embedded node."""
    ours = instance(name)
    own = os.environ.get("KUBECONFIG")
    # A kubeconfig of an own cluster: it is used as what it is, not as a user's.
    if own and not Path(own).resolve().is_relative_to(cluster_folder().resolve()):
        return UsersCluster(Path(own))
    if shutil.which("kind") is not None and succeeds(["docker", "info"]):
        return KindCluster(ours)
    return EmbeddedCluster(ours)
