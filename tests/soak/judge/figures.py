"""How long it takes from a kill to the next commit, and which part of it takes how long."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Self

from soak.fault_plan import Fault, Kind
from soak.job.attempt import Attempt

COLD = frozenset({Kind.JVM, Kind.PYTHON, Kind.POD, Kind.CHECKPOINT})
"""Kinds whose recovery is one plain restart."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """One restart of the driver. Seconds; None where the log or the process did not tell."""

    number: int
    kind: str
    attempt: int
    total: float
    """From the kill to the commit."""
    end: float
    """From the kill to the start of the next command: until the old processes are gone, and what was done meanwhile."""
    python: float | None
    """From there to the start of the JVM: imports, reading the resource, first checks."""
    jvm: float | None
    """From there until the coordinator has started: Spark's session, opening the table, recovery."""
    commit: float | None
    """From there to the commit: the query's start, the first micro-batch."""

    @classmethod
    def of(cls, fault: Fault, killed: float, attempt: Attempt, committed: float) -> Self:
        """Take the measures of an attempt that has committed."""
        jvm = attempt.jvm_started()
        started = attempt.logged_at(lambda event: event.get("event") == "started" and "epoch" in event)
        return cls(
            fault.number,
            fault.kind.value,
            attempt.number,
            committed - killed,
            attempt.started - killed,
            None if jvm is None else jvm - attempt.started,
            None if jvm is None or started is None else started - jvm,
            None if started is None else committed - started,
        )


def summary(recoveries: Sequence[Recovery]) -> list[str]:
    """Median and maximum of each part, over plain restarts."""
    cold = [recovery for recovery in recoveries if recovery.kind in {kind.value for kind in COLD}]
    if not cold:
        return ["no plain restart was measured"]
    parts: list[tuple[str, Callable[[Recovery], float | None]]] = [
        ("kill to next commit", lambda recovery: recovery.total),
        ("  until the old processes are gone", lambda recovery: recovery.end),
        ("  Python, until the JVM is started", lambda recovery: recovery.python),
        ("  JVM and session, table, recovery", lambda recovery: recovery.jvm),
        ("  query and first commit", lambda recovery: recovery.commit),
    ]
    lines = [f"seconds, over {len(cold)} plain restarts{'median':>12}{'max':>8}"]
    for name, part in parts:
        values = [value for recovery in cold if (value := part(recovery)) is not None]
        if values:
            lines.append(f"{name:<38}{statistics.median(values):>8.1f}{max(values):>8.1f}")
    return lines


def as_dicts(recoveries: Sequence[Recovery]) -> list[dict[str, object]]:
    """For a file that other tools read."""
    return [asdict(recovery) for recovery in recoveries]
