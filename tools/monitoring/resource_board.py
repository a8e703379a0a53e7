"""One resource: what is wrong with it."""

from __future__ import annotations

from typing import Final

from monitoring.fleet_board import RESOURCE_UID
from monitoring.model import Board, Panel, Query, Row
from monitoring.panel_parts import PHASE_WORDS, WHO, YES_NO, condition, of, over, phase_number, quantile
from monitoring.slo import GOOD, TOTAL
from monitoring.table_rows import INDEX, SERVICES, TABLES

_EITHER: Final = '__name__=~"bucketingest_resource_info|bucketingest_job_info"'
"""A job on one machine has no operator, but half of the panels still work."""


def _stat(title: str, description: str, expr: str, **more: object) -> Panel:
    return Panel(title, description, (Query(expr),), kind="stat", width=3, height=4, **more)  # type: ignore[arg-type]


def _quantiles(title: str, description: str, histogram: str, *more: Query) -> Panel:
    shares = tuple(Query(quantile(share, histogram, WHO), f"p{share * 100:.0f}") for share in (0.5, 0.95, 0.99))
    return Panel(title, description, (*shares, *more), unit="s")


NOW: Final = Row(
    "Now",
    (
        _stat("Phase", "The current phase.", phase_number(WHO), words=PHASE_WORDS),
        _stat("Ready", "Rows become visible in time.", condition("Ready", WHO), words=YES_NO),
        _stat(
            "Last commit",
            "Time since the last completed instant.",
            f"time() - (max(bucketingest_resource_last_commit_timestamp_seconds{{{WHO}}}) > 0)",
            unit="s",
        ),
        _stat(
            "No commit for", "While input waits; 0 if there is none.", of("bucketingest_commit_lag_seconds"), unit="s"
        ),
        _stat("Inflight for", "Age of the open instant.", of("bucketingest_resource_inflight_age_seconds"), unit="s"),
        _stat("Attempt", "Number of the newest attempt.", of("bucketingest_attempt")),
        _stat(
            "Restarts, 1 h",
            "Ends of attempts.",
            f"sum(increase(bucketingest_restarts_total{{{WHO}}}[1h])) or vector(0)",
            steps=((1, "orange"), (4, "red")),
        ),
        _stat(
            "Late commits, 1 h",
            "Share of commits that took longer than slo.commitLatency.",
            f"1 - sum(rate({GOOD}{{{WHO}}}[1h])) / sum(rate({TOTAL}{{{WHO}}}[1h]))",
            unit="percentunit",
            steps=((0.01, "orange"), (0.1, "red")),
        ),
        Panel(
            "Phase and conditions",
            "Phase and conditions over time.",
            (
                Query(phase_number(WHO), "phase"),
                Query(f"({condition('Stalled', WHO)} != bool 1) - 2", "not Stalled"),
                *(
                    Query(f"{condition(kind, WHO)} - 2", kind)
                    for kind in ("Ready", "CommitFresh", "CheckpointHealthy", "TimelineClean")
                ),
            ),
            kind="states",
            width=24,
            height=7,
            words={**PHASE_WORDS, "-1": "True", "-2": "False", "-3": "Unknown"},
        ),
    ),
)

COMMITS: Final = Row(
    "Commits",
    (
        _quantiles(
            "Commit latency",
            "From the request of an instant, with its first rows, to its completion.",
            "bucketingest_commit_latency_seconds",
            Query(of("bucketingest_slo_commit_latency_seconds"), "slo.commitLatency"),
        ),
        _quantiles(
            "Commit duration",
            "Decision and completed file, without the writing of rows.",
            "bucketingest_commit_duration_seconds",
        ),
        Panel(
            "Waiting input",
            "Age of the oldest input that is not committed, and time without a commit.",
            (
                Query(of("bucketingest_lag_seconds"), "oldest input"),
                Query(of("bucketingest_commit_lag_seconds"), "no commit for"),
                Query(of("bucketingest_commit_lag_limit_seconds"), "health.maxCommitLag"),
            ),
            unit="s",
        ),
        Panel(
            "Open instant",
            "Its age. Above the limit the operator rolls it back.",
            (
                Query(of("bucketingest_inflight_age_seconds"), "age"),
                Query(of("bucketingest_inflight_age_limit_seconds"), "health.maxInflightAge"),
            ),
            unit="s",
        ),
        Panel(
            "Commits",
            "Per minute: all, and those in time.",
            (
                Query(f"sum(rate({TOTAL}{{{WHO}}}[$__rate_interval])) * 60", "all"),
                Query(f"sum(rate({GOOD}{{{WHO}}}[$__rate_interval])) * 60", "in time"),
            ),
        ),
        Panel(
            "Rolled back",
            "Instants written again, and commits that other writers rolled back.",
            (
                Query(f"sum(increase(bucketingest_rollbacks_total{{{WHO}}}[$__rate_interval]))", "written again"),
                Query(f"sum(increase(bucketingest_position_losses_total{{{WHO}}}[$__rate_interval]))", "by others"),
            ),
        ),
    ),
)

