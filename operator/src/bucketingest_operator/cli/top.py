"""`bucketingest top`: all pipelines on one screen, only from their status."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from bucketingest.spec.reading.plain_text import plain
from bucketingest_operator.cli.cluster import Cluster
from bucketingest_operator.cli.errors import ClusterError
from bucketingest_operator.decide.failures import failure_of
from bucketingest_operator.kube.kinds import BUCKET_INGESTS

Object = dict[str, Any]

NONE: Final = "-"
_RECENT: Final = timedelta(hours=1)
_UNITS: Final = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))


@dataclass(frozen=True, slots=True)
class Row:
    """The columns of one pipeline, as texts."""

    namespace: str
    name: str
    phase: str
    ready: str
    last_commit: str
    """Age of the last commit."""
    latency: str
    lag: str
    """Offsets, if they are known, and for how long input waits, or may wait."""
    attempt: str
    restarts: str
    """Attempts that started within the last hour, without the very first one."""
    age: str
    note: str
    """Why it is not ready."""

    @property
    def order(self) -> tuple[int, str, str]:
        """Pipelines that need a person first, then by name."""
        urgency = {"Stalled": 0, "Recovering": 1}.get(self.phase, 2)
        return urgency, self.namespace, self.name


def row_of(found: Object, now: datetime) -> Row:
    """The line of a BucketIngest; a missing value is a dash. What its author wrote hides no other line."""
    try:
        row = _row(found, now)
    except Exception:  # noqa: BLE001 - whatever one status holds, the others are shown
        missing = dict.fromkeys((each.name for each in fields(Row)), NONE)
        metadata = found["metadata"]
        who = {"namespace": str(metadata.get("namespace", "")), "name": str(metadata["name"])}
        row = Row(**{**missing, **who, "note": "its status cannot be read"})
    return Row(**{each.name: plain(getattr(row, each.name)) for each in fields(Row)})


def _row(found: Object, now: datetime) -> Row:
    metadata, status = found["metadata"], found.get("status") or {}
    conditions = {each.get("type"): each for each in status.get("conditions") or ()}
    commit, lag = status.get("lastCommit") or {}, status.get("lag") or {}
    attempts = status.get("attempts") or ()
    return Row(
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata["name"]),
        phase=str(status.get("phase") or NONE),
        ready=str((conditions.get("Ready") or {}).get("status") or NONE),
        last_commit=_age(commit.get("time"), now),
        latency=_seconds(commit.get("latencySeconds")),
        lag=_lag(lag, now),
        attempt=str(status.get("attempt") or NONE),
        restarts=str(sum(_is_restart(each, now) for each in attempts)),
        age=_age(metadata.get("creationTimestamp"), now),
        note=_note(conditions, attempts),
    )


def _note(conditions: dict[Any, Object], attempts: Any) -> str:
    for kind, bad in (
        ("Stalled", "True"),
        ("Ready", "False"),
        ("CommitFresh", "False"),
        ("TimelineClean", "False"),
        ("ServicesHealthy", "False"),
        ("SourceComplete", "False"),
        ("CatalogSynced", "False"),
        ("SchemasTaken", "False"),
        ("TablesHealthy", "False"),
        ("MirrorEqual", "False"),
        ("Degraded", "True"),
    ):
        condition = conditions.get(kind) or {}
        if condition.get("status") == bad:
            return ": ".join(filter(None, [str(condition.get("reason", "")), str(condition.get("message", ""))]))
    last = next((each for each in reversed(attempts) if failure_of(each.get("outcome")) is not None), None)
    return "" if last is None else f"attempt {last.get('number')} ended: {last['outcome']}"


def _is_restart(attempt: Object, now: datetime) -> bool:
    started = _time(attempt.get("startedAt"))
    return attempt.get("number") != 1 and started is not None and now - started < _RECENT


def _lag(lag: Object, now: datetime) -> str:
    offsets, since = lag.get("offsets"), lag.get("since")
    parts = [] if offsets is None else [f"{offsets:,}"]
    if since is not None:
        parts.append(_age(since, now))
    return " ".join(parts) or NONE


def _seconds(value: Any) -> str:
    return NONE if value is None else f"{float(value):.1f}s"


def _age(value: Any, now: datetime) -> str:
    at = _time(value)
    return NONE if at is None else span((now - at).total_seconds())


def _time(value: Any) -> datetime | None:
    try:
        at = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def span(seconds: float) -> str:
    """A duration in its two largest units: 95 seconds are 1m35s. At least 0s, because clocks may differ."""
    rest = max(0, int(seconds))
    for place, (size, unit) in enumerate(_UNITS):
        if rest >= size:
            whole, rest = divmod(rest, size)
            smaller = _UNITS[place + 1 : place + 2]
            more = f"{rest // smaller[0][0]}{smaller[0][1]}" if smaller and rest >= smaller[0][0] else ""
            return f"{whole}{unit}{more}"
    return "0s"


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
