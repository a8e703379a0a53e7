"""The draft of a status: conditions, attempts, and the job's last report, as in the CRD."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from bucketingest.spec.job_report import (
    CatalogReport,
    FilesReport,
    ProgressReport,
    SchemasReport,
    TableReport,
    TablesReport,
)
from bucketingest.spec.status import (
    ATTEMPTS_MAX,
    Attempt,
    Condition,
    IndexStatus,
    Inflight,
    Lag,
    LastCommit,
    Phase,
    Status,
    TablesStatus,
    TableStatus,
)

READY: Final = "Ready"
RECONCILING: Final = "Reconciling"
STALLED: Final = "Stalled"
COMMIT_FRESH: Final = "CommitFresh"
CHECKPOINT_HEALTHY: Final = "CheckpointHealthy"
TIMELINE_CLEAN: Final = "TimelineClean"
SERVICES_HEALTHY: Final = "ServicesHealthy"
"""Only of pipelines with table services."""
SOURCE_COMPLETE: Final = "SourceComplete"
"""Only of pipelines that read files."""
CATALOG_SYNCED: Final = "CatalogSynced"
"""Only of pipelines with catalogs."""
SCHEMAS_TAKEN: Final = "SchemasTaken"
"""Only of pipelines with a schema registry."""
TABLES_HEALTHY: Final = "TablesHealthy"
"""Only of resources with many tables."""
MIRROR_EQUAL: Final = "MirrorEqual"
"""Only of pipelines with an audit."""
DEGRADED: Final = "Degraded"
"""Only of pipelines whose spec was changed."""
CONDITIONS: Final = (READY, RECONCILING, STALLED, COMMIT_FRESH, CHECKPOINT_HEALTHY, TIMELINE_CLEAN)
ALL_CONDITIONS: Final = (
    *CONDITIONS,
    SERVICES_HEALTHY,
    SOURCE_COMPLETE,
    CATALOG_SYNCED,
    SCHEMAS_TAKEN,
    TABLES_HEALTHY,
    MIRROR_EQUAL,
    DEGRADED,
)

SCHEMA_REFUSED: Final = "SchemaRefused"
TABLES_PARKED: Final = "TablesParked"
COLUMNS_GROWN: Final = "ColumnsGrown"
"""Reasons of SchemasTaken that are events, too."""
LAG_WAITS_SECONDS: Final = 60.0
"""From which age of the last commit on a lag alone causes a write: a write at each pass would load the API server."""
_ROUNDED: Final = timedelta(seconds=2)
"""Times of a status are whole seconds, and a report's ages are from a moment ago."""
_TOPIC_MAX: Final = 249
"""As Kafka has it: a report may hold longer texts."""
_DIGITS: Final = re.compile(r"\d+")
MESSAGE_MAX: Final = 1024
"""A status holds ten attempts and nine conditions: short messages keep it small."""

Truth = Literal["True", "False", "Unknown"]


def truth(*, value: bool) -> Truth:
    """The value as Kubernetes writes it."""
    return "True" if value else "False"


def shortened(text: str) -> str:
    """The text, cut to the length of a message."""
    return text if len(text) <= MESSAGE_MAX else f"{text[: MESSAGE_MAX - 1]}…"


