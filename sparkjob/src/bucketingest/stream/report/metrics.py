"""The job's metrics for Prometheus: totals and ages read off the board at each scrape, durations as histograms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from bucketingest.index.state.summary import StateSummary
from bucketingest.services.compaction.propose import LogBacklog
from bucketingest.services.state import ServicesState
from bucketingest.spec.job_report import FilesReport, SourceReport, TableReport, TablesReport
from bucketingest.stream.report.progress import Phase, Progress
from bucketingest.stream.report.targets import LIMITS, Targets

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
LABELS: Final = ("namespace", "name", "pipeline")
Offsets: TypeAlias = Mapping[tuple[str, int], tuple[int, int]]
"""(topic, partition) → (next offset to commit, end)."""
_BUCKET: Final = (*LABELS, "bucket")
_PARTITION: Final = (*LABELS, "topic", "partition")
_LATENCY_BUCKETS: Final = (0.25, 0.5, 1, 2.5, 5, 10, 15, 20, 30, 45, 60, 90, 120, 300, 600, 1800)
PARTITIONS_MAX: Final = 256
"""Kafka partitions that have their own series; with more partitions, each topic has its sums."""
_BATCH_BUCKETS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800)


def _services(now: Progress) -> ServicesState:
    return now.services or ServicesState()


def _of_state(figure: Callable[[Progress, StateSummary], float]) -> Callable[[Progress], float | None]:
    """None with a bucket index."""
    return lambda now: None if now.state is None else figure(now, now.state)


def _of_source(figure: Callable[[SourceReport], float | None]) -> Callable[[Progress], float | None]:
    """None for other sources than Kafka, and before the first look."""
    return lambda now: None if now.source is None else figure(now.source)


def _of_files(figure: Callable[[FilesReport], float]) -> Callable[[Progress], float | None]:
    """None for other sources, and before the first listing."""
    return lambda now: None if now.files is None else figure(now.files)


def _of_tables(figure: Callable[[TablesReport], float]) -> Callable[[Progress], float | None]:
    """None for a resource with one table."""
    return lambda now: None if now.tables is None else figure(now.tables)


def _small_groups(now: Progress) -> float | None:
    small = _services(now).small_groups
    return None if small is None else small.groups


def _backlog(now: Progress) -> LogBacklog:
    return _services(now).backlog or LogBacklog()


# None: not known, or not the case; the series is then left out.
_TOTALS: Final[tuple[tuple[str, str, Callable[[Progress], float | None]], ...]] = (
    ("batches", "Micro-batches that ended.", lambda now: now.batches),
    ("commits", "Instants completed.", lambda now: now.commits),
    ("rows", "Rows received, deletes and dead letters included, committed or not.", lambda now: now.rows),
    ("deletes", "Keys deleted.", lambda now: now.deletes),
    ("dead_letters", "Rows that went to the dead-letter table.", lambda now: now.rejected),
    ("written_bytes", "Size of the data files written.", lambda now: now.size_bytes),
    ("rollbacks", "Instants rolled back after their micro-batch started.", lambda now: now.rollbacks),
    ("position_losses", "How often the table was rolled back behind this process.", lambda now: now.position_losses),
    ("compactions", "Compactions of the table that the job completed.", lambda now: _services(now).compactions),
    ("cleaned_files", "Superseded files that cleans deleted.", lambda now: _services(now).cleaned_files),
    ("archived_instants", "Instants moved to the history.", lambda now: _services(now).archived_instants),
    ("service_failures", "Steps of table services that failed.", lambda now: _services(now).failures),
    (
        "catalog_failures",
        "Tries to bring a catalog up to date that failed.",
        lambda now: sum(each.failures for each in now.catalogs) if now.catalogs else None,
    ),
    ("inserts", "Rows of keys that the index's state did not know.", _of_state(lambda now, _: now.inserts)),
    ("unknown_deletes", "Deletes of keys that it did not know.", _of_state(lambda now, _: now.dropped)),
    ("moved_keys", "Keys that moved to another partition.", _of_state(lambda now, _: now.moved)),
    ("older_rows", "Rows older than that of their key elsewhere.", _of_state(lambda now, _: now.older)),
    ("state_loaded_keys", "Keys read from the table's files.", _of_state(lambda _, state: state.loaded_keys)),
    ("lock_wait_seconds", "Waited for the table's lock, which other writers held.", lambda now: now.lock_wait),
    ("lease_wait_seconds", "Waited for the table's lease, which another job held.", lambda now: now.lease_wait),
)
_GAUGES: Final[tuple[tuple[str, str, Callable[[Progress], float | None]], ...]] = (
    ("lag_offsets", "Kafka offsets that are not committed.", lambda now: now.lag_offsets),
    ("lag_seconds", "Seconds since input that is not committed was first seen.", lambda now: now.lag_seconds),
    ("source_answers", "1 if Kafka answered the last look, else 0.", _of_source(lambda source: source.answers)),
    (
        "source_unanswered_seconds",
        "Since the first look that Kafka did not answer; 0 while it does.",
        _of_source(lambda source: source.unanswered_seconds),
    ),
    (
        "open_transaction_seconds",
        "For how long an open transaction has kept rows back; 0 without one.",
        _of_source(lambda source: source.open_transaction_seconds),
    ),
    (
        "transaction_wait_seconds",
        "For how long messages have waited for the end of a transaction of the database; 0 without one.",
        lambda now: now.transaction_wait,
    ),
    ("tables", "Tables of the resource.", _of_tables(lambda tables: tables.known)),
    ("tables_parked", "Tables that an error keeps from being written.", _of_tables(lambda tables: tables.parked)),
    ("tables_late", "Tables later than health.maxCommitLag.", _of_tables(lambda tables: tables.late)),
    ("tables_gone", "Tables whose topic Kafka has no more.", _of_tables(lambda tables: tables.gone)),
    ("inflight_age_seconds", "Age of the open instant; 0 without one.", lambda now: now.inflight_age or 0.0),
    (
        "last_commit_timestamp_seconds",
        "Unix time of the last commit of this process; 0 before the first.",
        lambda now: 0.0 if now.last_commit_at is None else now.last_commit_at.timestamp(),
    ),
    (
        "last_report_timestamp_seconds",
        "Unix time at which the query last made progress; 0 before the first.",
        lambda now: 0.0 if now.last_report_at is None else now.last_report_at.timestamp(),
    ),
    ("idle", "1 if Spark has looked and the source has nothing new.", lambda now: float(now.idle)),
    ("skew_ratio", "Rows of the busiest write task by the mean of all, last micro-batch.", lambda now: now.skew),
    ("rows_per_second", "Rows per second over the last micro-batches.", lambda now: now.rows_per_second),
    ("running_seconds", "Time since the job started.", lambda now: now.running_for),
    ("epoch", "Number of the attempt among all of the pipeline; 0 before its claim.", lambda now: now.epoch or 0),
    ("log_files", "Log files that no compaction has merged, as of the last look.", lambda now: _backlog(now).log_files),
    ("log_bytes", "Their bytes.", lambda now: _backlog(now).size),
    ("small_groups", "Small file groups that may be merged, as of the last look.", _small_groups),
    ("oldest_log_seconds", "Age of the oldest of them; 0 without one.", lambda now: now.oldest_log_age or 0.0),
    ("compaction_seconds", "Age of the pending compaction; 0 without one.", lambda now: now.compacting_for or 0.0),
    (
        "clean_pinned_seconds",
        "For how long something has held cleans; 0: nothing does.",
        lambda now: _services(now).pinned_for("clean"),
    ),
    (
        "archive_pinned_seconds",
        "For how long something has held the archive; 0: nothing does.",
        lambda now: _services(now).pinned_for("archive"),
    ),
    ("damaged_files", "Data files that commits name, gone or too short.", lambda now: len(_services(now).damage)),
    (
        "changed_files",
        "Files that changed after they were read, as of the last listing.",
        _of_files(lambda files: files.changed_files),
    ),
    (
        "unknown_columns",
        "Columns of files that the schema lacks, since the start.",
        _of_files(lambda files: files.unknown_columns),
    ),
    (
        "refused_schemas",
        "Schemas of a registry all of whose messages are dead letters, since the start of the process.",
        lambda now: None if now.schemas is None else now.schemas.refused_schemas,
    ),
    (
        "column_growths",
        "How often columns became more, or wider, with schemas of a registry since the start of the process.",
        lambda now: None if now.schemas is None else now.schemas.growths,
    ),
    (
        "catalog_behind_seconds",
        "Age of the oldest commit of which a catalog may lack a partition, column or base file; 0 if none does.",
        lambda now: now.catalog_behind,
    ),
    ("buffer_bytes", "The most that a write task held in buffers, last micro-batch.", lambda now: now.buffer_bytes),
    ("state_keys", "Entries of the index's state.", _of_state(lambda _, state: state.keys)),
    ("state_bytes", "Bytes of its files, mapped by each executor.", _of_state(lambda _, state: state.size_bytes)),
    ("state_runs", "Its files.", _of_state(lambda _, state: state.runs)),
    ("state_file_groups", "File groups whose keys are in it.", _of_state(lambda _, state: state.file_groups)),
    (
        "state_unloaded_partitions",
        "Partitions whose keys no row has needed.",
        _of_state(lambda _, state: state.unloaded_partitions),
    ),
    (
        "state_new_keys_in_logs",
        "1 if new keys go into log files, where Hudi's SIMPLE and BLOOM indexes do not look.",
        _of_state(lambda _, state: state.new_keys_in_logs),
    ),
    ("executors", "Executors registered with the driver; 0 in a local session.", lambda now: now.executors),
    ("executors_wanted", "Executors that the job asks for, with maxInstances.", lambda now: now.executors_wanted),
)


# Of each table of many, of which there are at most a thousand.
_OF_TABLE: Final[
    tuple[tuple[str, str, type[CounterMetricFamily | GaugeMetricFamily], Callable[[TableReport], float | None]], ...]
] = (
    (
        "table_parked",
        "1 if an error keeps it from being written.",
        GaugeMetricFamily,
        lambda each: each.state == "parked",
    ),
    (
        "table_lag_seconds",
        "As lag_seconds; absent while it is parked.",
        GaugeMetricFamily,
        lambda each: each.lag.seconds,
    ),
    ("table_rows", "Rows received, as rows.", CounterMetricFamily, lambda each: each.rows),
    ("table_commits", "Instants completed.", CounterMetricFamily, lambda each: each.commits),
)


class JobMetrics:
    """One job's registry. Give it to the board as an observer, and the board's `snapshot` to `watch`."""

    def __init__(
        self, *, namespace: str, name: str, pipeline: str, version: str = "", targets: Targets | None = None
    ) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._targets = targets or Targets()
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

        def counter(metric: str, text: str) -> Counter:
            every = Counter(metric, text, LABELS, registry=self._registry)
            return every.labels(*self._labels)

        self._slo_commits = counter("bucketingest_slo_commits", "Commits that slo.commitLatency applies to.")
        self._slo_good = counter("bucketingest_slo_commits_good", "Of these, completed within slo.commitLatency.")

    def watch(
        self,
        snapshot: Callable[[], Progress],
        offsets: Callable[[], Offsets] = dict,
        tables: Callable[[], Sequence[TableReport]] = tuple,
    ) -> None:
        """Read everything else from here at each scrape. `offsets`: see `ProgressBoard.offsets`; `tables`: of many."""
        board = _BoardCollector(snapshot, offsets, tables, self._labels, self._version, self._targets)
        self._registry.register(board)

    def batch_took(self, seconds: float) -> None:
        """A micro-batch was written."""
        self._batch.observe(seconds)

    def commit_took(self, latency_seconds: float, commit_seconds: float) -> None:
        """An instant was completed."""
        self._latency.observe(latency_seconds)
        self._slo_commits.inc()
        self._slo_good.inc(latency_seconds <= self._targets.commit_latency)
        self._commit.observe(commit_seconds)

    def exposition(self) -> bytes:
        """All metrics as Prometheus' text, format 0.0.4."""
        return generate_latest(self._registry)


