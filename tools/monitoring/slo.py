"""Service levels as burn rates: how fast a pipeline uses its error budget, over several windows.

An objective must be met for 99 % of 30 days. An alert uses two windows: the long one shows that the problem matters,
the short one that it continues, so that the alert ends soon after its cause. Factors and windows are from Google's
"The Site Reliability Workbook", chapter 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from monitoring.model import RecordedSeries

OBJECTIVE: Final = 0.99
BUDGET: Final = 1 - OBJECTIVE
COMMITS_MIN: Final = 3
"""Minimum of bad commits: among few commits a single slow one, such as the first after a start, is a large share."""
WINDOWS: Final = ("5m", "30m", "1h", "2h", "6h", "1d", "3d")
_BY: Final = "by (namespace, name)"

TOTAL: Final = "bucketingest_slo_commits_total"
GOOD: Final = "bucketingest_slo_commits_good_total"


@dataclass(frozen=True, slots=True)
class Burn:
    """One pair of windows: in both, the budget burns `factor` times as fast as allowed."""

    long: str
    short: str
    factor: float

    @property
    def limit(self) -> str:
        """The corresponding share of bad events."""
        return f"{self.factor * BUDGET:.4g}"


FAST: Final = (Burn("1h", "5m", 14.4), Burn("6h", "30m", 6.0))
"""2 % of the budget in an hour, or 5 % in six."""
SLOW: Final = (Burn("1d", "2h", 3.0), Burn("3d", "6h", 1.0))
"""10 % of the budget in a day or in three."""


def late_commits(window: str) -> str:
    """Share of commits that came later than `slo.commitLatency`; NaN without a commit."""
    return f"1 - sum {_BY} (rate({GOOD}[{window}])) / sum {_BY} (rate({TOTAL}[{window}]))"


def late_commits_recorded(window: str) -> str:
    """Name of the recorded share."""
    return f"bucketingest:late_commits:ratio_rate{window}"


_STALE: Final = (
    f"max {_BY} (bucketingest_commit_lag_seconds) > bool on (namespace, name) "
    f"max {_BY} (bucketingest_slo_freshness_seconds)"
)
_STEPS: Final = {
    "5m": "30s", "30m": "30s", "1h": "30s", "2h": "30s", "6h": "1m", "1d": "1m", "3d": "7m",
}  # fmt: skip
STALE_RECORDED: Final = "bucketingest:stale:bool"


def stale_time(window: str) -> str:
    """Share of the time in which input waited and the last commit was older than `slo.freshness`.

    At each evaluation Prometheus computes every step again, so long windows have longer steps. Seven minutes do not
    keep step with anything that happens every hour, which would be seen always or never.
    """
    return f"avg_over_time(({_STALE})[{window}:{_STEPS[window]}])"


def stale_time_recorded(window: str) -> str:
    """Name of the recorded share."""
    return f"bucketingest:stale_time:ratio{window}"


RECORDED: Final = (
    *(RecordedSeries(late_commits_recorded(window), late_commits(window)) for window in WINDOWS),
    RecordedSeries(STALE_RECORDED, _STALE),
    *(RecordedSeries(stale_time_recorded(window), f"avg_over_time({STALE_RECORDED}[{window}])") for window in WINDOWS),
)


def latency_burns(burns: tuple[Burn, ...], *, inline: bool) -> str:
    """True while too many commits are late; without recorded series if `inline`."""
    share = (lambda window: f"({late_commits(window)})") if inline else late_commits_recorded
    parts = []
    for burn in burns:
        late = f"sum {_BY} (increase({TOTAL}[{burn.long}])) - sum {_BY} (increase({GOOD}[{burn.long}]))"
        parts.append(
            f"({share(burn.long)} > {burn.limit} and {share(burn.short)} > {burn.limit} "
            f"and ({late}) > {COMMITS_MIN - 0.5})"
        )
    return "\nor\n".join(parts)


def freshness_burns(burns: tuple[Burn, ...], *, inline: bool) -> str:
    """True while the table is stale for too long; without recorded series if `inline`."""
    share = stale_time if inline else stale_time_recorded
    return "\nor\n".join(
        f"({share(burn.long)} > {burn.limit} and {share(burn.short)} > {burn.limit})" for burn in burns
    )
