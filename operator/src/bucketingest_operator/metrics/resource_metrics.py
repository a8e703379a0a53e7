"""Metrics of each resource, computed at each scrape: correct from the start, and deleted with the resource."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, get_args

from bucketingest.spec.job_report import ProgressReport
from bucketingest.spec.status import Phase
from bucketingest_operator.counts import LATENCY_BUCKETS
from bucketingest_operator.decide.status import ALL_CONDITIONS, READY, input_waits_since
from bucketingest_operator.observe.inventory import Inventory
from bucketingest_operator.observe.progress_client import Talk
from bucketingest_operator.passes import Memory
from bucketingest_operator.resource import Resource

log = logging.getLogger(__name__)

PHASES: Final[tuple[str, ...]] = get_args(Phase)
_TRUTH: Final = {"True": 1, "False": 0}
_RESTING: Final = frozenset({"Suspended", "Completed"})
_BOUNDS: Final = (*map(str, LATENCY_BUCKETS), "+Inf")
_HISTOGRAM: Final = "bucketingest_observed_commit_latency_seconds"

Values = dict[str, float | None]


@dataclass(frozen=True, slots=True)
class Shown:
    """One resource at the moment of a scrape."""

    who: str
    """Its labels `namespace` and `name`. They need no escapes: Kubernetes allows no such characters."""
    resource: Resource
    memory: Memory
    values: Values

    @property
    def rests(self) -> bool:
        """Whether nothing of it counts on. Its counters at zero are left out: many of these make no large scrape."""
        return self.resource.status.phase in _RESTING


def _info(one: Shown) -> Iterator[str]:
    yield f'bucketingest_resource_info{{{one.who},phase="{_phase(one)}"}} 1\n'


def _phases(one: Shown) -> Iterator[str]:
    phase = _phase(one)
    for each in PHASES:
        yield f'bucketingest_resource_phase{{{one.who},phase="{each}"}} {int(each == phase)}\n'


def _conditions(one: Shown) -> Iterator[str]:
    truths = {each.type: _TRUTH.get(each.status, -1) for each in one.resource.status.conditions or ()}
    for each in truths if one.rests else ALL_CONDITIONS:
        yield f'bucketingest_resource_condition{{{one.who},condition="{each}"}} {truths.get(each, -1)}\n'


def _not_ready(one: Shown) -> Iterator[str]:
    for each in one.resource.status.conditions or ():
        if each.type == READY and each.status != "True":
            yield f'bucketingest_resource_not_ready{{{one.who},reason="{_escaped(each.reason)}"}} 1\n'


def _restarts(one: Shown) -> Iterator[str]:
    for word, count in one.memory.counts.restarts.items():
        yield f'bucketingest_restarts_total{{{one.who},class="{word}"}} {count}\n'


def _rollbacks(one: Shown) -> Iterator[str]:
    for word, count in one.memory.counts.rollbacks.items():
        yield f'bucketingest_rollback_jobs_total{{{one.who},result="{word}"}} {count}\n'


def _latency(one: Shown) -> Iterator[str]:
    counts, total = one.memory.counts, 0
    for bound, count in zip(_BOUNDS, counts.latency_buckets, strict=True):
        total += count
        yield f'{_HISTOGRAM}_bucket{{{one.who},le="{bound}"}} {total}\n'
    yield f"{_HISTOGRAM}_count{{{one.who}}} {total}\n"
    yield f"{_HISTOGRAM}_sum{{{one.who}}} {counts.latency_sum}\n"


_LABELLED: Final[tuple[tuple[str, str, str, Callable[[Shown], Iterator[str]]], ...]] = (
    ("bucketingest_resource_info", "gauge", "1, with the phase as a label.", _info),
    ("bucketingest_resource_phase", "gauge", "1 for the phase that it is in, 0 for the others.", _phases),
    ("bucketingest_resource_condition", "gauge", "1 True, 0 False, -1 Unknown.", _conditions),
    ("bucketingest_resource_not_ready", "gauge", "1, with the reason of Ready; absent while it is ready.", _not_ready),
    ("bucketingest_restarts_total", "counter", "Attempts that ended, without deletions and suspensions.", _restarts),
    ("bucketingest_rollback_jobs_total", "counter", "Rollback Jobs that ended.", _rollbacks),
    (_HISTOGRAM, "histogram", "From the request of an instant to its completion, of observed commits.", _latency),
)
_PLAIN: Final = (
    ("bucketingest_attempt", "gauge", "Number of the newest attempt."),
    ("bucketingest_commit_lag_seconds", "gauge", "Since the last commit, while input waits, or may; 0 if idle."),
    ("bucketingest_resource_inflight_age_seconds", "gauge", "Age of the open instant; 0 without one."),
    ("bucketingest_resource_last_commit_timestamp_seconds", "gauge", "Unix time of the last commit; 0 before it."),
    ("bucketingest_resource_lag_offsets", "gauge", "Offsets that are not committed; absent if not known."),
    (
        "bucketingest_resource_skew_ratio",
        "gauge",
        "Rows of the busiest write task divided by the mean; absent if not known.",
    ),
    ("bucketingest_resource_commit_lag_limit_seconds", "gauge", "health.maxCommitLag of the spec."),
    ("bucketingest_resource_inflight_age_limit_seconds", "gauge", "health.maxInflightAge of the spec."),
    (
        "bucketingest_resource_suspended_services_timestamp_seconds",
        "gauge",
        "Unix time of the last end of table services of a suspended resource; absent without one.",
    ),
    ("bucketingest_slo_commit_latency_seconds", "gauge", "slo.commitLatency of the spec."),
    ("bucketingest_slo_freshness_seconds", "gauge", "slo.freshness of the spec; absent without one."),
    ("bucketingest_resource_rows_total", "counter", "Rows received, deletes and dead letters included."),
    ("bucketingest_resource_bytes_total", "counter", "Size of the data files written."),
    ("bucketingest_resource_dead_letters_total", "counter", "Rows in the dead-letter table."),
    ("bucketingest_resource_errors_total", "counter", "Passes over the resource that failed."),
)


class ResourceMetrics:
    """Writes metrics of all resources in Prometheus' text format.

    A thousand resources have 70,000 lines: they are written directly as text, without an object for each. Who acts in a
    namespace reports (`acts_in`): two operators would report everything twice. `clocks`: the time, and the seconds of
    the clock by which answers of drivers are dated.
    """

    def __init__(
        self,
        inventory: Inventory,
        memory: Callable[[str], Memory | None],
        acts_in: Callable[[str], bool],
        clocks: Callable[[], tuple[datetime, float]] = lambda: (datetime.now(UTC), time.monotonic()),
    ) -> None:
        self._clocks = clocks
        self._inventory = inventory
        self._memory = memory
        self._acts_in = acts_in

    def text(self) -> bytearray:
        """All metrics of all resources. Made line by line: of thousands there are tens of megabytes."""
        made = bytearray()
        for line in self._lines():
            made += line.encode()
        return made

    def _lines(self) -> Iterator[str]:
        shown = self._shown()
        for name, kind, text, lines in _LABELLED:
            yield from _head(name, kind, text)
            for one in shown:
                found = lines(one)
                if one.rests and kind != "gauge":
                    found = iter(_unless_zero(tuple(found)))
                yield from found
        for name, kind, text in _PLAIN:
            yield from _head(name, kind, text)
            for one in shown:
                value = one.values.get(name)
                if value is not None and (value or kind == "gauge" or not one.rests):
                    yield f"{name}{{{one.who}}} {value}\n"

    def _shown(self) -> list[Shown]:
        now, clock = self._clocks()
        found = []
        for resource in self._inventory:
            if not self._acts_in(resource.namespace):
                continue
            memory = self._memory(resource.uid) or Memory()
            who = f'namespace="{resource.namespace}",name="{resource.name}"'
            try:
                values = _values(resource, memory, now, clock)
            except Exception as error:  # noqa: BLE001 - what one driver or status says hides no other resource
                values, memory.counts.errors = {}, memory.counts.errors + 1
                about = {"namespace": resource.namespace, "resource": resource.name}
                log.warning("metrics of a resource cannot be computed", extra={**about, "error": type(error).__name__})
            found.append(Shown(who, resource, memory, values))
        return found


def _unless_zero(lines: tuple[str, ...]) -> tuple[str, ...]:
    return () if all(line.endswith((" 0\n", " 0.0\n")) for line in lines) else lines


def _escaped(text: str) -> str:
    """The value of a label: a status is not written by the operator alone."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _head(name: str, kind: str, text: str) -> Iterable[str]:
    return f"# HELP {name} {text}\n", f"# TYPE {name} {kind}\n"


