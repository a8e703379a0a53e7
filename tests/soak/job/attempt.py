"""One attempt of the pipeline: the real command in processes of its own, and what it logs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from soak.job.processes import ATTEMPT_MARK, Process, Role, marked, send, started_at
from soak.waiting import until

LOG_TAIL_LINES = 25
GONE_WITHIN_SECONDS = 60.0
_LOOK_SECONDS = 0.1
"""Between looks at all processes of the machine."""


class Attempt:
    """A running or ended `bucketingest run`."""

    def __init__(self, number: int, file: Path, log: Path, environment: Mapping[str, str]) -> None:
        self.number = number
        self.log = log
        self._mark = uuid.uuid4().hex
        self.started = time.time()
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bucketingest.cli.main", "run", str(file)],
                env={**os.environ, **environment, ATTEMPT_MARK: self._mark},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def code(self) -> int | None:
        """Exit code of the command; None while it runs."""
        return self._process.poll()

    @property
    def running(self) -> bool:
        """Whether the command has not ended."""
        return self.code is None

    @property
    def age(self) -> float:
        """Seconds since its start."""
        return time.time() - self.started

    def processes(self, *roles: Role) -> list[Process]:
        """Its living processes of these roles, by default all."""
        return [process for process in marked(ATTEMPT_MARK, self._mark) if not roles or process.role in roles]

    def signal(self, processes: list[Process], number: signal.Signals) -> int:
        """Signal some of its processes; returns how many were still there."""
        return send(processes, number, ATTEMPT_MARK, self._mark)

    def kill_all(self) -> None:
        """SIGKILL to everything of it, until nothing is left."""

        def gone() -> bool:
            left = self.processes()
            self.signal(left, signal.SIGKILL)
            return not left

        self._process.poll()
        until(gone, f"attempt {self.number} is gone after SIGKILL", within=GONE_WITHIN_SECONDS, poll=_LOOK_SECONDS)
        self._process.wait(GONE_WITHIN_SECONDS)

    def wait_until_gone(self, why: str) -> None:
        """Wait until nothing of it runs any more. Raises SoakFailed naming what does."""

        def gone() -> bool:
            return self._process.poll() is not None and not self.processes()

        try:
            until(gone, f"attempt {self.number} is gone after {why}", within=GONE_WITHIN_SECONDS, poll=_LOOK_SECONDS)
        except Exception as error:
            left = [f"{process.pid} {process.role.value}" for process in self.processes()]
            error.add_note(f"left: {left}\n{self.tail()}")
            raise

    def jvm_started(self) -> float | None:
        """When its driver's JVM was started (Unix seconds); None unless it runs."""
        return next((started_at(process.pid) for process in self.processes(Role.JVM)), None)

    def logged_at(self, wanted: Callable[[dict[str, Any]], bool]) -> float | None:
        """When it first logged such a line (Unix seconds); None if it has not."""
        for event in self.events():
            if wanted(event):
                return datetime.fromisoformat(event["timestamp"]).timestamp()
        return None

    def events(self) -> list[dict[str, Any]]:
        """Its log lines, without those that are no JSON or not yet whole."""
        parsed = []
        for line in self.log.read_text(errors="replace").splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict) and "timestamp" in event:
                parsed.append(event)
        return parsed

    def last_words(self) -> str:
        """The line that tells why it ended."""
        lines = self.log.read_text(errors="replace").splitlines()
        return next((line for line in reversed(lines) if line.startswith("error:")), lines[-1] if lines else "nothing")

    def tail(self) -> str:
        """The end of its log, with its place."""
        lines = self.log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
        return "\n".join([f"the end of {self.log}:", *lines])
