"""Metrics of each resource, made from what is known when somebody asks: right at once, and gone with the resource."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Final, get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from bucketingest.spec.status import Phase
from bucketingest_operator.counts import LATENCY_BUCKETS
from bucketingest_operator.inventory import Inventory
from bucketingest_operator.observation import Resource
from bucketingest_operator.passes import Memory
from bucketingest_operator.progress_client import Talk
from bucketingest_operator.status import CONDITIONS

PHASES: Final[tuple[str, ...]] = get_args(Phase)
_WHO: Final = ("namespace", "name")
_TRUTH: Final = {"True": 1.0, "False": 0.0}
_RESTING: Final = frozenset({"Suspended", "Completed", "Idle"})


class ResourceMetrics(Collector):
    """Collects metrics of all resources.

    Args:
        inventory: All resources.
        memory: What is kept of one, by its UID.
        leads: Only the leader tells: two operators would tell everything twice.
    """

    def __init__(self, inventory: Inventory, memory: Callable[[str], Memory | None], leads: Callable[[], bool]) -> None:
        self._inventory = inventory
        self._memory = memory
        self._leads = leads

    def describe(self) -> list[Metric]:
        """Nothing: the names are known only when they are collected."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All metrics of all resources."""
        families = _Families()
        if self._leads():
            now, clock = datetime.now(UTC), time.monotonic()
            for resource in self._inventory:
                families.add(resource, self._memory(resource.uid) or Memory(), now, clock)
        yield from families.all()


class _Families:
    """Metric families while they are filled."""

    def __init__(self) -> None:
        gauge, counter = GaugeMetricFamily, CounterMetricFamily
        self.info = gauge("bucketingest_resource_info", "1, with the phase as a label.", labels=(*_WHO, "phase"))
        self.phase = gauge(
            "bucketingest_resource_phase", "1 for the phase that it is in, 0 for the others.", labels=(*_WHO, "phase")
        )
        self.condition = gauge(
            "bucketingest_resource_condition", "1 True, 0 False, -1 Unknown.", labels=(*_WHO, "condition")
        )
        self.restarts = counter(
            "bucketingest_restarts", "Attempts that ended, but for deletions and suspensions.", labels=(*_WHO, "class")
        )
        self.rollbacks = counter("bucketingest_rollback_jobs", "Rollback Jobs that ended.", labels=(*_WHO, "result"))
        self.latency = HistogramMetricFamily(
            "bucketingest_observed_commit_latency_seconds",
            "From the request of an instant to its completion, of commits that the operator saw.",
            labels=_WHO,
        )
        self.plain = {
            name: (counter if name in _COUNTERS else gauge)(name, text, labels=_WHO) for name, text in _PLAIN.items()
        }

    def all(self) -> Iterator[Metric]:
        yield from (self.info, self.phase, self.condition, self.restarts, self.rollbacks, self.latency)
        yield from self.plain.values()

    def add(self, resource: Resource, memory: Memory, now: datetime, clock: float) -> None:
        """Add the metrics of one resource."""
        who, status, counts = (resource.namespace, resource.name), resource.status, memory.counts
        phase = status.phase or "Pending"
        self.info.add_metric((*who, phase), 1)
        for each in PHASES:
            self.phase.add_metric((*who, each), float(each == phase))
        truths = {each.type: _TRUTH.get(each.status, -1.0) for each in status.conditions or ()}
        for each in CONDITIONS:
            self.condition.add_metric((*who, each), truths.get(each, -1.0))
        for word, count in counts.restarts.items():
            self.restarts.add_metric((*who, word), count)
        for word, count in counts.rollbacks.items():
            self.rollbacks.add_metric((*who, word), count)
        total, buckets = 0, []
        for bound, count in zip([*map(str, LATENCY_BUCKETS), "+Inf"], counts.latency_buckets, strict=True):
            total += count
            buckets.append((bound, float(total)))
        self.latency.add_metric(who, buckets, counts.latency_sum)
        values: dict[str, float | None] = {
            "bucketingest_attempt": status.attempt or 0,
            "bucketingest_resource_rows": counts.rows,
            "bucketingest_resource_bytes": counts.bytes,
            "bucketingest_resource_dead_letters": counts.dead_letters,
            **_promises(resource),
            **_progress(resource, memory.talk, now, clock),
        }
        for name, value in values.items():
            if value is not None:
                self.plain[name].add_metric(who, value)