class Draft:
    """The status as it was, with the changes of a pass. `status` returns the result."""

    def __init__(self, before: Status, generation: int, now: datetime, created_at: datetime | None = None) -> None:
        """`created_at`: of the resource; None: now."""
        self._before = before
        self._generation = generation
        self._now = now
        self._created_at = created_at or now
        self._answered = False
        self._phase = before.phase
        self._conditions = {each.type: each for each in before.conditions or ()}
        self.attempts: tuple[Attempt, ...] = before.attempts or ()
        self.number = max(before.attempt or 0, *(each.number for each in self.attempts), 0)
        self._last_commit = before.last_commit
        self._inflight = before.inflight
        self._lag = before.lag
        self._index = before.index
        self._tables = before.tables
        self.services = before.services
        self.upgrade = before.upgrade
        self._repair_clock()

    def _repair_clock(self) -> None:
        """A clock that was set back leaves times in the future: do not wait for them."""
        current = self.current
        if current is None:
            return
        late = {
            name: self._now
            for name, at in (("started_at", current.started_at), ("ended_at", current.ended_at))
            if at is not None and at > self._now
        }
        if late:
            self.attempts = (*self.attempts[:-1], current.model_copy(update=late))

    @property
    def current(self) -> Attempt | None:
        """The newest attempt."""
        return self.attempts[-1] if self.attempts else None

    def condition(self, kind: str) -> Condition | None:
        """The current value of a condition."""
        return self._conditions.get(kind)

    def drop(self, kind: str) -> None:
        """There is nothing any more that a condition would be of."""
        self._conditions.pop(kind, None)

    def phase(self, phase: Phase) -> None:
        """Set the phase."""
        self._phase = phase

    def set(self, kind: str, value: Truth, reason: str, message: str = "") -> None:
        """Set a condition; its time stays while its value stays."""
        old = next((each for each in self._before.conditions or () if each.type == kind), None)
        changed = old is None or old.status != value
        self._conditions[kind] = Condition(
            type=kind,
            status=value,
            reason=reason,
            message=shortened(message),
            observed_generation=self._generation,
            last_transition_time=self._now if old is None or changed else old.last_transition_time,
        )

    def intend(self, number: int, pod: str) -> None:
        """Add an attempt before anything of it is created."""
        self.number = number
        self.attempts = (*self.attempts, Attempt(number=number, pod=pod))[-ATTEMPTS_MAX:]

    def adopt(self, number: int, pod: str, started_at: datetime) -> None:
        """Add an attempt that runs although the status does not know it: a user changed the status."""
        current = self.current
        if current is not None and current.ended_at is None:
            self.change(ended_at=self._now, outcome=current.outcome or "Superseded")
        self.intend(number, pod)
        self.change(started_at=min(started_at, self._now))

    def change(
        self,
        *,
        started_at: datetime | None = None,
        ended_at: datetime | None = None,
        outcome: str | None = None,
        message: str | None = None,
        generation: int | None = None,
    ) -> None:
        """Change the given fields of the newest attempt."""
        values = {
            "started_at": started_at,
            "ended_at": ended_at,
            "outcome": outcome,
            "message": message,
            "generation": generation,
        }
        given: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
        if message is not None:
            given["message"] = shortened(message)
        self.attempts = (*self.attempts[:-1], self.attempts[-1].model_copy(update=given))

    def take_report(self, report: ProgressReport, read_at: datetime | None = None) -> None:
        """Copy commits, inflight instant, lag and what users must know of the index from the job's report.

        Its ages count from `read_at`; None: now.
        """
        at = read_at or self._now
        before = (self._last_commit, self._inflight)
        commit = report.last_commit
        if commit is not None:
            self._last_commit = LastCommit(
                instant=commit.instant,
                time=commit.at.replace(microsecond=0),
                rows=commit.rows,
                latency_seconds=max(0.0, round(commit.latency_seconds, 1)),
            )
        inflight = report.inflight
        if inflight is None:
            self._inflight = None
        elif self._inflight is None or self._inflight.instant != inflight.instant:
            since = at.replace(microsecond=0) - timedelta(seconds=int(inflight.age_seconds))
            self._inflight = Inflight(instant=inflight.instant, since=since)
        if report.state is not None:  # a driver that has just started does not know it yet
            self._index = IndexStatus(
                new_keys_in_logs=report.state.new_keys_in_logs, unloaded_partitions=report.state.unloaded_partitions
            )
        if report.files is not None:
            self.set(SOURCE_COMPLETE, *_judge_files(report.files))
        if report.schemas is not None:
            self.set(SCHEMAS_TAKEN, *_judge_schemas(report.schemas))
        if report.catalogs:
            self.set(CATALOG_SYNCED, *_judge_catalogs(report.catalogs))
        else:
            self._conditions.pop(CATALOG_SYNCED, None)
        has_committed = before != (self._last_commit, self._inflight)
        if report.tables is not None:
            tables = _tables_of(report.tables)
            if self._tables is None or has_committed or not _same_tables(self._tables, tables):
                self._tables = tables
            self.set(TABLES_HEALTHY, *_judge_tables(self._tables))
        self._answered = True
        lag = self._lag_as_of(report, at)
        # While commits come, each causes a write, which includes the lag. If none comes, users look at the lag.
        fresh = commit is not None and commit.age_seconds < LAG_WAITS_SECONDS and knows_lag(report)
        settled = self._lag is not None and (fresh or _much_alike(self._lag, lag))
        if has_committed or not settled:
            self._lag = lag

    @property
    def inflight(self) -> Inflight | None:
        """The open instant of the job's last report."""
        return self._inflight

    def _lag_now(self) -> Lag | None:
        """The lag; if no driver has answered in this pass, nobody knows it."""
        if self._phase == "Completed":
            return Lag(offsets=0)
        if self._answered or self._lag is None:
            return self._lag
        return self._lag_as_of(None, self._now)

    def _lag_as_of(self, report: ProgressReport | None, at: datetime) -> Lag:
        since = input_waits_since(self._before, self._created_at, report, at)
        offsets = None if report is None else report.lag.offsets
        return Lag(offsets=offsets, since=None if since is None else since.replace(microsecond=0))

    def nothing_inflight(self) -> None:
        """The open instant was rolled back."""
        self._inflight = None

    def status(self) -> Status:
        """The status to write. It equals the previous one if nothing has changed."""
        for kind in CONDITIONS:
            if kind not in self._conditions:
                self.set(kind, "Unknown", "NotKnown")
        others = [each for kind, each in self._conditions.items() if kind not in CONDITIONS]
        return Status(
            observed_generation=self._generation,
            phase=self._phase,
            conditions=(*(self._conditions[kind] for kind in CONDITIONS), *others)[:16],
            last_commit=self._last_commit,
            inflight=self._inflight,
            lag=self._lag_now(),
            index=self._index,
            services=self.services,
            tables=self._tables,
            upgrade=self.upgrade,
            attempt=self.number,
            attempts=self.attempts,
        )