def _phase(one: Shown) -> str:
    return one.resource.status.phase or "Pending"


def _values(resource: Resource, memory: Memory, now: datetime, clock: float) -> Values:
    """Values of the metrics without further labels."""
    counts = memory.counts
    return {
        "bucketingest_attempt": resource.status.attempt or 0,
        "bucketingest_resource_rows_total": counts.rows,
        "bucketingest_resource_bytes_total": counts.bytes,
        "bucketingest_resource_dead_letters_total": counts.dead_letters,
        "bucketingest_resource_errors_total": counts.errors,
        "bucketingest_resource_suspended_services_timestamp_seconds": _suspended_run(resource),
        **_promises(resource),
        **_progress(resource, memory.talk, now, clock),
    }


def _suspended_run(resource: Resource) -> float | None:
    services = resource.status.services
    if services is None or services.suspended_run == "Running" or services.suspended_run_at is None:
        return None
    return services.suspended_run_at.timestamp()


def _promises(resource: Resource) -> Values:
    if resource.wanted is None:
        return {}
    slo, health = resource.wanted.spec.slo, resource.wanted.spec.health
    return {
        "bucketingest_resource_commit_lag_limit_seconds": health.max_commit_lag.total_seconds(),
        "bucketingest_resource_inflight_age_limit_seconds": health.max_inflight_age.total_seconds(),
        "bucketingest_slo_commit_latency_seconds": slo.commit_latency.total_seconds(),
        "bucketingest_slo_freshness_seconds": None if slo.freshness is None else slo.freshness.total_seconds(),
    }


