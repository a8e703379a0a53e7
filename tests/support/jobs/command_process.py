"""The command line as a process of its own, with everything it starts, as a user's shell would start it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Self

_MARK = "BUCKETINGEST_TEST_MARK"
_ENDS_WITHIN_SECONDS = 300.0
"""A busy machine is no failure; one that hangs still ends."""
_GONE_WITHIN_SECONDS = 60.0


class CommandProcess:
    """A running `bucketingest` command, in a process group of its own. Use it as a context manager."""

    def __init__(self, *arguments: object, log: Path, stderr: int | None = None) -> None:
        """Start it. stdout and stderr go to the file `log`, stderr instead to a file descriptor if one is given."""
        self.log = log
        self._mark = uuid.uuid4().hex
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), _MARK: self._mark}
        command = [sys.executable, "-m", "bucketingest.cli.main", *map(str, arguments)]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output if stderr is None else stderr,
                start_new_session=True,
            )

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the whole process group, as a terminal does with Ctrl-C."""
        os.killpg(self._process.pid, number)

    def wait_until(self, reached: Callable[[], bool]) -> None:
        """Ask until it is so. Fails if the process ends before."""
        deadline = time.monotonic() + _ENDS_WITHIN_SECONDS
        while not reached():
            assert self._process.poll() is None, f"ended with {self._process.returncode}:\n{self.output}"
            assert time.monotonic() < deadline, f"not reached:\n{self.output}"
            time.sleep(0.05)

    def wait(self) -> int:
        """The exit code."""
        return self._process.wait(_ENDS_WITHIN_SECONDS)

    def ended(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.poll()

    @property
    def output(self) -> str:
        """What it has written to the log so far."""
        return self.log.read_text(errors="replace")

    def left_behind(self) -> list[str]:
        """Command lines of processes that it started, directly or not, and that still run a while after its end.

        One at low priority that is still starting sees only then that its parent is gone.
        """
        deadline = time.monotonic() + _GONE_WITHIN_SECONDS
        while (alive := self.alive()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return list(alive.values())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pid in self.alive():
            os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def alive(self) -> dict[int, str]:
        """Process id and command line of the process and of everything it started that still runs."""
        found = {}
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                if f"{_MARK}={self._mark}".encode() in (folder / "environ").read_bytes():
                    found[int(folder.name)] = (folder / "cmdline").read_text(errors="replace").replace("\0", " ")
            except OSError:  # gone, or another process's
                continue
        return found


def run_command(*arguments: object, log: Path) -> tuple[int, str]:
    """Exit code and output (stdout and stderr) of a command. No process of it is left."""
    with CommandProcess(*arguments, log=log) as process:
        code = process.wait()
        assert process.left_behind() == []
        return code, process.output
