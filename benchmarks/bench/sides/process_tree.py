"""CPU time and memory of a process and all its children, from /proc: a Spark side is a JVM and Python workers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """One process as it is now."""

    pid: int
    parent: int
    command: str
    cpu_seconds: float
    """User and system time, its own and that of children that ended and were waited for."""


def process_tree(root: int) -> list[ProcessInfo]:
    """The process `root` and all its living descendants."""
    children: dict[int, list[ProcessInfo]] = {}
    tree: list[ProcessInfo] = []
    for process in _all_processes():
        children.setdefault(process.parent, []).append(process)
        if process.pid == root:
            tree.append(process)
    for process in tree:
        tree += children.get(process.pid, [])
    return tree


def cpu_seconds(root: int) -> float:
    """CPU seconds that the tree has used. Differences count processes that ended meanwhile, if their parent lives."""
    # A child that is waited for after its parent was read and before it is read itself is in neither: the next look
    # finds it in its parent.
    return max(sum(process.cpu_seconds for process in process_tree(root)) for _ in range(2))


def peak_rss_bytes(pid: int) -> int:
    """The highest resident memory a process has had (VmHWM); 0 if it has ended."""
    return _field_bytes(pid, "status", "VmHWM")


def pss_bytes(pid: int) -> int:
    """The memory of a process, shared pages divided among the sharing processes; 0 if it has ended."""
    return _field_bytes(pid, "smaps_rollup", "Pss")


def anonymous_bytes(pid: int) -> int:
    """The memory of a process that is no page cache of a file; 0 if it has ended."""
    return _field_bytes(pid, "smaps_rollup", "Anonymous")


def _field_bytes(pid: int, file: str, field: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:")), 0)


def _all_processes() -> Iterator[ProcessInfo]:
    for entry in os.listdir("/proc"):  # noqa: PTH208 - pathlib is ten times slower, and this is sampled
        if not entry.isdigit():
            continue
        try:
            stat = Path(f"/proc/{entry}/stat").read_text()
            command = Path(f"/proc/{entry}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except (FileNotFoundError, ProcessLookupError):
            continue
        fields = stat.rpartition(")")[2].split()  # the command's name may hold anything
        ticks = sum(int(field) for field in fields[11:15])
        yield ProcessInfo(int(entry), int(fields[1]), command, ticks / _TICKS_PER_SECOND)
