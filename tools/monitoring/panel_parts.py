"""Parts of the panels of both dashboards: words and colours of phases, and common expressions."""

from __future__ import annotations

from typing import Final, get_args

from bucketingest.spec.status import Phase

BY: Final = "by (namespace, name)"
WHO: Final = 'namespace="$namespace", name="$name"'
"""The resource that a board is about."""
PHASES: Final[tuple[str, ...]] = get_args(Phase)
COLOURS: Final = {
    "Pending": "#8F8F8F",
    "Starting": "blue",
    "Running": "green",
    "Idle": "super-light-green",
    "Recovering": "orange",
    "Suspended": "purple",
    "Stalled": "red",
    "Completed": "#5A5A5A",
}
PHASE_WORDS: Final = {str(number): phase for number, phase in enumerate(PHASES)}
YES_NO: Final = {"1": "yes", "0": "no", "-1": "unknown"}


def of(metric: str) -> str:
    """A metric of the resource that a board is about."""
    return f"max({metric}{{{WHO}}})"


def phase_number(who: str) -> str:
    """The phase as its number in `PHASES`, by resource. `who`: label matchers."""
    parts = [f'bucketingest_resource_phase{{{who}, phase="{phase}"}} * {n}' for n, phase in enumerate(PHASES)]
    return f"sum {BY} ({' or '.join(parts)})"


def condition(kind: str, who: str) -> str:
    """A condition by resource: 1 True, 0 False, -1 Unknown."""
    return f'max {BY} (bucketingest_resource_condition{{{who}, condition="{kind}"}})'


def quantile(share: float, histogram: str, who: str, by: str = "") -> str:
    """A quantile of a histogram over Grafana's interval."""
    labels = ", ".join(filter(None, ("le", by)))
    return f"histogram_quantile({share}, sum by ({labels}) (rate({histogram}_bucket{{{who}}}[$__rate_interval])))"


def over(function: str, metric: str, who: str, window: str = "$__rate_interval", by: str = "namespace, name") -> str:
    """A counter's rate or increase, summed by resource."""
    return f"sum by ({by}) ({function}({metric}{{{who}}}[{window}]))"


def trouble(who: str) -> str:
    """How much is wrong: 100 stalled, 10 not ready though it should be, 1 late with commits."""
    rests = f'max {BY} (bucketingest_resource_phase{{{who}, phase=~"Suspended|Completed"}})'
    return (
        f"({condition('Stalled', who)} == bool 1) * 100"
        f" + ({condition('Ready', who)} < bool 1) * (1 - {rests}) * 10"
        f" + ({condition('CommitFresh', who)} == bool 0)"
    )
