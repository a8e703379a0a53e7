"""Processes of a pod's container. On the embedded node they are this machine's."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from support.cluster.kube import Manifest


class NoProcessError(Exception):
    """The pod's processes are not visible here: it runs on another machine."""


def processes(pod: Manifest) -> list[int]:
    """Process ids of the pod's first container on this machine, the oldest first. Raises NoProcessError."""
    container = pod["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
    found = sorted(_in_cgroup(container))
    if not found:
        raise NoProcessError(f"no process of container {container} is visible on this machine")
    return [pid for _, pid in found]


def first_start(pod: Manifest, word: str) -> float | None:
    """When the oldest process of the pod with this word in its command line was started, seconds since 1970."""
    booted = time.time() - float(Path("/proc/uptime").read_text().split()[0])
    for pid in processes(pod):
        with suppress(OSError):  # it has ended meanwhile
            if word in Path(f"/proc/{pid}/cmdline").read_text():
                return booted + _ticks(Path(f"/proc/{pid}")) / os.sysconf("SC_CLK_TCK")
    return None


def _in_cgroup(container: str) -> Iterator[tuple[int, int]]:
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            if container in (folder / "cgroup").read_text():
                yield _ticks(folder), int(folder.name)
        except OSError:
            continue  # it has ended in the meantime


def _ticks(folder: Path) -> int:
    """When a process was started, in ticks since the boot."""
    return int((folder / "stat").read_text().rpartition(")")[2].split()[19])
