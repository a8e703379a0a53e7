"""Alerts, recorded series and panels: all generated files are made from these types."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal

DOCS_URL: Final = "https://bucketingest.dev/docs"
"""Address of the documentation site; the chart replaces it by `monitoring.docsUrl`."""
OF_RESOURCE: Final = ("namespace", "name")
"""Labels that name the resource of a series."""


class Severity(StrEnum):
    """How urgent an alert is."""

    CRITICAL = "critical"
    """A person must act now: readers wait for rows, or soon will."""
    WARNING = "warning"
    """A person must act in working hours."""


@dataclass(frozen=True, slots=True)
class RecordedSeries:
    """A series that Prometheus computes at each evaluation, because alerts over days would otherwise be slow."""

    name: str
    expr: str


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert.

    Attributes:
        expr: PromQL that may use recorded series.
        inline: The same without recorded series, for Grafana-managed rules; empty if `expr` uses none.
        wait: How long it must hold, as a Prometheus duration; "0s": fires immediately.
        summary: One line, with `{{ $labels.… }}`.
        description: What happened and what it means for readers.
        labels: Labels that the result has; templates may use no others.
    """

    name: str
    severity: Severity
    expr: str
    wait: str
    summary: str
    description: str
    inline: str = ""
    labels: tuple[str, ...] = OF_RESOURCE

    @property
    def slug(self) -> str:
        """Name of the runbook page: BucketIngestStuckInflight → stuck-inflight."""
        words = re.findall(r"[A-Z][a-z]*", self.name.removeprefix("BucketIngest"))
        return "-".join(word.lower() for word in words)

    @property
    def runbook_url(self) -> str:
        """Address of the page that says what to do."""
        return f"{DOCS_URL}/runbooks/{self.slug}/"

    @property
    def standalone(self) -> str:
        """The expression without recorded series."""
        return self.inline or self.expr


Unit = Literal["short", "s", "bytes", "Bps", "percentunit", "rps", "bool", "none", "dateTimeFromNow"]
Kind = Literal["timeseries", "stat", "table", "states"]


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a panel. `legend` in Grafana's syntax: `{{name}}`; in a table it is the column's title."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. `width` of 24 columns; `steps`: (from this value, colour) after the first, which is green.

    Attributes:
        needs: The source that a pipeline must have so that there is data.
    """

    title: str
    description: str
    queries: tuple[Query, ...]
    unit: Unit = "short"
    kind: Kind = "timeseries"
    width: int = 8
    height: int = 7
    steps: tuple[tuple[float, str], ...] = ()
    words: dict[str, str] = field(default_factory=dict)
    """Words to show in place of values, such as "1" → "yes"."""
    stacked: bool = False
    link: str = ""
    """uid of the dashboard that a click on `name` leads to."""
    needs: Literal["", "kafka"] = ""


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under one heading."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Board:
    """One dashboard. `variables`: label → query that lists its values, in the order of the dashboard."""

    uid: str
    title: str
    description: str
    variables: dict[str, str]
    rows: tuple[Row, ...]
    many: bool = False
    """Whether variables may take many values, or all."""
    many_of: frozenset[str] = frozenset()
    """Those that may, if not every one may."""


METRIC: Final = re.compile(r"(?<![\w:])bucketingest_[a-z_]+\b(?!:)")


def metrics_of(expr: str) -> set[str]:
    """Names of the metrics that an expression reads, without recorded series."""
    return set(METRIC.findall(expr))
