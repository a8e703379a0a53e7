"""The alerts. Each has a runbook page, and a rule test in which it fires and stays silent."""

from __future__ import annotations

from typing import Final

from monitoring.model import Alert, Severity
from monitoring.slo import FAST, SLOW, freshness_burns, latency_burns

_WHO: Final = "{{ $labels.namespace }}/{{ $labels.name }}"
_BY: Final = "by (namespace, name)"
_INFLIGHT: Final = (
    f'max {_BY} ({{__name__=~"bucketingest_resource_inflight_age_seconds|bucketingest_inflight_age_seconds"}})'
)


def _limit(name: str) -> str:
    """A limit of the resource: from the operator, also before its first driver; without one from its last driver."""
    job = f"max {_BY} (last_over_time(bucketingest_{name}[1d]))"
    return f"(max {_BY} (bucketingest_resource_{name}) or {job})"


_VERDICT: Final = 'max by (namespace, name, verdict) (bucketingest_job_info{verdict="%s"})'
_COMPACTION: Final = f'max {_BY} ({{__name__=~"bucketingest_oldest_log_seconds|bucketingest_compaction_seconds"}})'
"""A job that starts with a pending compaction does not look for log files before that has ended."""
PINNED_HOURS: Final = 6
"""The operator's condition has the same limit."""
_PINNED: Final = f'max {_BY} ({{__name__=~"bucketingest_clean_pinned_seconds|bucketingest_archive_pinned_seconds"}})'
_PLANNED: Final = "SpecChanged|SpecNotProven|RestartAsked|SecretGone|Suspended|Deleted|Completed|TableTaken|SpecInvalid"
"""Planned ends of attempts."""

PROMISES: Final = (
    Alert(
        "BucketIngestCommitLatencyFastBurn",
        Severity.CRITICAL,
        latency_burns(FAST, inline=False),
        "2m",
        f"{_WHO}: commits come later than slo.commitLatency",
        "Too many commits took longer than slo.commitLatency: they used 2 % of the error budget of 30 days in an hour, "
        "or 5 % in six hours. Rows become visible later than promised; none is lost.",
        latency_burns(FAST, inline=True),
    ),
    Alert(
        "BucketIngestCommitLatencySlowBurn",
        Severity.WARNING,
        latency_burns(SLOW, inline=False),
        "15m",
        f"{_WHO}: too many commits take longer than slo.commitLatency",
        "At this rate more than 1 % of the commits of 30 days take longer than slo.commitLatency: 10 % of the error "
        "budget is used within three days.",
        latency_burns(SLOW, inline=True),
    ),
    Alert(
        "BucketIngestFreshnessFastBurn",
        Severity.CRITICAL,
        freshness_burns(FAST, inline=False),
        "2m",
        f"{_WHO}: the table is older than slo.freshness",
        "Input waits, and the last commit was older than slo.freshness for too much of the last hour, or of the last "
        "six hours. Readers see old rows; none is lost.",
        freshness_burns(FAST, inline=True),
    ),
    Alert(
        "BucketIngestFreshnessSlowBurn",
        Severity.WARNING,
        freshness_burns(SLOW, inline=False),
        "15m",
        f"{_WHO}: the table is older than slo.freshness too often",
        "At this rate the table is older than slo.freshness for more than 1 % of 30 days.",
        freshness_burns(SLOW, inline=True),
    ),
)

