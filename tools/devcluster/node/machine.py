"""What the embedded node needs of the machine: Linux, root, and packages of the distribution."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from devcluster.commands import run, say, succeeds
from devcluster.errors import CannotRunError, ClusterError

CONTROL_PLANE: Final[Mapping[str, str]] = {
    "openssl": "openssl",
    "ip": "iproute2",
    "curl": "curl",
    "nsenter": "util-linux",
}
"""Command to the Debian package that has it."""
NODE: Final[Mapping[str, str]] = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "buildah": "buildah",
    "mmdebstrap": "mmdebstrap",
    "gcc": "gcc",
    "/usr/lib/x86_64-linux-gnu/libc.a": "libc6-dev",
}


def why_not() -> str | None:
    """Why this machine cannot run the embedded node; None when it can, once what is missing has been installed."""
    if sys.platform != "linux":
        return f"the embedded node needs Linux, this is {sys.platform}: set KUBECONFIG, or install kind"
    if os.geteuid() != 0:
        return "the embedded node needs root (namespaces, mounts, cgroups): set KUBECONFIG, or install kind"
    if not succeeds(["unshare", "--mount", "--net", "--pid", "--fork", "true"]):
        return "this machine lets nobody make namespaces: set KUBECONFIG, or install kind"
    return None


def require() -> None:
    """Raise CannotRunError when `why_not` has a reason."""
    if (reason := why_not()) is not None:
        raise CannotRunError(reason)


def install_packages(*, with_node: bool) -> None:
    """Install what is missing.

    Raises:
        CannotRunError: something is, and this is not a Debian.
        ClusterError: apt-get failed.
    """
    wanted = {**CONTROL_PLANE, **(NODE if with_node else {})}
    missing = sorted({package for name, package in wanted.items() if not _has(name)})
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise CannotRunError(f"the embedded node needs {', '.join(missing)} (names of Debian's packages): install them")
    say(f"installing {' '.join(missing)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "update", "-q"], environment=environment)
    run(["apt-get", "install", "-y", "-q", "--no-install-recommends", *missing], environment=environment)


def package_settings() -> list[str]:
    """How this machine reaches its package sources, as lines of apt's configuration; nothing where there is no apt."""
    try:
        lines = run(["apt-config", "dump"]).splitlines()
    except ClusterError:
        return []
    wanted = ("Acquire::Check-", "Acquire::http::", "Acquire::https::")
    return [line for line in lines if line.startswith(wanted) and not line.endswith('"";')]


def _has(name: str) -> bool:
    if name.endswith("libc.a"):
        return any(Path("/usr/lib").glob("*/libc.a"))
    return Path(name).exists() if name.startswith("/") else shutil.which(name) is not None
