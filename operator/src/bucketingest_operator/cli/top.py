"""`bucketingest top`: all pipelines on one screen, only from their status."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from typing import Final

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from bucketingest_operator.cli.cluster import Cluster
from bucketingest_operator.cli.errors import ClusterError
from bucketingest_operator.cli.rows import Row, row_of
from bucketingest_operator.kube.kinds import BUCKET_INGESTS

_COLUMNS: Final = (
    ("NAMESPACE", "namespace"),
    ("NAME", "name"),
    ("PHASE", "phase"),
    ("READY", "ready"),
    ("LAST COMMIT", "last_commit"),
    ("LATENCY", "latency"),
    ("LAG", "lag"),
    ("ATTEMPT", "attempt"),
    ("RESTARTS/H", "restarts"),
    ("AGE", "age"),
    ("NOTE", "note"),
)
_RIGHT: Final = frozenset({"last_commit", "latency", "lag", "attempt", "restarts", "age"})
_STYLES: Final = {
    "Running": "green",
    "Idle": "green",
    "Stalled": "bold red",
    "Recovering": "yellow",
    "Starting": "yellow",
    "Pending": "yellow",
    "Suspended": "dim",
    "Completed": "dim",
}


def read_rows(cluster: Cluster, namespace: str | None) -> list[Row]:
    """A row per pipeline, the urgent ones first; `namespace` None: all namespaces. Raises ClusterError."""
    # The API server's cached version is new enough.
    found = cluster.items(BUCKET_INGESTS.path(namespace), resourceVersion="0")
    now = datetime.now(UTC)
    return sorted((row_of(each, now) for each in found), key=lambda row: row.order)


def print_once(cluster: Cluster, namespace: str | None) -> None:
    """Print the table as plain text, nothing cut off, with at least two blanks between columns. Raises ClusterError."""
    columns = _columns(namespace)
    lines = [[title for title, _ in columns]]
    lines += [[getattr(row, field) or "-" for _, field in columns] for row in read_rows(cluster, namespace)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
    for line in lines:
        padded = "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True))
        sys.stdout.write(f"{padded.rstrip()}\n")


def watch(cluster: Cluster, namespace: str | None, interval: float) -> None:
    """Show the table full-screen, refreshed every `interval` seconds until Ctrl-C. Raises ClusterError at the start."""
    rows, trouble = read_rows(cluster, namespace), ""
    with Live(console=Console(), screen=True, auto_refresh=False) as live:
        while True:
            live.update(screen(rows, namespace, trouble), refresh=True)
            time.sleep(interval)
            try:
                rows, trouble = read_rows(cluster, namespace), ""
            except ClusterError as error:
                trouble = str(error)


def screen(rows: list[Row], namespace: str | None, trouble: str = "") -> Group:
    """The table, the number of pipelines in each phase, and why it may be old. Pure."""
    columns = _columns(namespace)
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    for title, field in columns:
        justify = "right" if field in _RIGHT else "left"
        table.add_column(title, justify=justify, no_wrap=True, ratio=1 if field == "note" else None)  # type: ignore[arg-type]
    for row in rows:
        cells = [Text(getattr(row, field)) for _, field in columns]
        table.add_row(*cells, style=_STYLES.get(row.phase, ""))
    phases = sorted({row.phase for row in rows})
    counted = ", ".join(f"{sum(row.phase == phase for row in rows)} {phase}" for phase in phases)
    where = "all namespaces" if namespace is None else f"namespace {namespace}"
    head = Text(f"{len(rows)} pipelines in {where}{': ' if counted else ''}{counted}", style="bold")
    foot = Text(f"not up to date: {trouble}" if trouble else "Ctrl-C ends", style="red" if trouble else "dim")
    return Group(head, "", table, "", foot)


def _columns(namespace: str | None) -> list[tuple[str, str]]:
    return [each for each in _COLUMNS if namespace is None or each[1] != "namespace"]
