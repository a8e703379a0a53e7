"""Faults of processes in pods. On the embedded node their processes are this machine's, and any signal can be sent."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

from support.cluster.kube import Manifest


class NoProcessError(Exception):
    """The pod's processes are not visible here: it runs on another machine."""


def kill_first_process(pod: Manifest) -> None:
    """SIGKILL to process 1 of the pod's container, which ends the container. Raises NoProcessError."""
    # The container's oldest process is its first; the pause container has a cgroup of its own.
    os.kill(_processes(pod)[0], signal.SIGKILL)


def stop_processes(pod: Manifest) -> None:
    """SIGSTOP to all processes of the pod's container. Raises NoProcessError."""
    for pid in _processes(pod):
        os.kill(pid, signal.SIGSTOP)


def offer_to_oom_killer(pod: Manifest, command: str) -> None:
    """Make the kernel choose this process first if the container runs out of memory. Raises NoProcessError."""
    chosen = [pid for pid in _processes(pod) if command in Path(f"/proc/{pid}/cmdline").read_text()]
    for pid in chosen:
        Path(f"/proc/{pid}/oom_score_adj").write_text("1000")


def _processes(pod: Manifest) -> list[int]:
    """Process ids of the pod's first container on this machine, the oldest first."""
    container = pod["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
    found = sorted(_in_cgroup(container))
    if not found:
        raise NoProcessError(f"no process of container {container} is visible on this machine")
    return [pid for _, pid in found]


def _in_cgroup(container: str) -> Iterator[tuple[int, int]]:
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            if container in (folder / "cgroup").read_text():
                yield int((folder / "stat").read_text().rpartition(")")[2].split()[19]), int(folder.name)
        except OSError:
            continue  # it has ended in the meantime