HEALING: Final = (
    Alert(
        "BucketIngestStuckInflight",
        Severity.CRITICAL,
        f"{_INFLIGHT} > on (namespace, name) {_limit('inflight_age_limit_seconds')}",
        "2m",
        f"{_WHO}: an instant has been inflight for {{{{ $value | humanizeDuration }}}}",
        "The open instant is older than health.maxInflightAge, and the operator has not rolled it back: its rows are "
        "not visible, and it may block other writers of the table.",
    ),
    Alert(
        "BucketIngestCommitsLate",
        Severity.CRITICAL,
        f"max {_BY} (bucketingest_commit_lag_seconds) > on (namespace, name) "
        f"{_limit('commit_lag_limit_seconds')} unless on (namespace, name) "
        f'max {_BY} (bucketingest_resource_phase{{phase="Stalled"}}) == 1',
        "5m",
        f"{_WHO}: no commit for {{{{ $value | humanizeDuration }}}} while input waits",
        "Input waits, and the last commit is older than health.maxCommitLag. The operator has restarted the driver, or "
        "tries to, and that has not helped.",
    ),
    Alert(
        "BucketIngestStalled",
        Severity.CRITICAL,
        f'max {_BY} (bucketingest_resource_condition{{condition="Stalled"}}) == 1',
        "1m",
        f"{_WHO} is stalled: the operator waits for a person",
        "The operator has stopped trying: a restart would fail again, or too many attempts have failed. Until a person "
        "acts, nothing is ingested, or the driver continues with the previous spec.",
    ),
    Alert(
        "BucketIngestNotReady",
        Severity.WARNING,
        f'max {_BY} (bucketingest_resource_condition{{condition="Ready"}}) < 1 unless on (namespace, name) '
        f'max {_BY} (bucketingest_resource_phase{{phase=~"Suspended|Completed|Stalled"}}) == 1',
        "15m",
        f"{_WHO} has not been ready for 15 minutes",
        "It is neither suspended nor stalled, but no driver ingests: the pod or the executors do not start, or "
        "attempts fail repeatedly.",
    ),
    Alert(
        "BucketIngestSourceUnavailable",
        Severity.WARNING,
        f'max {_BY} (max_over_time(bucketingest_resource_not_ready{{reason="SourceUnavailable"}}[5m])) == 1',
        "5m",
        f"{_WHO}: Kafka does not answer",
        "The job asks on, and continues by itself when the brokers answer. Meanwhile nobody knows how many rows wait. "
        "No row is lost as long as the topic keeps them.",
    ),
    Alert(
        "BucketIngestSpecNotProven",
        Severity.WARNING,
        f'max {_BY} (bucketingest_resource_condition{{condition="Degraded"}}) == 1',
        "1m",
        f"{_WHO} runs its previous spec: the changed one failed",
        "A changed spec has not passed its preflight, or its driver made no commit in upgrade.probation, so the "
        "operator runs the last spec that committed. Rows are ingested, but not as the resource says.",
    ),
    Alert(
        "BucketIngestRestartStorm",
        Severity.WARNING,
        f'sum {_BY} (increase(bucketingest_restarts_total{{class!~"{_PLANNED}"}}[30m])) > 3.5',
        "0s",
        f"{_WHO}: {{{{ $value | humanize }}}} failed attempts in 30 minutes",
        "Attempts fail one after the other. During each start nothing is committed; after restart.maxFailures within "
        "restart.window the operator stops trying.",
    ),
    Alert(
        "BucketIngestRollbackFailed",
        Severity.WARNING,
        f'sum {_BY} (increase(bucketingest_rollback_jobs_total{{result="failed"}}[1h])) > 0.5',
        "0s",
        f"{_WHO}: a rollback Job has failed",
        "The instant of a stopped driver could not be rolled back. The next start tries again; until then it may block "
        "other writers of the table.",
    ),
    Alert(
        "BucketIngestCheckpointRebuilt",
        Severity.WARNING,
        f"(\n  {_VERDICT % 'rebuilt'} and on (namespace, name) max {_BY} (bucketingest_checkpoint_stays) == 1\n"
        f"  or\n  {_VERDICT % 'rewound'} unless on (namespace, name) "
        f'sum {_BY} (increase(bucketingest_rollback_jobs_total{{result="succeeded"}}[1h])) > 0.5\n)\n'
        f"and on (namespace, name) max {_BY} (bucketingest_running_seconds) < 1800",
        "0s",
        f"{_WHO} started with a checkpoint that did not match the table: {{{{ $labels.verdict }}}}",
        "rebuilt: Spark's checkpoint was lost or damaged and was rebuilt from the table. rewound: rows that were in "
        "the table, or in an instant that never completed, were ingested again. No row is lost or doubled, but find "
        "out why the checkpoint did not match.",
        labels=("namespace", "name", "verdict"),
    ),
)