INPUT: Final = Row(
    "Input",
    (
        Panel(
            "Rows per second",
            "Rows received, keys deleted, dead letters.",
            tuple(
                Query(f"sum(rate(bucketingest_{each}_total{{{WHO}}}[$__rate_interval]))", each.replace("_", " "))
                for each in ("rows", "deletes", "dead_letters")
            ),
            unit="rps",
        ),
        Panel(
            "Bytes written",
            "Size of data files.",
            (Query(f"sum(rate(bucketingest_written_bytes_total{{{WHO}}}[$__rate_interval]))", "per second"),),
            unit="Bps",
        ),
        _quantiles("A micro-batch", "From its tasks' start to its end.", "bucketingest_batch_duration_seconds"),
        Panel(
            "Lag in offsets",
            "Kafka: offsets that are not committed, all partitions.",
            (Query(of("bucketingest_lag_offsets"), "offsets"),),
            needs="kafka",
        ),
        Panel(
            "Lag by partition",
            "Kafka: offsets of a partition that are not committed.",
            (
                Query(
                    f"max by (topic, partition) (bucketingest_end_offset{{{WHO}}} - "
                    f"bucketingest_committed_offset{{{WHO}}})",
                    "{{topic}} {{partition}}",
                ),
            ),
            needs="kafka",
        ),
        Panel(
            "Committed offsets",
            "Kafka: the next offset of each partition.",
            (Query(f"max by (topic, partition) (bucketingest_committed_offset{{{WHO}}})", "{{topic}} {{partition}}"),),
            needs="kafka",
        ),
    ),
)

WRITERS: Final = Row(
    "Writers",
    (
        Panel(
            "Skew",
            "Rows of the busiest bucket and of the busiest write task, divided by the mean. 1 is even.",
            (
                Query(of("bucketingest_bucket_skew_ratio"), "buckets, since the start"),
                Query(of("bucketingest_skew_ratio"), "tasks, last micro-batch"),
            ),
        ),
        Panel(
            "Rows by bucket",
            "The buckets with the most rows.",
            (
                Query(
                    f"sum by (bucket) (rate(bucketingest_bucket_rows_total{{{WHO}}}[$__rate_interval]))",
                    "bucket {{bucket}}",
                ),
            ),
            unit="rps",
            stacked=True,
        ),
        Panel(
            "Buffers of a write task",
            "The largest in the last micro-batch, and the budget.",
            (
                Query(of("bucketingest_buffer_bytes"), "held"),
                Query(of("bucketingest_buffer_limit_bytes"), "table.memoryPerTask"),
            ),
            unit="bytes",
        ),
        Panel(
            "Executors",
            "Registered with the driver; 0 in a local session.",
            (Query(of("bucketingest_executors"), "executors"),),
        ),
        Panel(
            "Waiting for other writers",
            "Share of the time spent waiting for the table's lock and its lease.",
            (
                Query(f"sum(rate(bucketingest_lock_wait_seconds_total{{{WHO}}}[$__rate_interval]))", "lock"),
                Query(f"sum(rate(bucketingest_lease_wait_seconds_total{{{WHO}}}[$__rate_interval]))", "lease"),
            ),
            unit="percentunit",
        ),
    ),
)

ATTEMPTS: Final = Row(
    "Attempts",
    (
        Panel(
            "Attempt and epoch",
            "Number of the attempt in the operator, and in the table.",
            (Query(of("bucketingest_attempt"), "attempt"), Query(of("bucketingest_epoch"), "epoch")),
        ),
        Panel(
            "Restarts by class",
            "Ends of attempts, by what ended them.",
            (Query(over("increase", "bucketingest_restarts_total", WHO, by="class"), "{{class}}"),),
            stacked=True,
        ),
        Panel(
            "Starts",
            "Whether table and checkpoint matched when the driver started.",
            (Query(f"max by (verdict) (bucketingest_job_info{{{WHO}}})", "{{verdict}}"),),
        ),
    ),
)

RESOURCE: Final = Board(
    RESOURCE_UID,
    "bucketingest: one resource",
    "One BucketIngest: its tables if it has many, commits, input, writers, table services, index, attempts.",
    {
        "namespace": f"label_values({{{_EITHER}}}, namespace)",
        "name": f'label_values({{{_EITHER}, namespace="$namespace"}}, name)',
        "topic": f"label_values(bucketingest_table_parked{{{WHO}}}, topic)",
    },
    (NOW, TABLES, COMMITS, INPUT, WRITERS, SERVICES, INDEX, ATTEMPTS),
    many_of=frozenset({"topic"}),
)