def _judge_files(report: FilesReport) -> tuple[Truth, str, str]:
    found: dict[str, str] = {}
    if report.changed_files:
        names = ", ".join(report.changed)
        found["FilesChanged"] = f"Changed after they were read, and not read again: {report.changed_files}, {names}."
    if report.unknown_columns:
        columns = ", ".join(f"{each.column} ({each.file})" for each in report.unknown)
        found["UnknownColumns"] = f"Not in source.files.schema, and not read: {columns}."
    if not found:
        return "True", "AllRead", ""
    return "False", next(iter(found)), " ".join(found.values())


def _judge_schemas(report: SchemasReport) -> tuple[Truth, str, str]:
    if report.refused_schemas:
        said = "; ".join(f"schema {each.id} {each.reason}" for each in report.refused)
        return "False", SCHEMA_REFUSED, f"All messages of {report.refused_schemas} schemas are dead letters: {said}."
    return "True", COLUMNS_GROWN if report.growths else "AllTaken", report.last_growth or ""


def _tables_of(report: TablesReport) -> TablesStatus:
    parked = [each for each in report.worst if each.state == "parked"]
    late = [each for each in report.worst if each.state in {"open", "opening"}][: report.late]
    return TablesStatus(
        known=report.known,
        open=report.open,
        parked=report.parked,
        gone=report.gone,
        late=report.late,
        left_out=report.left_out,
        worst=(
            *(_table(each, "parked") for each in parked),
            *(_table(each, "late") for each in late),
        )
        or None,
    )


