"""Runs a query in a second process and ends it at a limit of time or memory: hudi-rs and DataFusion do not keep such
limits themselves. A crash of their machine code becomes an error like any other.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Final, Self

from bucketingest.cli.errors import BadOption, CommandError
from bucketingest.cli.options import duration
from bucketingest.exit_codes import ExitCode
from bucketingest.spec.quantity import format_quantity, parse_quantity

_LOOK_SECONDS: Final = 0.05
_MEMORY_MIN: Final = 256 * 1024**2
"""Bytes. The libraries alone take about 150 MiB."""


class QueryFailed(CommandError):
    """The engine failed while it read rows, or took too long."""

    exit_code = ExitCode.QUERY_FAILED


class QueryTooLarge(CommandError):
    """The query needs more memory than it may take."""

    exit_code = ExitCode.OUT_OF_MEMORY


@dataclass(frozen=True, slots=True)
class Limits:
    """What a query may take."""

    seconds: float
    memory_bytes: int
    """Resident memory of the process. Where there is no /proc (macOS) only DataFusion's share is limited."""

    @classmethod
    def of(cls, timeout: str, memory: str) -> Self:
        """From text. Raises BadOption."""
        try:
            memory_bytes = parse_quantity(memory)
        except ValueError as error:
            raise BadOption(f"--memory: {error}") from error
        if memory_bytes < _MEMORY_MIN:
            raise BadOption(f"--memory: {memory} is too little: at least {format_quantity(_MEMORY_MIN)}")
        return cls(duration("--timeout", timeout).total_seconds(), memory_bytes)


def run_within(limits: Limits, arguments: Sequence[str]) -> int:
    """Run a command line of bucketingest in a new process; returns its exit code. It has our standard streams.

    Raises QueryFailed at the limit of time or if it crashed, QueryTooLarge at the limit of memory.
    """
    process = subprocess.Popen([sys.executable, "-m", "bucketingest.cli.main", *arguments])  # noqa: S603 - ours
    end = monotonic() + limits.seconds
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that it does not outlive us
    try:
        while (code := _ended(process)) is None:
            if monotonic() > end:
                raise QueryFailed(
                    f"the query has taken {limits.seconds:g} s and was ended; ask for less (a WHERE on partitions), or "
                    "allow more with --timeout"
                )
            if _resident_bytes(process.pid) > limits.memory_bytes:
                raise too_large(limits.memory_bytes)
    finally:
        signal.signal(signal.SIGTERM, before)
        process.kill()
        process.wait()
    if code < 0:
        raise QueryFailed(f"the query's process was ended by {signal.Signals(-code).name}; the lines above may say why")
    return code


def too_large(memory_bytes: int) -> QueryTooLarge:
    """The error of a query at its limit."""
    return QueryTooLarge(
        f"the query needs more than {format_quantity(memory_bytes)} of memory and was ended; ask for fewer columns and "
        "rows (a WHERE on partitions), or allow more with --memory"
    )


def _ended(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(_LOOK_SECONDS)
    except subprocess.TimeoutExpired:
        return None


def _resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # it has ended, or there is no /proc
        return 0
