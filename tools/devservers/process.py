"""A server as a child process: a process group and a log of its own, readiness observed, an end that is certain."""

import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from typing_extensions import override

LOG_TAIL_BYTES = 2000


class ServerError(Exception):
    """A server did not start, or ended by itself; the message has the end of its log."""


class Server(ABC):
    """A server of tests and demos, as a context manager: started on entry, stopped on exit and when it cannot start."""

    @abstractmethod
    def start(self) -> Self:
        """Start, and wait until it answers. Raises ServerError."""

    @abstractmethod
    def stop(self) -> None:
        """End it. May be called any number of times."""

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class ServerProcess:
    """One server process and all it starts. `stop` may be called any number of times."""

    def __init__(
        self, name: str, command: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                that_dies_with_parent(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Of the server and of its process group."""
        return self._process.pid

    def wait_until(self, ready: Callable[[], bool], *, timeout_s: float) -> None:
        """Ask `ready` until it says yes.

        Raises:
            ServerError: the process ended, or the time is over.
        """
        deadline = time.monotonic() + timeout_s
        while not ready():
            if self._ended_within(0.05):
                raise ServerError(f"{self.name} ended with code {self._process.returncode}:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                self.stop()
                raise ServerError(f"{self.name} was not ready after {timeout_s:g} s:\n{self.log_tail()}")

    def stop(self, *, grace_s: float = 10.0) -> None:
        """SIGTERM to the group, SIGKILL to what is left of it after `grace_s`; returns when the process is gone."""
        self._signal(signal.SIGTERM)
        self._ended_within(grace_s)
        self.kill()

    def kill(self) -> None:
        """SIGKILL to the group, as a crash would: nothing is flushed, nothing says goodbye."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def log_tail(self) -> str:
        """The end of what the server wrote."""
        return self.log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")

    def _ended_within(self, seconds: float) -> bool:
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            return  # nobody of the group is left


def free_ports(count: int, *, host: str = "127.0.0.1") -> list[int]:
    """`count` different TCP ports that are free now; another process may still be faster."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind((host, 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


class CrashableServer(Server):
    """A server of one process with a folder of its own, which can be ended as a crash would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        """What it keeps; it goes with `stop`."""
        self._process: ServerProcess | None = None

    def _run(self, process: ServerProcess, *, timeout_s: float) -> Self:
        """Wait until it answers. Raises ServerError."""
        self._process = process
        process.wait_until(self._answers, timeout_s=timeout_s)
        return self

    @abstractmethod
    def _answers(self) -> bool: ...

    @override
    def stop(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def kill(self) -> None:
        """End it as a crash would. Its folder stays."""
        if self._process is not None:
            self._process.kill()
            self._process = None


def answers(url: str) -> bool:
    """Whether a server answers this address with success."""
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:  # also what urllib raises
        return False


def that_dies_with_parent(command: Sequence[str]) -> list[str]:
    """The command so that the kernel ends it when its parent is killed and can clean up nothing (Linux)."""
    setpriv = shutil.which("setpriv")
    return [*([setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []), *command]
