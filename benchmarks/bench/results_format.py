"""The format of benchmark results, the same for all benchmarks of this project, so they can be compared over time.

A results file is JSON: a list of cases, as `Case` defines them. See the README next to this package.
"""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

_CLOSE_ENOUGH: Final = 1e-9


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Measured(_Part):
    """One side's repetitions, in the case's unit."""

    name: str = Field(min_length=1)
    """Name of the side, with its version."""
    runs: tuple[float, ...] = Field(min_length=1)
    """One figure per repetition, in the order they ran, without the warm-up."""
    median: float
    min: float
    max: float
    cpu_seconds: tuple[float, ...]
    """CPU seconds of the side's whole process tree, one per repetition; empty if not measured."""

    @classmethod
    def of(cls, name: str, runs: Sequence[float], cpu_seconds: Sequence[float] = ()) -> Self:
        """From the repetitions alone."""
        return cls(
            name=name,
            runs=tuple(runs),
            median=statistics.median(runs),
            min=min(runs),
            max=max(runs),
            cpu_seconds=tuple(cpu_seconds),
        )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        expected = {"median": statistics.median(self.runs), "min": min(self.runs), "max": max(self.runs)}
        for name, value in expected.items():
            if abs(getattr(self, name) - value) > _CLOSE_ENOUGH * max(1.0, abs(value)):
                raise ValueError(f"{name} is {getattr(self, name)}, but the runs' is {value}")
        if self.cpu_seconds and len(self.cpu_seconds) != len(self.runs):
            raise ValueError(f"{len(self.cpu_seconds)} CPU times for {len(self.runs)} runs")
        return self


class Machine(_Part):
    """The machine that measured."""

    cpu: str
    cores: Annotated[int, Field(ge=1)]
    memory_bytes: Annotated[int, Field(ge=1)]
    kernel: str
    versions: dict[str, str]
    """Versions by name: `spark (ours)`, `hudi`, ..."""


class Case(_Part):
    """One comparison."""

    case: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    what: str = Field(min_length=1)
    """One paragraph: input, table, and what exactly the measured interval includes on both sides."""
    unit: str = Field(min_length=1)
    higher_is_better: bool
    rows: Annotated[int, Field(ge=1)]
    """Rows of one repetition."""
    ours: Measured
    peer: Measured
    """What ours is compared with: another writer, a ceiling, a budget."""
    ratio: float
    """How many times better ours is than the peer, by the medians; above 1 is better."""
    ratio_spread: tuple[float, float]
    """The lowest and highest ratio of repetitions that ran one after the other (same index)."""
    load_average: tuple[float, ...] = ()
    """Load of the machine's last minute before each repetition: the noise this was measured in."""
    notes: tuple[str, ...] = ()
    measured_at: str
    """UTC, ISO 8601."""
    machine: Machine

    @classmethod
    def of(
        cls,
        *,
        case: str,
        what: str,
        unit: str,
        rows: int,
        ours: Measured,
        peer: Measured,
        versions: Mapping[str, str],
        higher_is_better: bool = False,
        loads: Sequence[float] = (),
        notes: Sequence[str] = (),
    ) -> Self:
        """Measured now, on this machine."""
        ratio, spread = ratios(ours, peer, higher_is_better=higher_is_better)
        return cls(
            case=case,
            what=what,
            unit=unit,
            higher_is_better=higher_is_better,
            rows=rows,
            ours=ours,
            peer=peer,
            ratio=ratio,
            ratio_spread=spread,
            load_average=tuple(loads),
            notes=tuple(notes),
            measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
            machine=this_machine(versions),
        )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        ratio, spread = ratios(self.ours, self.peer, higher_is_better=self.higher_is_better)
        if max(abs(self.ratio - ratio), *(abs(a - b) for a, b in zip(self.ratio_spread, spread, strict=True))) > 1e-6:
            raise ValueError(f"ratio {self.ratio} {self.ratio_spread}, but the medians and runs say {ratio} {spread}")
        return self


def ratios(ours: Measured, peer: Measured, *, higher_is_better: bool) -> tuple[float, tuple[float, float]]:
    """By how much ours is better: from the medians, and the lowest and highest of the repetitions' pairs."""

    def better(ours_figure: float, peer_figure: float) -> float:
        return ours_figure / peer_figure if higher_is_better else peer_figure / ours_figure

    pairs = [better(a, b) for a, b in zip(ours.runs, peer.runs, strict=True)]
    return better(ours.median, peer.median), (min(pairs), max(pairs))


def load_cases(path: Path) -> list[Case]:
    """The cases of a results file; none if there is no file. Raises pydantic.ValidationError for another format."""
    return TypeAdapter(list[Case]).validate_json(path.read_bytes()) if path.exists() else []


def save_cases(path: Path, cases: Iterable[Case]) -> list[Case]:
    """Put the cases into the file; earlier cases with other names stay. Returns all, by name."""
    merged = {case.case: case for case in load_cases(path)} | {case.case: case for case in cases}
    everything = [merged[name] for name in sorted(merged)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(TypeAdapter(list[Case]).dump_json(everything, indent=1) + b"\n")
    return everything


def this_machine(versions: Mapping[str, str]) -> Machine:
    """The machine's facts from /proc and the kernel."""
    models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    details: dict[str, Any] = {
        "cpu": models[0].partition(":")[2].strip() if models else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "kernel": f"{platform.system()} {platform.release()}",
    }
    return Machine(versions=dict(versions), **details)