_PLAIN: Final = {
    "bucketingest_attempt": "Number of the newest attempt.",
    "bucketingest_commit_lag_seconds": "For how long input waits without a commit; 0 when idle or suspended.",
    "bucketingest_resource_inflight_age_seconds": "Age of the open instant; 0 without one.",
    "bucketingest_resource_last_commit_timestamp_seconds": "Unix time of the last commit; 0 before the first.",
    "bucketingest_resource_lag_offsets": "Offsets that are not committed; absent while not known.",
    "bucketingest_resource_skew_ratio": "Rows of the busiest write task by the mean; absent while not known.",
    "bucketingest_slo_commit_latency_seconds": "slo.commitLatency of the spec.",
    "bucketingest_slo_freshness_seconds": "slo.freshness of the spec; absent without one.",
    "bucketingest_resource_rows": "Rows received, deletes and dead letters included.",
    "bucketingest_resource_bytes": "Size of the data files written.",
    "bucketingest_resource_dead_letters": "Rows in the dead-letter table.",
}
_COUNTERS: Final = frozenset(
    {"bucketingest_resource_rows", "bucketingest_resource_bytes", "bucketingest_resource_dead_letters"}
)


def _promises(resource: Resource) -> dict[str, float | None]:
    if resource.wanted is None:
        return {}
    slo = resource.wanted.spec.slo
    return {
        "bucketingest_slo_commit_latency_seconds": slo.commit_latency.total_seconds(),
        "bucketingest_slo_freshness_seconds": None if slo.freshness is None else slo.freshness.total_seconds(),
    }


def _progress(resource: Resource, talk: Talk | None, now: datetime, clock: float) -> dict[str, float | None]:
    """What is known of commits and lag: from the driver while it answers, else from the status."""
    status = resource.status
    commit = status.last_commit
    values: dict[str, float | None] = {
        "bucketingest_resource_last_commit_timestamp_seconds": 0 if commit is None else commit.time.timestamp(),
        "bucketingest_resource_lag_offsets": None if status.lag is None else status.lag.offsets,
    }
    report = talk.report if talk is not None and talk.silent_since is None else None
    if report is None or talk is None:
        inflight = status.inflight
        values["bucketingest_resource_inflight_age_seconds"] = (
            0 if inflight is None else max(0.0, (now - inflight.since).total_seconds())
        )
        # Nobody knows whether input waits. Somebody may: it must not look well.
        since = resource.created_at if commit is None else commit.time
        resting = status.phase in _RESTING
        values["bucketingest_commit_lag_seconds"] = 0 if resting else max(0.0, (now - since).total_seconds())
        return values
    old = max(0.0, clock - talk.read_at)
    waits = not report.idle and (report.lag.seconds or report.lag.offsets)
    if report.last_commit is not None:
        # Input that came just now, after a quiet night, has not waited since the evening.
        waiting = report.lag.seconds
        age = report.last_commit.age_seconds
        without = age if waiting is None else min(age, waiting)
    else:
        # What drivers before it did not commit waits on.
        without = report.running_seconds if commit is None else max(0.0, (now - commit.time).total_seconds())
    values["bucketingest_commit_lag_seconds"] = without + old if waits else 0
    values["bucketingest_resource_inflight_age_seconds"] = (
        0 if report.inflight is None else report.inflight.age_seconds + old
    )
    values["bucketingest_resource_lag_offsets"] = report.lag.offsets
    values["bucketingest_resource_skew_ratio"] = report.skew
    if report.last_commit is not None:
        values["bucketingest_resource_last_commit_timestamp_seconds"] = report.last_commit.at.timestamp()
    return values
