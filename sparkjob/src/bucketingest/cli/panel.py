"""The panel that shows a running ingestion in a terminal, and the arithmetic behind its figures."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from rich.panel import Panel
from rich.table import Table

from bucketingest.stream.report.progress import Progress, latency
from bucketingest.write.coordinator_api import Commit

_LATENCIES_KEPT: Final = 100


@dataclass
class Latencies:
    """Commit latencies seen so far, in seconds: from the request of an instant to its completion."""

    last_instant: str | None = None
    seen: deque[float] = field(default_factory=lambda: deque(maxlen=_LATENCIES_KEPT))

    def observe(self, progress: Progress) -> None:
        """Add the last commit, once."""
        last = progress.last
        if last is not None and last.instant_time != self.last_instant:
            self.last_instant = last.instant_time
            self.seen.append(latency(last))

    @property
    def last(self) -> float | None:
        """Of the newest commit."""
        return self.seen[-1] if self.seen else None

    @property
    def median(self) -> float | None:
        """Of the last hundred."""
        return median(self.seen) if self.seen else None


def panel(title: str, progress: Progress, latencies: Latencies, note: str = "") -> Panel:
    """What the terminal shows now."""
    grid = Table.grid(padding=(0, 3))
    for _ in range(4):
        grid.add_column(no_wrap=True)
    cells = figures(progress, latencies)
    for (left, left_value), (right, right_value) in zip(cells[::2], cells[1::2], strict=True):
        grid.add_row(f"[dim]{left}[/]", left_value, f"[dim]{right}[/]", right_value)
    return Panel(grid, title=f"[bold]{title}[/]", subtitle=note or "Ctrl-C to stop", border_style="cyan", expand=False)


def figures(progress: Progress, latencies: Latencies) -> list[tuple[str, str]]:
    """Name and value of each figure; an even number of them. Pure."""
    last = progress.last
    return [
        ("rows/s", f"{progress.rows_per_second:,.0f}"),
        ("rows", f"{progress.rows:,}"),
        ("commit latency", f"{_seconds(latencies.last)} last, {_seconds(latencies.median)} median"),
        ("written", f"{progress.size_bytes / 1e6:,.1f} MB"),
        ("inflight instant", _with_age(progress.inflight_instant, progress.inflight_age)),
        ("deletes", f"{progress.deletes:,}"),
        ("last instant", _with_age(last.instant_time if last else None, progress.last_commit_age)),
        ("commits", f"{progress.commits:,}"),
        ("last commit", _size(last)),
        ("rejected", f"{progress.rejected:,}"),
        ("lag", _lag(progress.lag_offsets, progress.lag_seconds)),
        ("running for", _seconds(progress.running_for)),
    ]


def _size(commit: Commit | None) -> str:
    return (
        "-" if commit is None else f"{commit.rows:,} rows in {commit.files:,} files, {commit.size_bytes / 1e6:,.1f} MB"
    )


def _lag(offsets: int | None, seconds: float | None) -> str:
    parts = [] if offsets is None else [f"{offsets:,} offsets"]
    return ", ".join(parts if seconds is None else [*parts, _seconds(seconds)]) or "-"


def _with_age(instant: str | None, age_seconds: float | None) -> str:
    if instant is None:
        return "-"
    return instant if age_seconds is None else f"{instant}, {_seconds(age_seconds)}"


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds:.1f} s" if seconds < 60 else f"{int(seconds) // 60} min {int(seconds) % 60} s"