def _progress(resource: Resource, talk: Talk | None, now: datetime, clock: float) -> Values:
    """Commits and lag: from the driver while it answers, else from the status."""
    report = talk.report if talk is not None and talk.silent_since is None else None
    old = 0.0 if talk is None or report is None else max(0.0, clock - talk.read_at)
    values: Values = {"bucketingest_commit_lag_seconds": _commit_lag(resource, report, now, old)}
    status = resource.status
    if report is None:
        commit, inflight = status.last_commit, status.inflight
        return values | {
            "bucketingest_resource_last_commit_timestamp_seconds": 0 if commit is None else commit.time.timestamp(),
            "bucketingest_resource_inflight_age_seconds": (
                0 if inflight is None else max(0.0, (now - inflight.since).total_seconds())
            ),
        }
    at = status.last_commit.time if status.last_commit is not None else None
    at = at if report.last_commit is None else report.last_commit.at
    return values | {
        "bucketingest_resource_last_commit_timestamp_seconds": 0 if at is None else at.timestamp(),
        "bucketingest_resource_inflight_age_seconds": (
            0 if report.inflight is None else report.inflight.age_seconds + old
        ),
        "bucketingest_resource_lag_offsets": report.lag.offsets,
        "bucketingest_resource_skew_ratio": report.skew,
    }


def _commit_lag(resource: Resource, report: ProgressReport | None, now: datetime, old: float) -> float:
    """For how long input waits without a commit. Where nobody knows whether it waits, it may, and this grows.

    Args:
        report: The driver's answer; None if none answers.
        old: Seconds since that answer.
    """
    status = resource.status
    if report is None and status.phase in _RESTING:
        return 0
    said_at = now - timedelta(seconds=old)
    since = input_waits_since(status, resource.created_at, report, said_at)
    if since is None:
        return 0
    last = report.last_commit if report is not None else None
    if last is not None:  # of a backlog that is being worked off the oldest row waits longer
        since = max(since, said_at - timedelta(seconds=last.age_seconds))
    elif status.last_commit is not None:
        since = max(since, status.last_commit.time)
    return max(0.0, (now - since).total_seconds())
