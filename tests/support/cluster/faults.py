"""Faults of processes in pods. On the embedded node their processes are this machine's, and any signal can be sent."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from support.cluster.kube import Manifest
from support.cluster.processes import processes


def kill_first_process(pod: Manifest) -> None:
    """SIGKILL to process 1 of the pod's container, which ends the container. Raises NoProcessError."""
    # The container's oldest process is its first; the pause container has a cgroup of its own.
    os.kill(processes(pod)[0], signal.SIGKILL)


def stop_processes(pod: Manifest) -> None:
    """SIGSTOP to all processes of the pod's container. Raises NoProcessError."""
    for pid in processes(pod):
        os.kill(pid, signal.SIGSTOP)


def offer_to_oom_killer(pod: Manifest, command: str) -> None:
    """Make the kernel choose this process first if the container runs out of memory. Raises NoProcessError."""
    chosen = [pid for pid in processes(pod) if command in Path(f"/proc/{pid}/cmdline").read_text()]
    for pid in chosen:
        Path(f"/proc/{pid}/oom_score_adj").write_text("1000")
