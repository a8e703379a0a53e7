"""Faults of processes in pods, and what they use. On the embedded node they are this machine's processes."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from support.cluster.kube import Manifest
from support.cluster.processes import processes


def kill_first_process(pod: Manifest) -> None:
    """SIGKILL to process 1 of the pod's container, which ends the container. Raises NoProcessError."""
    # The container's oldest process is its first; the pause container has a cgroup of its own.
    os.kill(processes(pod)[0], signal.SIGKILL)


def resident_bytes(pod: Manifest) -> int:
    """Memory of all processes of the pod's container, what they share divided among them. Raises NoProcessError."""
    texts = []
    for pid in processes(pod):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            texts.append(Path(f"/proc/{pid}/smaps_rollup").read_text())
    return sum(int(line.split()[1]) * 1024 for text in texts for line in text.splitlines() if line.startswith("Pss:"))


def stop_processes(pod: Manifest) -> None:
    """SIGSTOP to all processes of the pod's container. Raises NoProcessError."""
    for pid in processes(pod):
        with suppress(ProcessLookupError):  # it has ended meanwhile
            os.kill(pid, signal.SIGSTOP)


def offer_to_oom_killer(pod: Manifest, command: str) -> None:
    """Make the kernel choose this process first if the container runs out of memory. Raises NoProcessError."""
    for pid in processes(pod):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            if command in Path(f"/proc/{pid}/cmdline").read_text():
                Path(f"/proc/{pid}/oom_score_adj").write_text("1000")
