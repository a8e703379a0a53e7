"""The operator as a separate process, which tests start, query, freeze and kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import requests
from prometheus_client.parser import text_string_to_metric_families

READY_SECONDS = 120.0
TESTS = Path(__file__).parents[2]


class OperatorProcess:
    """One operator. A context manager that ends it with SIGTERM."""

    def __init__(
        self, kubeconfig: Path, log: Path, *arguments: str, module: str = "bucketingest_operator.main"
    ) -> None:
        self._kubeconfig = kubeconfig
        self._log = log
        self._arguments = arguments
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.runs:
            self.end()

    def start(self, *, wait: bool = True) -> None:
        """Start it, also again; `wait` until it is ready."""
        skipped = self._log.stat().st_size if self._log.exists() else 0
        command = [sys.executable, "-m", self._module, "--listen", "127.0.0.1:0", *self._arguments]
        with self._log.open("ab") as log:
            environment = {**os.environ, "KUBECONFIG": str(self._kubeconfig), "POD_NAME": self._log.stem}
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(TESTS), os.environ.get("PYTHONPATH"))))
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        self._port = 0
        if wait:
            self.wait_until_ready(skipped)

    def wait_until_ready(self, skipped: int = 0) -> None:
        """Wait until it is ready. Raises AssertionError with its log."""
        deadline = time.monotonic() + READY_SECONDS
        while True:
            assert self.runs, f"the operator has ended:\n{self.log_text()}"
            self._port = self._port or self._listening(skipped)
            if self._port and self.get("/readyz").status_code == 200:
                return
            assert time.monotonic() < deadline, f"the operator is not ready:\n{self.log_text()}"
            time.sleep(0.05)

    def _listening(self, skipped: int) -> int:
        with self._log.open(encoding="utf-8", errors="replace") as log:
            log.seek(skipped)
            found = [line for line in map(_parsed, log) if line.get("event") == "listening"]
        return int(found[-1]["port"]) if found else 0

    @property
    def runs(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def get(self, path: str) -> requests.Response:
        """Ask its HTTP server."""
        return requests.get(f"http://127.0.0.1:{self._port}{path}", timeout=10)

    def metric(self, name: str, /, **labels: str) -> float | None:
        """The sum of a metric's samples with these labels; None without samples."""
        values = [
            sample.value
            for family in text_string_to_metric_families(self.get("/metrics").text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        return sum(values) if values else None

    def kill(self) -> None:
        """SIGKILL, also while it is frozen."""
        self.send(signal.SIGKILL)
        assert self._process is not None
        self._process.wait(10)

    def end(self) -> int:
        """Send SIGTERM; returns its exit code. Raises subprocess.TimeoutExpired if it does not end."""
        assert self._process is not None
        self.send(signal.SIGTERM)
        try:
            return self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise

    def send(self, what: signal.Signals) -> None:
        """Send a signal."""
        assert self._process is not None
        self._process.send_signal(what)

    def lines(self, event: str | None = None) -> list[dict[str, Any]]:
        """Its log lines, or those of one event."""
        with self._log.open(encoding="utf-8", errors="replace") as log:
            found = [_parsed(line) for line in log]
        return [line for line in found if event is None or line.get("event") == event]

    def log_text(self) -> str:
        """The end of its log, without the contents of decisions."""
        short = [
            {name: value for name, value in line.items() if name not in {"observation", "plan"}}
            for line in self.lines()
        ]
        return "\n".join(map(str, short[-40:]))


def _parsed(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {"event": line.rstrip()}
    return found if isinstance(found, dict) else {"event": line.rstrip()}


def decisions(process: OperatorProcess, name: str) -> Sequence[dict[str, Any]]:
    """Its decisions about a resource."""
    return [line for line in process.lines("decision") if line["name"] == name]
