"""Pipelines that are late or stuck, the operator's repairs, and what it cannot repair."""

from __future__ import annotations

from support.monitoring.scenarios.scenario import WHO, Scenario, of


def _condition(kind: str, values: str) -> dict[str, str]:
    return {of("bucketingest_resource_condition", condition=kind): values}


def _phase(name: str, values: str) -> dict[str, str]:
    return {of("bucketingest_resource_phase", phase=name): values}


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "BucketIngestStuckInflight",
        "a hung driver is no longer scraped; the paused operator sees the age grow; then the operator repairs it",
        {
            of("bucketingest_resource_inflight_age_seconds"): "10x20 30+30x40 0x60",
            of("bucketingest_inflight_age_seconds", pod="d"): "10x20 _x100",
            of("bucketingest_inflight_age_limit_seconds", pod="d"): "600x20 _x100",
        },
        fires_at=("25m", "30m"),
        silent_at=("10m", "19m", "31m", "50m"),
    ),
    Scenario(
        "BucketIngestStuckInflight",
        "a job without an operator",
        {
            of("bucketingest_inflight_age_seconds", pod="d"): "0+30x60",
            of("bucketingest_inflight_age_limit_seconds", pod="d"): "600x60",
        },
        fires_at=("14m",),
        silent_at=("9m", "11m"),
    ),
    Scenario(
        "BucketIngestStuckInflight",
        "another resource's generous limit does not count",
        {
            of("bucketingest_inflight_age_seconds", pod="d"): "700x60",
            of("bucketingest_inflight_age_limit_seconds", pod="d"): "600x60",
            'bucketingest_inflight_age_limit_seconds{namespace="shop", name="slow"}': "86400x60",
        },
        fires_at=("5m",),
    ),
    Scenario(
        "BucketIngestCommitsLate",
        "no commit for longer than health.maxCommitLag, and restarts do not help",
        {
            of("bucketingest_commit_lag_seconds"): "0x10 30+30x40 0x40",
            of("bucketingest_commit_lag_limit_seconds", pod="d"): "300x10 _x80",
        },
        fires_at=("20m", "25m"),
        silent_at=("8m", "14m", "30m"),
    ),
    Scenario(
        "BucketIngestCommitsLate",
        "no driver ever started",
        {
            of("bucketingest_commit_lag_seconds"): "0+30x80",
            of("bucketingest_resource_commit_lag_limit_seconds"): "300x80",
        },
        fires_at=("20m", "39m"),
        silent_at=("4m",),
    ),
    Scenario(
        "BucketIngestCommitsLate",
        "the last driver had a shorter limit than the spec has now",
        {
            of("bucketingest_commit_lag_seconds"): "400x80",
            of("bucketingest_resource_commit_lag_limit_seconds"): "600x80",
            of("bucketingest_commit_lag_limit_seconds", pod="d"): "300x80",
        },
        silent_at=("30m",),
    ),
    Scenario(
        "BucketIngestCommitsLate",
        "the operator repairs it within minutes",
        {
            of("bucketingest_commit_lag_seconds"): "0x10 30+30x16 0x40",
            of("bucketingest_commit_lag_limit_seconds", pod="d"): "300x80",
        },
        silent_at=("12m", "14m", "20m"),
    ),
    Scenario(
        "BucketIngestCommitsLate",
        "a stall has its own alert",
        {
            of("bucketingest_commit_lag_seconds"): "3000x80",
            of("bucketingest_commit_lag_limit_seconds", pod="d"): "300x80",
            **_phase("Stalled", "1x80"),
        },
        silent_at=("30m",),
    ),
    Scenario(
        "BucketIngestStalled",
        "the operator stops trying, a person repairs it",
        _condition("Stalled", "0x10 1x20 0x20"),
        fires_at=("8m", "15m"),
        silent_at=("4m", "6m", "16m"),
    ),
    Scenario(
        "BucketIngestSourceUnavailable",
        "the brokers are away; each third scrape falls into the start of another attempt; then they are back",
        {
            of("bucketingest_resource_not_ready", reason="SourceUnavailable"): "_x10 " + "1 1 _ " * 12 + "_x40",
            of("bucketingest_resource_not_ready", reason="JobStarting"): "_x10 " + "_ _ 1 " * 12 + "_x40",
        },
        fires_at=("12m", "22m"),
        silent_at=("4m", "9m", "30m"),
    ),
    Scenario("BucketIngestStalled", "Unknown is no stall", _condition("Stalled", "-1x60"), silent_at=("20m",)),
    Scenario(
        "BucketIngestNotReady",
        "the driver fits on no node",
        {**_condition("Ready", "1x10 0x60"), **_phase("Starting", "1x70"), **_phase("Suspended", "0x70")},
        fires_at=("22m",),
        silent_at=("5m", "19m"),
    ),
    Scenario(
        "BucketIngestNotReady",
        "the condition is Unknown for long",
        {**_condition("Ready", "-1x60"), **_phase("Running", "1x60")},
        fires_at=("20m",),
    ),
    *(
        Scenario(
            "BucketIngestNotReady",
            f"{phase} is not meant to be ready",
            {**_condition("Ready", "0x60"), **_phase(phase, "1x60"), **_phase("Running", "0x60")},
            silent_at=("25m",),
        )
        for phase in ("Suspended", "Completed", "Stalled")
    ),
    Scenario(
        "BucketIngestSpecNotProven",
        "a changed spec does not commit, a person corrects it",
        _condition("Degraded", "-1x5 0x10 1x20 0x20"),
        fires_at=("10m", "18m"),
        silent_at=("4m", "9m", "21m"),
    ),
    Scenario(
        "BucketIngestRestartStorm",
        "an attempt fails every five minutes, then they stop failing",
        {of("bucketingest_restarts_total", **{"class": "OutOfMemory"}): "0x10 1x10 2x10 3x10 4x10 5x10 6x80"},
        fires_at=("26m", "30m"),
        silent_at=("10m", "65m"),
    ),
    Scenario(
        "BucketIngestRestartStorm",
        "classes add up",
        {
            of("bucketingest_restarts_total", **{"class": "OutOfMemory"}): "0x5 1x5 2x50",
            of("bucketingest_restarts_total", **{"class": "DriverLost"}): "0x5 1x5 3x50",
        },
        fires_at=("15m",),
    ),
    Scenario(
        "BucketIngestRestartStorm",
        "a user tries one spec after the other",
        {
            of("bucketingest_restarts_total", **{"class": "SpecChanged"}): "0+1x60",
            of("bucketingest_restarts_total", **{"class": "RestartAsked"}): "0+1x60",
        },
        silent_at=("15m", "30m"),
    ),
    Scenario(
        "BucketIngestRollbackFailed",
        "one Job fails",
        {
            of("bucketingest_rollback_jobs_total", result="failed"): "0x10 1x200",
            of("bucketingest_rollback_jobs_total", result="succeeded"): "0x10 5x200",
        },
        fires_at=("6m", "60m"),
        silent_at=("4m", "70m"),
    ),
    Scenario(
        "BucketIngestRollbackFailed",
        "Jobs that succeed do not alert",
        {of("bucketingest_rollback_jobs_total", result="succeeded"): "0+1x60"},
        silent_at=("20m",),
    ),
    *(
        Scenario(
            "BucketIngestCheckpointRebuilt",
            f"a start that says {verdict}",
            {
                of("bucketingest_job_info", verdict=verdict, pod="d", version="1"): "1x200",
                of("bucketingest_running_seconds", pod="d"): "0+30x200",
                of("bucketingest_checkpoint_stays", pod="d"): "1x200",
            },
            fires_at=("1m", "20m"),
            silent_at=("31m", "90m"),
            labels={**WHO, "verdict": verdict},
        )
        for verdict in ("rebuilt", "rewound")
    ),
    *(
        Scenario(
            "BucketIngestCheckpointRebuilt",
            f"{verdict} is how a start should be",
            {
                of("bucketingest_job_info", verdict=verdict, pod="d", version="1"): "1x60",
                of("bucketingest_running_seconds", pod="d"): "0+30x60",
            },
            silent_at=("5m",),
        )
        for verdict in ("new", "in step", "resumed")
    ),
    Scenario(
        "BucketIngestCheckpointRebuilt",
        "the checkpoint is on the driver's disk: each start rebuilds it",
        {
            of("bucketingest_job_info", verdict="rebuilt", pod="d", version="1"): "1x60",
            of("bucketingest_running_seconds", pod="d"): "0+30x60",
            of("bucketingest_checkpoint_stays", pod="d"): "0x60",
        },
        silent_at=("5m",),
    ),
    Scenario(
        "BucketIngestCheckpointRebuilt",
        "the operator has rolled back an instant, so its rows are ingested again",
        {
            of("bucketingest_job_info", verdict="rewound", pod="d", version="1"): "_x20 1x60",
            of("bucketingest_running_seconds", pod="d"): "_x20 0+30x60",
            of("bucketingest_rollback_jobs_total", result="succeeded"): "0x10 1x70",
        },
        silent_at=("12m", "20m"),
    ),
)