TABLE: Final = (
    Alert(
        "BucketIngestTablesParked",
        Severity.CRITICAL,
        f"max {_BY} (bucketingest_tables_parked) > 0",
        "10m",
        f"{_WHO}: {{{{ $value | humanize }}}} of its tables are not written",
        "An error keeps tables of a resource with many from being written; each is tried again, and the others go on. "
        "Their rows stay in Kafka, for as long as it keeps them.",
    ),
    Alert(
        "BucketIngestTableLate",
        Severity.CRITICAL,
        "max by (namespace, name, topic) (bucketingest_table_lag_seconds) > on (namespace, name) group_left () "
        f"(max {_BY} (bucketingest_slo_freshness_seconds) or {_limit('commit_lag_limit_seconds')})",
        "5m",
        f"{_WHO}: the table of {{{{ $labels.topic }}}} lacks rows of {{{{ $value | humanizeDuration }}}} ago",
        "Input of one table of many has waited longer than slo.freshness, or without it health.maxCommitLag. The "
        "driver runs, and may commit to other tables. Readers see old rows; none is lost.",
        labels=("namespace", "name", "topic"),
    ),
    Alert(
        "BucketIngestCatalogLate",
        Severity.WARNING,
        f"max {_BY} (bucketingest_catalog_behind_seconds) > 900",
        "5m",
        f"{_WHO}: a catalog has been behind the table for {{{{ $value | humanizeDuration }}}}",
        "A catalog of spec.catalogs does not take new partitions, columns or base files, or does not have the table at "
        "all. Rows are committed, but engines that find the table there do not see all of them, and say nothing. With "
        "an Iceberg catalog cleans wait, too.",
    ),
    Alert(
        "BucketIngestCommitsRolledBack",
        Severity.WARNING,
        f"sum {_BY} (increase(bucketingest_position_losses_total[1h])) > 0.5",
        "0s",
        f"{_WHO}: another writer rolled back completed commits",
        "The rows were ingested again. The usual cause is a writer in Hudi's default single-writer mode on a table "
        "with several writers. Readers may have seen an older state of the table.",
    ),
    Alert(
        "BucketIngestLockContention",
        Severity.WARNING,
        f"(sum {_BY} (rate(bucketingest_lock_wait_seconds_total[15m])) > 0.1)\nor\n"
        f"(sum {_BY} (increase(bucketingest_lease_wait_seconds_total[15m])) > 60)\nor\n"
        f'(sum {_BY} (increase(bucketingest_restarts_total{{class="TableLocked"}}[30m])) > 1.5)',
        "10m",
        f"{_WHO} waits for a table that other writers hold",
        "It waits for the table's lock for more than a tenth of its time, or for the lease that another job holds. "
        "Commits are late because of that.",
    ),
    Alert(
        "BucketIngestBucketSkew",
        Severity.WARNING,
        f"max {_BY} (bucketingest_bucket_skew_ratio) > 4 and on (namespace, name) "
        f"sum {_BY} (rate(bucketingest_rows_total[30m])) > 100",
        "1h",
        f"{_WHO}: the busiest bucket gets {{{{ $value | humanize }}}} times its share of the rows",
        "One task writes most of the rows while the others wait: more executors do not help.",
    ),
    Alert(
        "BucketIngestDeadLetters",
        Severity.WARNING,
        f"sum {_BY} (increase(bucketingest_dead_letters_total[30m])) > 0.5",
        "0s",
        f"{_WHO}: {{{{ $value | humanize }}}} rows became dead letters in 30 minutes",
        "Rows that do not decode, or have no record key, are not in the table, but in the dead-letter table, with the "
        "reason.",
    ),
    Alert(
        "BucketIngestManyDeadLetters",
        Severity.CRITICAL,
        f"sum {_BY} (rate(bucketingest_dead_letters_total[15m])) "
        f"/ sum {_BY} (rate(bucketingest_rows_total[15m])) > 0.05",
        "5m",
        f"{_WHO}: {{{{ $value | humanizePercentage }}}} of the rows are dead letters",
        "Most likely the producers have changed their schema. Rows that readers expect are in the dead-letter table.",
    ),
)

