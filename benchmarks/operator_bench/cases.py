"""The operator's figures against its budget."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import kopf

from bench.results_format import Case, Measured

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]
"""(name, labels) of each metric -> its value."""


@dataclass(frozen=True, slots=True)
class Interval:
    """The operator's metrics at the begin and the end of a time."""

    before: Samples
    after: Samples
    seconds: float

    def rate(self, name: str) -> float:
        """Increase of a counter per second."""
        return (self.after[name, ()] - self.before[name, ()]) / self.seconds

    def quantile(self, part: float) -> float:
        """The quantile of the histogram of passes, interpolated within its bucket."""
        name = "bucketingest_operator_reconcile_seconds_bucket"
        bounds = sorted(
            (float(dict(labels)["le"]), value - self.before.get((found, labels), 0))
            for (found, labels), value in self.after.items()
            if found == name
        )
        wanted, low, counted = bounds[-1][1] * part, 0.0, 0.0
        for bound, total in bounds:
            if total >= wanted:
                share = (wanted - counted) / max(total - counted, 1)
                return low if bound == float("inf") else low + (bound - low) * share
            low, counted = bound, total
        return low


def restart_cases(resources: int, restarts: Interval, at_once: int) -> list[Case]:
    """While every resource restarts. `at_once`: the most drivers that were stopped at a time."""
    where = (
        f"{resources} resources are asked to restart at once, as after a change of the default image, and drivers stop "
        "and start without delay"
    )
    took: tuple[str, ...] = (
        f"all {resources} in {restarts.seconds:.0f} s, {resources / restarts.seconds:.1f} a second",
    )
    rows = (
        (
            "operator-restart-at-once",
            f"Drivers that were stopped at a time: {where}.",
            "drivers",
            float(at_once),
            10.0,
            took,
        ),
        ("operator-restart-pass-p99", f"p99 of a pass: {where}.", "s", restarts.quantile(0.99), 1.0, ()),
        (
            "operator-restart-memory",
            f"Resident memory at the end: {where}.",
            "MiB",
            restarts.after["process_resident_memory_bytes", ()] / 2**20,
            250.0,
            (f"{restarts.rate('bucketingest_operator_api_calls'):.0f} calls of the API a second",),
        ),
    )
    return [_case(*row, resources) for row in rows]


def steady_cases(
    resources: int, steady: Interval, *, commit_seconds: float, delays: Sequence[float], notes: Sequence[str]
) -> list[Case]:
    """While drivers run and commit. `delays`: seconds from the creation of one more resource to its driver pod."""
    passes = steady.rate("bucketingest_operator_reconcile_seconds_count")
    cpu = steady.rate("process_cpu_seconds_total")
    where = f"{resources} resources whose drivers run and commit every {commit_seconds:g} s, against a real API server"
    pass_notes = (
        f"{passes:.0f} passes/s, {cpu:.2f} cores",
        f"p50 of a pass {steady.quantile(0.5) * 1000:.0f} ms",
        *notes,
    )
    ordered = sorted(delays)
    rows = (
        ("operator-pass-p99", f"p99 of a pass: {where}.", "s", steady.quantile(0.99), 1.0, pass_notes),
        (
            "operator-memory",
            f"Resident memory: {where}.",
            "MiB",
            steady.after["process_resident_memory_bytes", ()] / 2**20,
            250.0,
            (),
        ),
        (
            "operator-api-calls",
            f"Calls of the API: {where}.",
            "calls/s",
            steady.rate("bucketingest_operator_api_calls"),
            100.0,
            (),
        ),
        (
            "operator-apply-to-pod",
            f"p99 of the time from the creation of one more resource to its driver pod: {where}.",
            "s",
            ordered[int(len(ordered) * 0.99)],
            2.0,
            (
                f"median {ordered[len(ordered) // 2]:.2f} s of {len(ordered)}; the longest "
                + ", ".join(f"{each:.2f}" for each in ordered[-3:]),
            ),
        ),
    )
    return [_case(*row, resources) for row in rows]


def _case(  # noqa: PLR0917
    name: str, what: str, unit: str, figure: float, budget: float, notes: tuple[str, ...], resources: int
) -> Case:
    ours, peer = Measured.of("bucketingest-operator", [figure]), Measured.of("budget", [budget])
    return Case.of(
        case=name,
        what=what,
        unit=unit,
        rows=resources,
        ours=ours,
        peer=peer,
        versions={
            "python": sys.version.split()[0],
            "kopf": kopf.__version__ if hasattr(kopf, "__version__") else "",
        },
        loads=os.getloadavg()[:1],
        notes=notes,
    )
