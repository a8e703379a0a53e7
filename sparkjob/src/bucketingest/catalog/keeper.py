"""Keeps one catalog up to date while a job runs: beside its commits, again and again, and never a reason to stop."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

from bucketingest.catalog.columns import hive_columns
from bucketingest.catalog.errors import CatalogError
from bucketingest.catalog.sync import Target
from bucketingest.catalog.table_state import TableState
from bucketingest.hudi.lock.clocks import forward_seconds, utc_now
from bucketingest.hudi.timeline.instant_time import parse_time
from bucketingest.redaction import redacted
from bucketingest.spec.job_report import CatalogReport
from bucketingest.storage.errors import NotFound
from bucketingest.storage.interface import Storage

log = logging.getLogger(__name__)

NOTICE_EVERY: Final = timedelta(seconds=0.5)
"""How soon a commit is noticed: that asks nobody."""
LOOK_EVERY: Final = timedelta(seconds=5)
"""Between two looks at the table, at least."""
COMPARE_EVERY: Final = timedelta(hours=1)
"""How often the whole list of partitions is compared: what other writers did, and what was missed once."""
_PAUSE_MAX: Final = timedelta(minutes=5)


def behind(states: tuple[CatalogReport, ...], now: datetime) -> float | None:
    """Seconds for which one of the catalogs has been behind, the longest; 0 if none is, None without catalogs."""
    since = [each.behind_since for each in states if each.behind_since is not None]
    return max(0.0, (now - min(since)).total_seconds()) if since else 0.0 if states else None


def worst_of(tables: Sequence[Sequence[CatalogReport]]) -> tuple[CatalogReport, ...]:
    """For each catalog the state of the table that needs it most: one that failed, else one that has been behind for
    longest; with the failures of all. Pure.
    """
    return tuple(
        min(states, key=_need).model_copy(update={"failures": sum(each.failures for each in states)})
        for states in zip(*filter(None, tables), strict=False)
    )


def _need(state: CatalogReport) -> tuple[bool, float]:
    since = state.behind_since
    return state.problem is None, float("inf") if since is None else since.timestamp()


class CatalogKeeper:
    """One table in one catalog of a running job. `step` is one look, and due now and then.

    `commits`: changes when the job has committed, or a table service of it. Until then, and until the whole is
    compared, storage is not asked. `forward`: seconds by a clock that cannot be set.
    """

    def __init__(
        self,
        storage: Storage,
        target: Target,
        report: Callable[[CatalogReport], None],
        commits: Callable[[], object],
        clock: Callable[[], datetime] = utc_now,
        *,
        forward: Callable[[], float] = forward_seconds,
    ) -> None:
        self._storage = storage
        self._target = target
        self._report = report
        self._commits = commits
        self._seen: object = None
        self._clock = clock
        self._forward = forward
        self._up_to_date_at = float("-inf")
        self._state = CatalogReport(catalog=target.label, behind_since=clock())
        self._known: set[str] = set()
        self._columns: object = None
        self._synced_to = ""
        self._compare_at = clock()
        self._pause = LOOK_EVERY
        self._stepped_at = float("-inf")

    def lets_clean(self, superseded_at: float) -> bool:
        """Whether a clean may delete files that were superseded until this moment, by the same clock as `forward`.

        Not after a look that failed: another writer may have superseded files later, which no process here knows.
        """
        return not self._target.names_files or (self._state.problem is None and self._up_to_date_at > superseded_at)

    @property
    def is_due(self) -> bool:
        """Whether it is time for the next step."""
        return self._forward() - self._stepped_at >= self._pause.total_seconds()

    def show(self) -> None:
        """Report how far the catalog is."""
        self._report(self._state)

    def step(self) -> None:
        """Look at the table, and register what is new. Raises nothing: what fails is reported, and tried again."""
        try:
            self._look()
        except Exception as error:  # noqa: BLE001 - a defect here must not end the ingestion
            self._failed(error)
        self._stepped_at = self._forward()

    def _look(self) -> None:
        began, commits = self._forward(), self._commits()
        whole = self._clock() >= self._compare_at
        if commits == self._seen and not whole:
            self._up_to_date_at, self._pause = began, NOTICE_EVERY
            return
        state = TableState.read(self._storage)
        if state is None:  # the job's first commit is noticed; another writer's is found by the next look
            self._seen, self._compare_at, self._pause = commits, self._clock() + LOOK_EVERY, NOTICE_EVERY
            return
        new = tuple(each for each in state.commits if (each.completion_time or "") > self._synced_to)
        if new and self._state.behind_since is None:
            self._state = self._state.model_copy(update={"behind_since": parse_time(new[0].completion_time or "")})
        columns = hive_columns(state.facts.schema)
        paths: set[str] | None = None
        if not whole:
            try:
                paths = self._target.touched(self._storage, new)
            except NotFound:  # archived meanwhile
                paths = None
        if paths is not None and not self._target.names_files:  # a partition that is known stays as it is
            paths -= self._known
        if paths is None or paths or columns != self._columns:
            done = self._target.sync(self._storage, state, paths=paths)
            log.info("catalog is up to date", extra={"catalog": self._target.label, "changes": str(done)})
        self._known |= paths or set()
        self._seen = commits
        self._columns, self._synced_to = columns, state.commits[-1].completion_time or ""
        if whole:
            self._compare_at = self._clock() + COMPARE_EVERY
        self._pause = LOOK_EVERY
        self._up_to_date_at = began
        self._state = self._state.model_copy(update={"behind_since": None, "problem": None})
        self._report(self._state)

    def _failed(self, error: Exception) -> None:
        problem = redacted(str(error) if isinstance(error, CatalogError) else f"{type(error).__name__}: {error}")
        self._state = self._state.model_copy(update={"failures": self._state.failures + 1, "problem": problem})
        self._pause = min(max(self._pause, LOOK_EVERY) * 2, _PAUSE_MAX)
        extra = {"catalog": self._target.label, "reason": problem, "again_in": str(self._pause)}
        log.warning("catalog is not up to date; ingestion goes on", extra=extra)
        self._report(self._state)
