"""Counters of one resource: restarts, rollbacks, and the rows and commits of all its drivers."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final

from bucketingest.spec.job_report import ProgressReport
from bucketingest.spec.status import Attempt, Condition, Status
from bucketingest_operator.decide.current_attempt import RESTART_ASKED
from bucketingest_operator.decide.failures import Failure
from bucketingest_operator.decide.status import TIMELINE_CLEAN
from bucketingest_operator.decide.upgrade.probation import SPEC_CHANGED, SPEC_NOT_PROVEN

RESTART_CLASSES: Final = (*(each.value for each in Failure), RESTART_ASKED, SPEC_CHANGED, SPEC_NOT_PROVEN)
LATENCY_BUCKETS: Final = (1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 45.0, 60.0, 90.0, 120.0, 300.0, 600.0)
_ROLLBACKS: Final = {"RolledBack": "succeeded", "RollbackFailed": "failed"}


@dataclass(slots=True)
class Counts:
    """Counters since this operator became leader, or since the resource was created."""

    restarts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RESTART_CLASSES, 0))
    rollbacks: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_ROLLBACKS.values(), 0))
    rows: int = 0
    bytes: int = 0
    dead_letters: int = 0
    errors: int = 0
    """Passes over the resource that failed."""
    latency_buckets: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BUCKETS) + 1))
    latency_sum: float = 0.0
    _pod: str = ""
    _report: ProgressReport | None = None
    _instant: str | None = None

    def note_status(self, before: Status, after: Status) -> None:
        """Count what is new in a status that was just written."""
        ended = {each.number for each in before.attempts or () if each.ended_at is not None}
        for attempt in after.attempts or ():
            if attempt.ended_at is not None and attempt.number not in ended and _counts(attempt):
                self.restarts[attempt.outcome or ""] += 1
        was, now = _clean(before), _clean(after)
        if now is not None and now.reason in _ROLLBACKS and (was is None or was.reason != now.reason):
            self.rollbacks[_ROLLBACKS[now.reason]] += 1

    def note_report(self, pod: str, report: ProgressReport, status: Status, *, from_its_start: bool) -> None:
        """Count what a driver has done since its last report. The totals of another pod start at zero; the last commit
        of the status is already counted. `from_its_start`: the pod is younger than this process, so all of its first
        report is new.
        """
        before = self._report if pod == self._pod else None
        if before is not None or from_its_start:
            self.rows += max(0, report.rows - (before.rows if before else 0))
            self.bytes += max(0, report.bytes - (before.bytes if before else 0))
            self.dead_letters += max(0, report.dead_letters - (before.dead_letters if before else 0))
        self._pod, self._report = pod, report
        commit = report.last_commit
        if commit is None:
            return
        known = self._instant or (status.last_commit.instant if status.last_commit is not None else None)
        self._instant = commit.instant
        if commit.instant != known:
            self.latency_buckets[bisect_left(LATENCY_BUCKETS, commit.latency_seconds)] += 1
            self.latency_sum += commit.latency_seconds


def _counts(attempt: Attempt) -> bool:
    return attempt.outcome in RESTART_CLASSES


def _clean(status: Status) -> Condition | None:
    return next((each for each in status.conditions or () if each.type == TIMELINE_CLEAN), None)
