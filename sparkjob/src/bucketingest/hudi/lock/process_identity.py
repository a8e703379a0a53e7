"""Which process wrote something, precisely enough to prove later that it is dead: no job waits for a dead process."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

_DEAD_STATES = ("Z", "X")


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process on one machine."""

    host: str
    pid: int
    life: str | None = None
    """Boot of the kernel, namespace of process ids, start time: together they are unique. None if the system does not
    show them; then no proof of death is possible.
    """

    @classmethod
    def own(cls) -> Self:
        """The current process."""
        pid = os.getpid()
        surroundings, started = _surroundings(), _start_of(pid)
        life = None if surroundings is None or started is None else f"{surroundings}/{started[1]}"
        return cls(socket.gethostname(), pid, life)

    def is_dead(self) -> bool:
        """Whether this process has certainly ended. False if that cannot be seen from here."""
        if not self._is_here():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass  # it exists and belongs to another user
        return _start_of(self.pid) is not None and not self._runs()

    def is_alive(self) -> bool:
        """Whether this process certainly runs, on this machine. False if that cannot be seen from here."""
        return self._is_here() and self._runs()

    def _is_here(self) -> bool:
        """False: it is on another machine or in another container, and its process id means nothing here."""
        surroundings = _surroundings()
        return self.life is not None and surroundings is not None and self.life.startswith(f"{surroundings}/")

    def _runs(self) -> bool:
        found = _start_of(self.pid)
        if found is None or self.life is None:
            return False
        state, started = found
        return state not in _DEAD_STATES and self.life.endswith(f"/{started}")

    def to_json(self) -> dict[str, Any]:
        """As it is stored."""
        return {"host": self.host, "pid": self.pid, "life": self.life}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Self:
        """As `to_json` made it. Raises KeyError."""
        return cls(stored["host"], stored["pid"], stored["life"])

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def _surroundings() -> str | None:
    """What a process id is relative to: this boot of this machine, and the namespace of process ids (Linux only)."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return None


def _start_of(pid: int) -> tuple[str, str] | None:
    """State and start time (ticks since boot) of a process; None if they cannot be read."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 1 :].split()  # the command in parentheses may hold anything
    return fields[0], fields[19]
