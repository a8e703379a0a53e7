"""The operator as a separate process, which tests start, query, freeze and kill, or which dies again and again."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import requests
from prometheus_client.parser import text_string_to_metric_families

from support.operator import forked

READY_SECONDS = 120.0


class OperatorProcess:
    """One operator. A context manager that ends it with SIGTERM."""

    def __init__(
        self, kubeconfig: Path, log: Path, *arguments: str, module: str = "bucketingest_operator.main"
    ) -> None:
        self._kubeconfig = kubeconfig
        self._log = log
        self._arguments = arguments
        self._module = module
        self._process: ForkServerProcess | None = None
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
        self._log.touch()
        environment = {**os.environ, "KUBECONFIG": str(self._kubeconfig), "POD_NAME": self._log.stem}
        arguments = ["--listen", "127.0.0.1:0", *self._arguments]
        self._process = forked.start(self._module, arguments, self._log, environment)
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
            found = [line for line in map(_parsed, log) if "/metrics" in line.get("paths", ())]
        return int(found[-1]["port"]) if found else 0

    @property
    def runs(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.exitcode is None

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        assert self._process is not None
        return self._process.exitcode

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

    def peak_bytes(self) -> int:
        """The most memory that it has had since it started (Linux)."""
        assert self._process is not None
        text = Path(f"/proc/{self._process.pid}/status").read_text(encoding="utf-8")
        (line,) = [each for each in text.splitlines() if each.startswith("VmHWM:")]
        return int(line.split()[1]) * 1024

    def kill(self) -> None:
        """SIGKILL, also while it is frozen."""
        self.send(signal.SIGKILL)
        self._ended(10)

    def end(self) -> int:
        """Send SIGTERM; returns its exit code. Raises TimeoutError if it does not end."""
        self.send(signal.SIGTERM)
        return self._ended(20)

    def _ended(self, within: float) -> int:
        assert self._process is not None
        self._process.join(within)
        if self._process.exitcode is None:
            self._process.kill()
            raise TimeoutError(f"the operator has not ended in {within:g} s:\n{self.log_text()}")
        return self._process.exitcode

    def send(self, what: signal.Signals) -> None:
        """Send a signal."""
        assert self._process is not None
        assert self._process.pid is not None
        if self.runs:
            os.kill(self._process.pid, what)

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


class Mortal:
    """An operator that dies between any two of its writes, and is started again each time: a test that passes with it
    needs no write twice.
    """

    def __init__(self, kubeconfig: Path, namespace: str, folder: Path) -> None:
        where = ["--namespace", namespace, "--leader-election-namespace", namespace]
        self._process = OperatorProcess(kubeconfig, folder / "mortal.log", *where, module="support.operator.dying")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._live)
        self.deaths = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._process.runs:
            self._process.kill()

    def _live(self) -> None:
        self._process.start(wait=False)
        while not self._over.wait(0.02):
            if not self._process.runs:
                self.deaths += 1
                self._process.start(wait=False)


def _parsed(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {"event": line.rstrip()}
    return found if isinstance(found, dict) else {"event": line.rstrip()}


def decisions(process: OperatorProcess, name: str) -> Sequence[dict[str, Any]]:
    """Its decisions about a resource."""
    return [line for line in process.lines("decision") if line["name"] == name]
