"""Processes as /proc shows them: which of them an attempt started, what each is for, and signals that hit only these.

A mark in the environment, which every child inherits, tells whose a process is; a pidfd holds on to it between looking
and signalling, so that a number that the kernel gives out again is never hit.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

RUN_MARK = "BUCKETINGEST_SOAK"
ATTEMPT_MARK = "BUCKETINGEST_SOAK_ATTEMPT"
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Role(StrEnum):
    """What a process of an attempt is for."""

    DRIVER = "driver's Python"
    JVM = "driver's JVM"
    EXECUTOR = "executor"
    WORKER = "Python worker"
    SERVICES = "table services"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Process:
    """A process that was there a moment ago."""

    pid: int
    parent: int
    role: Role
    command: str


def marked(name: str, value: str) -> list[Process]:
    """Every living process whose environment has this variable with this value."""
    wanted = f"{name}={value}".encode()
    looked = (_look(folder, wanted) for folder in Path("/proc").iterdir() if folder.name.isdigit())
    return [process for process in looked if process is not None]


def send(processes: Iterable[Process], number: signal.Signals, name: str, value: str) -> int:
    """Signal those of the processes that still are who they were; returns how many."""
    hit = 0
    for process in processes:
        with contextlib.suppress(OSError):  # gone
            descriptor = os.pidfd_open(process.pid)
            try:
                if f"{name}={value}".encode() in _environment(Path(f"/proc/{process.pid}")):
                    signal.pidfd_send_signal(descriptor, number)
                    hit += 1
            finally:
                os.close(descriptor)
    return hit


def started_at(pid: int) -> float | None:
    """When the process was started, in seconds of the Unix clock; None if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    ticks = int(stat.rpartition(")")[2].split()[19])
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / _TICKS_PER_SECOND


def _look(folder: Path, wanted: bytes) -> Process | None:
    try:
        if wanted not in _environment(folder):
            return None
        command = (folder / "cmdline").read_text(errors="replace").replace("\0", " ").strip()
        state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:  # gone, or another process's
        return None
    return None if state == "Z" else Process(int(folder.name), int(parent), _role(command), command)


def _environment(folder: Path) -> list[bytes]:
    return (folder / "environ").read_bytes().split(b"\0")


def _role(command: str) -> Role:
    if "CoarseGrainedExecutorBackend" in command:
        return Role.EXECUTOR
    if "org.apache.spark.deploy.SparkSubmit" in command:
        return Role.JVM
    if "pyspark.daemon" in command or "pyspark.worker" in command:
        return Role.WORKER
    if "bucketingest.services.worker" in command:
        return Role.SERVICES
    return Role.DRIVER if "bucketingest.cli.main" in command else Role.OTHER
