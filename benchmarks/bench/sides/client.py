"""One side of a benchmark, seen from outside: its process, its answers, and its cost."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from bench.sides.memory import available_memory, take_free_memory
from bench.sides.process_tree import cpu_seconds, process_tree

_END_SECONDS_MAX: Final = 30.0


class SideFailed(Exception):
    """A side's process failed; the message has its error and its log."""


@dataclass(frozen=True, slots=True)
class Run:
    """One measured request."""

    seconds: float
    """Wall time as the side measured it around the work itself."""
    cpu_seconds: float
    """CPU time of the whole process tree from request to answer."""
    answer: Mapping[str, Any]


class Side:
    """A process that answers requests until the end of the context. Its whole tree ends with it."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - closed in __exit__
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=dict(environment),
        )

    @property
    def pid(self) -> int:
        """Root of the side's process tree."""
        return self._process.pid

    def __enter__(self) -> Self:
        self._receive()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None, "opened as a pipe"
        jvms = [process.pid for process in process_tree(self.pid) if process.parent == self.pid]
        self._process.stdin.close()  # the server ends with its input, the JVM with the server
        try:
            self._process.wait(_END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        # The JVM outlives its driver by a moment, in which it still removes its files.
        deadline = time.monotonic() + _END_SECONDS_MAX
        while any(process_tree(pid) for pid in jvms) and time.monotonic() < deadline:
            time.sleep(0.1)
        self._log.close()

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send a request and wait for the answer. Raises SideFailed."""
        assert self._process.stdin is not None, "opened as a pipe"
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._receive()

    def measure(self, **request: Any) -> Run:
        """The same, with its cost; it pays neither for what others have not written to the disk yet, nor for memory
        that the machine's host took back.
        """
        os.sync()
        take_free_memory(available_memory())
        before = cpu_seconds(self.pid)
        answer = self.ask(**request)
        return Run(float(answer["seconds"]), cpu_seconds(self.pid) - before, answer)

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None, "opened as a pipe"
        line = self._process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"ok": False, "error": "its process has ended"}
        if not answer["ok"]:
            raise SideFailed(f"{answer['error']}\n{self._log_tail()}")
        return answer

    def _log_tail(self) -> str:
        self._log.seek(0)
        return self._log.read()[-4000:]


def clean_environment(**extra: str) -> dict[str, str]:
    """The environment of this process without what would load one side's Spark or packages into the other."""
    foreign = ("PYTHONPATH", "PYTHONHOME", "SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_PYTHON", "PYSPARK_SUBMIT_ARGS")
    kept = {name: value for name, value in os.environ.items() if name not in foreign}
    source = str(Path(__file__).resolve().parents[2])
    return kept | {"TZ": "UTC", "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": source} | extra


def wait_until_quiet(load_max: float, seconds_max: float) -> float:
    """Wait until the load average of the last minute is below the limit, at most `seconds_max`; returns the load."""
    deadline = time.monotonic() + seconds_max
    while (load := os.getloadavg()[0]) > load_max and time.monotonic() < deadline:
        time.sleep(1)
    return load