@dataclass(frozen=True)
class _BoardCollector(Collector):
    snapshot: Callable[[], Progress]
    offsets: Callable[[], Offsets]
    tables: Callable[[], Sequence[TableReport]]
    labels: tuple[str, str, str]
    version: str
    targets: Targets

    def collect(self) -> Iterator[Metric]:
        """Every family, from one moment of the board."""
        now = self.snapshot()
        yield from self._job_metrics(now)
        for name, text, limit in LIMITS:
            yield self._gauge(name, text, limit(self.targets))
        yield from self._bucket_metrics(now)
        yield from self._partition_metrics()
        yield from self._table_metrics()

    def _job_metrics(self, now: Progress) -> Iterator[Metric]:
        build = InfoMetricFamily("bucketingest_job", "The job: version, verdict of its start.", labels=LABELS)
        build.add_metric(self.labels, {"version": self.version, "verdict": now.verdict or ""})
        yield build
        phases = GaugeMetricFamily("bucketingest_phase", "1 for the phase the job is in.", labels=(*LABELS, "phase"))
        for phase in Phase:
            phases.add_metric((*self.labels, phase.value), float(phase is now.phase))
        yield phases
        for name, text, total in _TOTALS:
            counter = CounterMetricFamily(f"bucketingest_{name}", text, labels=LABELS)
            if (value := total(now)) is not None:
                counter.add_metric(self.labels, value)
            yield counter
        for name, text, gauge in _GAUGES:
            yield self._gauge(name, text, gauge(now))

    def _bucket_metrics(self, now: Progress) -> Iterator[Metric]:
        rows = CounterMetricFamily(
            "bucketingest_bucket_rows", "Rows of a bucket: those with the most rows have a series.", labels=_BUCKET
        )
        for bucket, count in now.busiest if self.targets.buckets else ():
            rows.add_metric((*self.labels, str(bucket)), count)
        yield rows
        skew = now.busiest[0][1] * self.targets.buckets / now.bucket_rows if now.bucket_rows else None
        skew = skew if self.targets.buckets else None
        yield self._gauge("bucket_skew_ratio", "Rows of the busiest bucket by the mean of all buckets.", skew)

    def _partition_metrics(self) -> Iterator[Metric]:
        committed = GaugeMetricFamily(
            "bucketingest_committed_offset", "Kafka: the next offset to commit.", labels=_PARTITION
        )
        end = GaugeMetricFamily(
            "bucketingest_end_offset", "Kafka: end of the partition as Spark last saw it.", labels=_PARTITION
        )
        for (topic, partition), (done, last) in _by_partition_or_topic(self.offsets()).items():
            committed.add_metric((*self.labels, topic, partition), done)
            end.add_metric((*self.labels, topic, partition), last)
        yield committed
        yield end

    def _table_metrics(self) -> Iterator[Metric]:
        tables = self.tables()
        for name, text, kind, figure in _OF_TABLE:
            family = kind(f"bucketingest_{name}", text, labels=(*LABELS, "topic"))
            for each in tables:
                if (value := figure(each)) is not None:
                    family.add_metric((*self.labels, each.topic), value)
            yield family

    def _gauge(self, name: str, text: str, value: float | None) -> Metric:
        gauge = GaugeMetricFamily(f"bucketingest_{name}", text, labels=LABELS)
        if value is not None:
            gauge.add_metric(self.labels, value)
        return gauge


def _by_partition_or_topic(offsets: Offsets) -> dict[tuple[str, str], tuple[int, int]]:
    """By partition; with too many partitions by topic, and the partition is `all`."""
    if len(offsets) <= PARTITIONS_MAX:
        return {(topic, str(partition)): of for (topic, partition), of in sorted(offsets.items())}
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for (topic, _), (done, last) in offsets.items():
        before = sums.get((topic, "all"), (0, 0))
        sums[topic, "all"] = (before[0] + done, before[1] + last)
    return sums
