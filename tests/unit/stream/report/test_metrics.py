"""What Prometheus scrapes: parsed back from the text."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from bucketingest.index.state.summary import StateSummary
from bucketingest.services.clustering.propose import SmallGroups
from bucketingest.services.state import ServicesState
from bucketingest.spec.job_report import LagReport, TableReport
from bucketingest.spec.model import BucketIngest
from bucketingest.stream.report.metrics import PARTITIONS_MAX, JobMetrics, Offsets
from bucketingest.stream.report.progress import Phase, Progress
from bucketingest.stream.report.targets import Targets

EXAMPLES = Path(__file__).parents[4] / "examples"
LABELS = {"namespace": "shop", "name": "orders", "pipeline": "shop/orders"}


def scrape(metrics: JobMetrics) -> dict[tuple[str, str], float]:
    """(name of the sample, its phase or upper bound or "") → value. Every sample must name its pipeline."""
    found = {}
    for family in text_string_to_metric_families(metrics.exposition().decode()):
        assert family.name.startswith("bucketingest_")
        assert family.documentation
        for sample in family.samples:
            assert LABELS.items() <= sample.labels.items()
            found[sample.name, sample.labels.get("phase") or sample.labels.get("le") or ""] = sample.value
    return found


def watching(progress: Progress, targets: Targets | None = None, offsets: Offsets | None = None) -> JobMetrics:
    metrics = JobMetrics(**LABELS, version="1.2", targets=targets)
    metrics.watch(lambda: progress, lambda: offsets or {})
    return metrics


def samples(metrics: JobMetrics, name: str, *labels: str) -> dict[tuple[str, ...], float]:
    """Values of one metric by the given labels."""
    families = text_string_to_metric_families(metrics.exposition().decode())
    found = [sample for family in families for sample in family.samples if sample.name == f"bucketingest_{name}"]
    return {tuple(sample.labels[label] for label in labels): sample.value for sample in found}


def test_at_the_start_everything_is_there_and_zero() -> None:
    found = scrape(watching(Progress(0.0)))
    for total in (
        "batches",
        "commits",
        "rows",
        "deletes",
        "dead_letters",
        "written_bytes",
        "rollbacks",
        "position_losses",
        "slo_commits",
        "slo_commits_good",
        "lock_wait_seconds",
        "lease_wait_seconds",
    ):
        assert found[f"bucketingest_{total}_total", ""] == 0
    for histogram in ("commit_latency_seconds", "commit_duration_seconds", "batch_duration_seconds"):
        assert found[f"bucketingest_{histogram}_count", ""] == 0
        assert found[f"bucketingest_{histogram}_bucket", "+Inf"] == 0
    assert found["bucketingest_last_commit_timestamp_seconds", ""] == 0
    assert found["bucketingest_inflight_age_seconds", ""] == 0
    assert found["bucketingest_phase", "starting"] == 1
    assert found["bucketingest_phase", "idle"] == 0


def test_what_is_not_known_has_no_sample() -> None:
    found = scrape(watching(Progress(0.0)))
    assert not {name for name, _ in found} & {
        "bucketingest_lag_offsets",
        "bucketingest_lag_seconds",
        "bucketingest_skew_ratio",
        "bucketingest_bucket_skew_ratio",
        "bucketingest_buffer_bytes",
        "bucketingest_executors",
        "bucketingest_small_groups",
    }


def test_figures_are_those_of_the_progress() -> None:
    at = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
    now = Progress(
        60.0,
        phase=Phase.COMMITTING,
        epoch=4,
        batches=9,
        commits=3,
        rows=1000,
        deletes=10,
        rejected=2,
        size_bytes=4096,
        skew=1.5,
        last_commit_at=at,
        inflight_age=12.5,
        lag_offsets=77,
        services=ServicesState(small_groups=SmallGroups(21, 2**20, 20)),
        lag_seconds=3.5,
        rollbacks=1,
        position_losses=2,
    )
    found = scrape(watching(now))
    expected = {
        "batches_total": 9,
        "commits_total": 3,
        "rows_total": 1000,
        "deletes_total": 10,
        "dead_letters_total": 2,
        "written_bytes_total": 4096,
        "rollbacks_total": 1,
        "position_losses_total": 2,
        "lag_offsets": 77,
        "small_groups": 21,
        "lag_seconds": 3.5,
        "skew_ratio": 1.5,
        "inflight_age_seconds": 12.5,
        "epoch": 4,
        "last_commit_timestamp_seconds": at.timestamp(),
    }
    assert {name: found[f"bucketingest_{name}", ""] for name in expected} == expected
    assert found["bucketingest_phase", "committing"] == 1


def test_only_an_index_with_a_state_has_figures_of_one() -> None:
    figures = {"state_keys", "state_bytes", "state_runs", "state_file_groups", "state_unloaded_partitions"}
    figures |= {"inserts_total", "unknown_deletes_total", "state_loaded_keys_total", "state_new_keys_in_logs"}
    names = {f"bucketingest_{name}" for name in figures}
    assert not {name for name, _ in scrape(watching(Progress(0.0)))} & names
    state = StateSummary(
        9, size_bytes=400, runs=2, file_groups=3, loaded_keys=5, unloaded_partitions=6, new_keys_in_logs=True
    )
    found = scrape(watching(Progress(0.0, state=state, inserts=4, dropped=1)))
    assert {name: value for (name, _), value in found.items() if name in names} == {
        "bucketingest_state_keys": 9,
        "bucketingest_state_bytes": 400,
        "bucketingest_state_runs": 2,
        "bucketingest_state_file_groups": 3,
        "bucketingest_state_unloaded_partitions": 6,
        "bucketingest_state_new_keys_in_logs": 1,
        "bucketingest_state_loaded_keys_total": 5,
        "bucketingest_inserts_total": 4,
        "bucketingest_unknown_deletes_total": 1,
    }


def test_durations_fall_into_their_buckets() -> None:
    metrics = watching(Progress(0.0))
    metrics.commit_took(29.0, 0.4)
    metrics.commit_took(31.0, 0.4)
    metrics.batch_took(2.0)
    found = scrape(metrics)
    assert found["bucketingest_commit_latency_seconds_bucket", "30.0"] == 1
    assert found["bucketingest_commit_latency_seconds_count", ""] == 2
    assert found["bucketingest_commit_latency_seconds_sum", ""] == pytest.approx(60.0)
    assert found["bucketingest_commit_duration_seconds_bucket", "0.5"] == 2
    assert found["bucketingest_batch_duration_seconds_bucket", "2.5"] == 1


def test_each_scrape_reads_again() -> None:
    now = [Progress(0.0)]
    metrics = JobMetrics(**LABELS, targets=None)
    metrics.watch(lambda: now[0])
    scrape(metrics)
    now[0] = replace(now[0], rows=5)
    assert scrape(metrics)["bucketingest_rows_total", ""] == 5


def test_a_commit_is_good_up_to_the_latency_that_the_resource_promises() -> None:
    metrics = watching(Progress(0.0), Targets(commit_latency=30.0))
    for latency in (29.0, 30.0, 30.5):
        metrics.commit_took(latency, 0.4)
    found = scrape(metrics)
    assert found["bucketingest_slo_commits_total", ""] == 3
    assert found["bucketingest_slo_commits_good_total", ""] == 2


def test_what_figures_are_compared_with_is_the_resources() -> None:
    document = yaml.safe_load((EXAMPLES / "rate-to-local.yaml").read_text())
    document["spec"] |= {
        "slo": {"commitLatency": "45s"},
        "health": {"maxCommitLag": "2m", "maxInflightAge": "3m"},
    }
    document["spec"]["table"]["memoryPerTask"] = "64Mi"
    document["spec"]["services"] = {"mode": "off"}
    targets = Targets.of(BucketIngest.from_document(document))
    assert targets == Targets(45.0, 120.0, 180.0, 64 * 1024**2, buckets=4, checkpoint_stays=True)
    document["spec"]["table"]["path"] = "s3://lake/rates"
    document["spec"]["checkpoint"] = {"path": "/var/lib/bucketingest/checkpoint"}
    assert not Targets.of(BucketIngest.from_document(document)).checkpoint_stays
    document["spec"] |= {"services": {}, "slo": {"readOptimizedFreshness": "5m"}}
    promised = scrape(watching(Progress(0.0), Targets.of(BucketIngest.from_document(document))))
    assert promised["bucketingest_read_optimized_limit_seconds", ""] == 300
    found = scrape(watching(Progress(0.0), targets))
    assert ("bucketingest_read_optimized_limit_seconds", "") not in found
    assert found["bucketingest_commit_lag_limit_seconds", ""] == 120
    assert found["bucketingest_inflight_age_limit_seconds", ""] == 180
    assert found["bucketingest_buffer_limit_bytes", ""] == 64 * 1024**2


def test_a_bucket_that_gets_everything_shows_as_many_times_the_mean_as_there_are_buckets() -> None:
    metrics = watching(Progress(0.0, busiest=((3, 500),), bucket_rows=500), Targets(buckets=8))
    assert samples(metrics, "bucket_rows_total", "bucket") == {("3",): 500}
    assert scrape(metrics)["bucketingest_bucket_skew_ratio", ""] == 8


def test_offsets_are_reported_by_partition() -> None:
    metrics = watching(Progress(0.0), offsets={("t", 0): (5, 9), ("t", 1): (7, 7)})
    assert samples(metrics, "committed_offset", "topic", "partition") == {("t", "0"): 5, ("t", "1"): 7}
    assert samples(metrics, "end_offset", "topic", "partition") == {("t", "0"): 9, ("t", "1"): 7}


def test_of_very_many_partitions_only_the_sums_are_reported() -> None:
    metrics = watching(Progress(0.0), offsets={("t", number): (1, 3) for number in range(PARTITIONS_MAX + 1)})
    assert samples(metrics, "end_offset", "topic", "partition") == {("t", "all"): 3 * (PARTITIONS_MAX + 1)}


def test_each_table_of_many_has_its_series_and_a_parked_one_has_no_lag() -> None:
    def table(topic: str, state: Literal["open", "parked"], seconds: float | None) -> TableReport:
        lag = LagReport(offsets=None, seconds=seconds)
        return TableReport(topic=topic, table=f"s3://lake/{topic}", state=state, lag=lag, rows=7, commits=2)

    metrics = JobMetrics(namespace="shop", name="orders", pipeline="shop/orders")
    tables = [table("shop.a", "open", 12.5), table("shop.b", "parked", None)]
    metrics.watch(lambda: Progress(0.0), tables=lambda: tables)

    assert samples(metrics, "table_lag_seconds", "topic") == {("shop.a",): 12.5}
    assert samples(metrics, "table_parked", "topic") == {("shop.a",): 0, ("shop.b",): 1}
    assert samples(metrics, "table_rows_total", "topic") == {("shop.a",): 7, ("shop.b",): 7}
    assert samples(metrics, "table_commits_total", "topic") == {("shop.a",): 2, ("shop.b",): 2}


def test_two_jobs_in_one_process_do_not_mix() -> None:
    first, second = watching(Progress(0.0)), watching(Progress(0.0))
    first.batch_took(1.0)
    assert scrape(second)["bucketingest_batch_duration_seconds_count", ""] == 0
