"""The table and its rows: rolled-back commits, locks, buckets, dead letters."""

from __future__ import annotations

from support.monitoring.scenarios.scenario import WHO, Scenario, of

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "BucketIngestCommitsRolledBack",
        "another writer rolls back one commit",
        {of("bucketingest_position_losses_total", pod="d"): "0x10 1x200"},
        fires_at=("6m", "50m"),
        silent_at=("4m", "70m"),
    ),
    Scenario(
        "BucketIngestTablesParked",
        "a table is parked for two minutes, and then for good until somebody mends it",
        {of("bucketingest_tables_parked", pod="d"): "0x20 1x4 0x20 2x60 0x40"},
        fires_at=("35m", "50m"),
        silent_at=("12m", "25m", "60m"),
    ),
    Scenario(
        "BucketIngestTableLate",
        "one table of two is later than slo.freshness",
        {
            of("bucketingest_table_lag_seconds", pod="d", topic="a"): "0x40 600x60 0x40",
            of("bucketingest_table_lag_seconds", pod="d", topic="b"): "60x140",
            of("bucketingest_slo_freshness_seconds", pod="operator"): "300x140",
            of("bucketingest_commit_lag_limit_seconds", pod="d"): "900x140",
        },
        fires_at=("30m",),
        silent_at=("22m", "60m"),
        labels={**WHO, "topic": "a"},
    ),
    Scenario(
        "BucketIngestTableLate",
        "without slo.freshness the limit is health.maxCommitLag",
        {
            of("bucketingest_table_lag_seconds", pod="d", topic="a"): "600x40 1000x60",
            of("bucketingest_commit_lag_limit_seconds", pod="d"): "900x100",
        },
        fires_at=("30m",),
        silent_at=("15m",),
        labels={**WHO, "topic": "a"},
    ),
    Scenario(
        "BucketIngestCatalogLate",
        "a metastore is away for half an hour, and each commit is late for a minute before",
        {of("bucketingest_catalog_behind_seconds", pod="d"): "0 60x40 0+30x60 0x80"},
        fires_at=("45m",),
        silent_at=("10m", "38m", "60m"),
    ),
    Scenario(
        "BucketIngestLockContention",
        "it waits for the lock for a fifth of the time, then not at all",
        {of("bucketingest_lock_wait_seconds_total", pod="d"): "0+6x100 600x100"},
        fires_at=("30m", "50m"),
        silent_at=("8m", "80m"),
    ),
    Scenario(
        "BucketIngestLockContention",
        "it waits for the lease of another job",
        {of("bucketingest_lease_wait_seconds_total", pod="d"): "0+30x60"},
        fires_at=("20m",),
        silent_at=("5m",),
    ),
    Scenario(
        "BucketIngestLockContention",
        "attempts end because the table is locked",
        {of("bucketingest_restarts_total", **{"class": "TableLocked"}): "0x10 1x5 2x60"},
        fires_at=("20m",),
        silent_at=("7m",),
    ),
    Scenario(
        "BucketIngestLockContention",
        "short waits are normal",
        {
            of("bucketingest_lock_wait_seconds_total", pod="d"): "0+2x100",
            of("bucketingest_lease_wait_seconds_total", pod="d"): "0x10 20x90",
        },
        silent_at=("30m",),
    ),
    Scenario(
        "BucketIngestBucketSkew",
        "one bucket gets eight times its share, then the keys change",
        {
            of("bucketingest_bucket_skew_ratio", pod="d"): "8x200 1.1x100",
            of("bucketingest_rows_total", pod="d"): "0+30000x300",
        },
        fires_at=("65m", "99m"),
        silent_at=("30m", "101m"),
    ),
    Scenario(
        "BucketIngestBucketSkew",
        "the distribution of a few rows does not matter",
        {
            of("bucketingest_bucket_skew_ratio", pod="d"): "60x200",
            of("bucketingest_rows_total", pod="d"): "0+30x200",
        },
        silent_at=("90m",),
    ),
    Scenario(
        "BucketIngestDeadLetters",
        "one row does not decode",
        {of("bucketingest_dead_letters_total", pod="d"): "0x10 1x100"},
        fires_at=("6m", "30m"),
        silent_at=("4m", "40m"),
    ),
    Scenario(
        "BucketIngestManyDeadLetters",
        "a producer changes its schema, and undoes the change",
        {
            of("bucketingest_dead_letters_total", pod="d"): "0x20 0+300x60 18000x100",
            of("bucketingest_rows_total", pod="d"): "0+3000x180",
        },
        fires_at=("25m", "40m"),
        silent_at=("9m", "19m", "70m"),
    ),
    Scenario(
        "BucketIngestManyDeadLetters",
        "three rows in a hundred",
        {
            of("bucketingest_dead_letters_total", pod="d"): "0+90x100",
            of("bucketingest_rows_total", pod="d"): "0+3000x100",
        },
        silent_at=("30m",),
    ),
)