def _table(report: TableReport, state: str) -> TableStatus:
    reason = None if report.reason is None else shortened(report.reason)
    return TableStatus(topic=report.topic[:_TOPIC_MAX] or "?", state=state, reason=reason)


def _same_tables(before: TablesStatus, now: TablesStatus) -> bool:
    """Whether only numbers in reasons differ, such as seconds: that can wait for the next commit's write."""
    one, other = (
        (
            each.model_copy(update={"worst": None}),
            {(table.topic, table.state, _DIGITS.sub("", table.reason or "")) for table in each.worst or ()},
        )
        for each in (before, now)
    )
    return one == other


def _judge_tables(tables: TablesStatus) -> tuple[Truth, str, str]:
    named = "; ".join(f"{each.topic}: {each.reason or each.state}" for each in tables.worst or ())
    if tables.parked:
        return "False", TABLES_PARKED, f"{tables.parked} of {tables.known} tables are parked: {named}"
    if tables.late:
        return "False", "TablesLate", f"{tables.late} of {tables.known} tables are late: {named}"
    if tables.left_out:
        return "False", "TooManyTopics", f"{tables.left_out} topics have no table: {tables.known} others have one."
    gone = f"Kafka has the topics of {tables.gone} tables no more; the tables stay as they are." if tables.gone else ""
    return "True", "AllWritten", gone


def _judge_catalogs(catalogs: Sequence[CatalogReport]) -> tuple[Truth, str, str]:
    problems = [f"{each.catalog}: {each.problem}" for each in catalogs if each.problem is not None]
    if problems:
        return "False", "CatalogFails", " ".join(problems)
    return "True", "Synced", ""


def knows_lag(report: ProgressReport) -> bool:
    """Whether the job has looked at its source, and the source has answered."""
    return report.idle or report.lag.seconds is not None


def input_waits_since(
    before: Status, created_at: datetime, report: ProgressReport | None, now: datetime
) -> datetime | None:
    """Since when input waits to be committed, or, where nobody knows, may wait; None: all of it is committed.

    Args:
        before: The status as it was: what an earlier driver saw, and nobody has committed, still waits.
        created_at: Of the resource: before its first commit input may wait since then.
        report: What the driver says now; None if none answers.
        now: When it said so.
    """
    commit = _newest_commit(before, report, now)
    waited = commit or created_at
    if before.lag is not None:
        waited = before.lag.since or now
    if report is not None and knows_lag(report):
        if report.idle or not report.lag.seconds:
            return None
        seen = now - timedelta(seconds=report.lag.seconds)
        # A driver that has committed knows what was left, unless it was away from its source since.
        own = report.last_commit is not None and before.lag is None
        committed = commit is not None and commit > waited + _ROUNDED
        return seen if own or committed else _earlier(waited, seen)
    return waited if commit is None else max(waited, commit)


def _newest_commit(before: Status, report: ProgressReport | None, now: datetime) -> datetime | None:
    """By the operator's clock as far as a driver tells the age."""
    if report is not None and report.last_commit is not None:
        return now - timedelta(seconds=report.last_commit.age_seconds)
    return None if before.last_commit is None else before.last_commit.time


def _earlier(written: datetime, seen: datetime) -> datetime:
    """The earlier time; the written one if they are the same but for rounding, so that it stays as it is."""
    return written if written <= seen + _ROUNDED else seen


def _much_alike(before: Lag, now: Lag) -> bool:
    """Whether a lag is so close to the written one that it can wait for the next commit's write."""
    if before.since is None or now.since is None:
        return before.since is now.since and _near(before.offsets, now.offsets)
    return abs(before.since - now.since) <= _ROUNDED and _near(before.offsets, now.offsets)


def _near(before: float | None, now: float | None) -> bool:
    if before is None or now is None:
        return before is now
    return before == now or (min(before, now) > 0 and max(before, now) / min(before, now) < 1.5)