SERVICES: Final = (
    Alert(
        "BucketIngestCompactionLate",
        Severity.WARNING,
        f"{_COMPACTION} > on (namespace, name) clamp_min(1.5 * max {_BY} (bucketingest_log_age_limit_seconds), 600)",
        "15m",
        f"{_WHO}: the oldest log file has waited {{{{ $value | humanizeDuration }}}} for compaction",
        "The oldest log file, or the pending compaction, is older than 1.5 times services.compaction.logAge. "
        "Read-optimized queries show old rows, snapshot queries get slower. No row is lost.",
    ),
    Alert(
        "BucketIngestBaseFilesLate",
        Severity.WARNING,
        f"{_COMPACTION} > on (namespace, name) max {_BY} (bucketingest_read_optimized_limit_seconds)",
        "5m",
        f"{_WHO}: base files lack rows of {{{{ $value | humanizeDuration }}}} ago",
        "The promise slo.readOptimizedFreshness is not kept: engines that read base files alone, as Trino and "
        "ClickHouse do, do not see rows that were committed before. Snapshot queries see them. No row is lost.",
    ),
    Alert(
        "BucketIngestServiceFailures",
        Severity.WARNING,
        f"sum {_BY} (increase(bucketingest_service_failures_total[3h])) > 4.5 and on (namespace, name) "
        f"sum {_BY} (increase(bucketingest_service_failures_total[45m])) > 0.5",
        "0s",
        f"{_WHO}: table services have failed {{{{ $value | humanize }}}} times in 3 hours",
        "Steps of table services fail again and again, so the table is not compacted. Ingestion continues. Queries get "
        "slower with every log file.",
    ),
    Alert(
        "BucketIngestPinned",
        Severity.WARNING,
        f"{_PINNED} > {PINNED_HOURS * 3600}",
        "15m",
        f"{_WHO}: the table has not been cleaned or archived for {{{{ $value | humanizeDuration }}}}",
        "Something holds the table's clean or its archive: a file group that cannot be merged, an instant of another "
        "writer, a pipeline that is gone. Old files stay and the timeline grows, so reads and commits get slower. "
        "No row is lost.",
    ),
    Alert(
        "BucketIngestDamagedFiles",
        Severity.CRITICAL,
        f"max {_BY} (bucketingest_damaged_files) > 0",
        "1m",
        f"{_WHO}: {{{{ $value | humanize }}}} data files of the table are gone or too short",
        "Commits name data files that somebody deleted or cut. Their rows are missing in reads, or the table cannot be "
        "read. Table services leave these file groups alone, so that nothing makes the loss final.",
    ),
)

OPERATOR: Final = (
    Alert(
        "BucketIngestOperatorDown",
        Severity.CRITICAL,
        # Of the operator's own job: any pod that is scraped can say that it leads.
        'absent(bucketingest_operator_leader{job="bucketingest-operator"} == 1)',
        "3m",
        "no operator of bucketingest is the leader",
        "Running drivers continue to ingest. A driver that fails is not restarted, a stuck one is not noticed, and "
        "alerts on resources do not work.",
        labels=(),
    ),
    Alert(
        "BucketIngestOperatorErrors",
        Severity.WARNING,
        f"sum {_BY} (increase(bucketingest_resource_errors_total[15m])) > 5",
        "15m",
        f"{_WHO}: the operator fails repeatedly",
        "Passes over the resource end with an error, so the operator does not repair it. The usual cause is an API "
        "server that denies requests or does not answer.",
    ),
)

GROUPS: Final = {
    "bucketingest.promises": PROMISES,
    "bucketingest.healing": HEALING,
    "bucketingest.table": TABLE,
    "bucketingest.services": SERVICES,
    "bucketingest.operator": OPERATOR,
}
ALERTS: Final = tuple(alert for group in GROUPS.values() for alert in group)
