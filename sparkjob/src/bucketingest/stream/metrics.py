"""The job's metrics for Prometheus: totals and ages read off the board at each scrape, durations as histograms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from bucketingest.stream.progress import Phase, Progress

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
LABELS: Final = ("namespace", "name", "pipeline")
_LATENCY_BUCKETS: Final = (0.25, 0.5, 1, 2.5, 5, 10, 15, 20, 30, 45, 60, 90, 120, 300, 600, 1800)
_BATCH_BUCKETS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800)

_TOTALS: Final[tuple[tuple[str, str, Callable[[Progress], float]], ...]] = (
    ("batches", "Micro-batches that ended.", lambda now: now.batches),
    ("commits", "Instants completed.", lambda now: now.commits),
    ("rows", "Rows received, deletes and dead letters included, committed or not.", lambda now: now.rows),
    ("deletes", "Keys deleted.", lambda now: now.deletes),
    ("dead_letters", "Rows that went to the dead-letter table.", lambda now: now.rejected),
    ("written_bytes", "Size of the data files written.", lambda now: now.size_bytes),
    ("rollbacks", "Instants taken back after their micro-batch had begun.", lambda now: now.rollbacks),
    ("position_losses", "How often the table went back behind this process.", lambda now: now.position_losses),
)
# None: not known, or not the case; the series is then left out.
_GAUGES: Final[tuple[tuple[str, str, Callable[[Progress], float | None]], ...]] = (
    ("lag_offsets", "Kafka offsets that are not committed.", lambda now: now.lag_offsets),
    ("lag_seconds", "Seconds since input that is not committed was first seen.", lambda now: now.lag_seconds),
    ("inflight_age_seconds", "Age of the open instant; 0 without one.", lambda now: now.inflight_age or 0.0),
    (
        "last_commit_timestamp_seconds",
        "Unix time of the last commit of this process; 0 before the first.",
        lambda now: 0.0 if now.last_commit_at is None else now.last_commit_at.timestamp(),
    ),
    (
        "last_report_timestamp_seconds",
        "Unix time at which the query was last seen to get on; 0 before the first.",
        lambda now: 0.0 if now.last_report_at is None else now.last_report_at.timestamp(),
    ),
    ("idle", "1 if Spark has looked and the source has nothing new.", lambda now: float(now.idle)),
    ("skew_ratio", "Rows of the busiest write task by the mean of all, last micro-batch.", lambda now: now.skew),
    ("rows_per_second", "Rows per second over the last micro-batches.", lambda now: now.rows_per_second),
    ("running_seconds", "Age of the process's job.", lambda now: now.running_for),
    ("epoch", "Number of the attempt among all of the pipeline; 0 before its claim.", lambda now: now.epoch or 0),
)


class JobMetrics:
    """One job's registry. Give it to the board as an observer, and the board's `snapshot` to `watch`."""

    def __init__(self, *, namespace: str, name: str, pipeline: str, version: str = "") -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._labels = (namespace, name, pipeline)
        self._version = version

        def histogram(metric: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            every = Histogram(metric, text, LABELS, buckets=buckets, registry=self._registry)
            return every.labels(*self._labels)

        self._latency = histogram(
            "bucketingest_commit_latency_seconds",
            "From the request of an instant, with its first rows, to its completion.",
            _LATENCY_BUCKETS,
        )
        self._commit = histogram(
            "bucketingest_commit_duration_seconds", "The commit itself: decision and completed file.", _LATENCY_BUCKETS
        )
        self._batch = histogram(
            "bucketingest_batch_duration_seconds", "A micro-batch, from its tasks' start to its end.", _BATCH_BUCKETS
        )

    def watch(self, snapshot: Callable[[], Progress]) -> None:
        """Read everything else from here at each scrape."""
        self._registry.register(_OfBoard(snapshot, self._labels, self._version))

    def batch_took(self, seconds: float) -> None:
        """A micro-batch was written."""
        self._batch.observe(seconds)

    def commit_took(self, latency_seconds: float, commit_seconds: float) -> None:
        """An instant was completed."""
        self._latency.observe(latency_seconds)
        self._commit.observe(commit_seconds)

    def exposition(self) -> bytes:
        """All metrics as Prometheus' text, format 0.0.4."""
        return generate_latest(self._registry)


class _OfBoard(Collector):
    def __init__(self, snapshot: Callable[[], Progress], labels: tuple[str, str, str], version: str) -> None:
        self._snapshot = snapshot
        self._labels = labels
        self._version = version

    def collect(self) -> Iterator[Metric]:
        now = self._snapshot()
        build = InfoMetricFamily("bucketingest_job", "The job: version, verdict of its start.", labels=LABELS)
        build.add_metric(self._labels, {"version": self._version, "verdict": now.verdict or ""})
        yield build
        phases = GaugeMetricFamily("bucketingest_phase", "1 for the phase the job is in.", labels=(*LABELS, "phase"))
        for phase in Phase:
            phases.add_metric((*self._labels, phase.value), float(phase is now.phase))
        yield phases
        for name, text, total in _TOTALS:
            counter = CounterMetricFamily(f"bucketingest_{name}", text, labels=LABELS)
            counter.add_metric(self._labels, total(now))
            yield counter
        for name, text, value in _GAUGES:
            gauge = GaugeMetricFamily(f"bucketingest_{name}", text, labels=LABELS)
            if (known := value(now)) is not None:
                gauge.add_metric(self._labels, known)
            yield gauge
