"""One line per pipeline for `bucketingest top`, from the API server's objects. Pure."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from bucketingest.spec.reading.plain_text import plain
from bucketingest_operator.decide.failures import failure_of

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
