"""The progress of a job with many tables: a board for each, and their sum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from bucketingest.catalog.keeper import worst_of
from bucketingest.services.state import together
from bucketingest.spec.job_report import TableReport, TablesReport
from bucketingest.stream.report.board import ProgressBoard
from bucketingest.stream.report.progress import Phase, Progress, ProgressObserver

_KEPT_SECONDS: Final = 1.0
_ADDED: Final = (
    "batches",
    "commits",
    "rows",
    "deletes",
    "rejected",
    "size_bytes",
    "rollbacks",
    "position_losses",
)
_KEPT_SHARE: Final = 100.0
"""A sum is kept so many times as long as it took to make it, and at least so long."""


class TablesBoard(ProgressBoard):
    """The job's own board, with one for each table."""

    def __init__(self, observers: Sequence[ProgressObserver] = ()) -> None:
        super().__init__(observers)
        self._of_tables: dict[str, ProgressBoard] = {}
        self._past = Progress(0.0, idle=True)
        """What tables did that are not known any more."""
        self.report: Callable[[], TablesReport | None] = lambda: None
        """Says how the tables are."""
        self.each: Callable[[], Sequence[TableReport]] = tuple
        """The same of each."""
        self._sum: tuple[float, Progress] | None = None
        """Until when it is kept, and the sum."""

    def table(self, topic: str) -> ProgressBoard:
        """The board of a topic's table."""
        return self._of_tables.setdefault(topic, ProgressBoard(self._observers))

    def forget(self, topic: str) -> None:
        """The table is not known any more; what it did still counts."""
        with self._lock:
            self._past = replace(self._past, **_totals([self._past, self._of_tables.pop(topic).snapshot()]))

    def tables(self) -> Sequence[TableReport]:
        """How each table is."""
        return self.each()

    def looked(self) -> None:
        """The topics were looked at: the job works, whether or not one of them has rows."""
        with self._lock:
            self._is_running = True
        self.idle()

    def refresh(self) -> None:
        """The next snapshot is of that moment."""
        self._sum = None

    def snapshot(self) -> Progress:
        """The sum of all tables, up to some seconds old: a thousand are added up. The lag is that of the worst one, the
        last commit the newest.
        """
        now, known = self._forward(), self._sum
        if known is not None and now < known[0]:
            return known[1]
        summed = self._summed()
        took = self._forward() - now
        self._sum = now + max(_KEPT_SECONDS, _KEPT_SHARE * took), summed
        return summed

    def _summed(self) -> Progress:
        with self._lock:
            boards, past = tuple(self._of_tables.items()), self._past
        own, each = super().snapshot(), [_named(topic, board.snapshot()) for topic, board in boards]
        if not each:
            return own
        newest = min((one for one in each if one.last), key=lambda one: one.last_commit_age or 0.0, default=None)
        lags = [one.lag_seconds for one in each if one.lag_seconds is not None]
        tables, reports = self.report(), [one for one in (own, *each) if one.last_report_at is not None]
        latest = min(reports, key=lambda one: one.last_report_age or 0.0, default=own)
        return replace(
            own,
            phase=_phase(own, each, has_looked=tables is not None and tables.parked + tables.gone > 0),
            verdict="in step",
            verdict_reason="There is no checkpoint: each table goes on from its own commits.",
            idle=all(one.idle for one in each),
            **_totals([past, *each]),
            oldest_log_age=max((one.oldest_log_age for one in each if one.oldest_log_age is not None), default=None),
            compacting_for=max((one.compacting_for for one in each if one.compacting_for is not None), default=None),
            rows_per_second=sum(one.rows_per_second for one in each if not one.idle),
            lag_offsets=sum(one.lag_offsets or 0 for one in each) if own.source and own.source.answers else None,
            lag_seconds=max(lags) if lags else None,
            last=None if newest is None else newest.last,
            last_commit_at=None if newest is None else newest.last_commit_at,
            last_commit_age=None if newest is None else newest.last_commit_age,
            last_report_at=latest.last_report_at,
            last_report_age=latest.last_report_age,
            tables=tables,
            catalogs=worst_of([one.catalogs for one in each]),
            catalog_behind=max((one.catalog_behind for one in each if one.catalog_behind is not None), default=None),
        )

    def offsets(self) -> dict[tuple[str, int], tuple[int, int]]:
        """As `ProgressBoard.offsets`, of all tables."""
        return {place: at for board in tuple(self._of_tables.values()) for place, at in board.offsets().items()}


def _totals(each: Sequence[Progress]) -> dict[str, Any]:
    """What is added up."""
    services = [one.services for one in each if one.services is not None]
    return {name: sum(getattr(one, name) for one in each) for name in _ADDED} | {"services": together(services)}


def _named(topic: str, one: Progress) -> Progress:
    """With the topic where table services name something of its table."""
    services = one.services
    if services is None or not (services.pins or services.damage):
        return one
    pins = tuple(pin.model_copy(update={"by": f"topic {topic}: {pin.by}"}) for pin in services.pins)
    damage = tuple(each.model_copy(update={"file": f"topic {topic}: {each.file}"}) for each in services.damage)
    return replace(one, services=replace(services, pins=pins, damage=damage))


def _phase(own: Progress, each: Sequence[Progress], *, has_looked: bool) -> Phase:
    if own.phase in {Phase.STOPPING, Phase.STOPPED, Phase.FAILED, Phase.WAITING}:
        return own.phase
    phases = {one.phase for one in each}
    for phase in (Phase.COMMITTING, Phase.RUNNING, Phase.IDLE):
        if phase in phases:
            return phase
    return Phase.RUNNING if has_looked else Phase.STARTING
