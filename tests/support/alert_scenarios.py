"""For every alert: what Prometheus has scraped, when the alert must fire, and when it must be silent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

WHO = {"namespace": "shop", "name": "orders"}


@dataclass(frozen=True, slots=True)
class Scenario:
    """One story. `series`: metric with labels → values in promtool's words, one each `step`.

    `fires_at`, `silent_at`: times at which the alert is looked at, such as 10m.
    """

    alert: str
    story: str
    series: Mapping[str, str]
    fires_at: tuple[str, ...] = ()
    silent_at: tuple[str, ...] = ()
    step: str = "30s"
    labels: Mapping[str, str] = field(default_factory=lambda: WHO)
    """Labels of the alert beyond its severity."""


def of(metric: str, **labels: str) -> str:
    """A series of shop/orders."""
    words = ", ".join(f'{name}="{value}"' for name, value in {**WHO, **labels}.items())
    return f"{metric}{{{words}}}"


def _commits(total: str, good: str) -> dict[str, str]:
    labels = {"pod": "orders-1-driver", "pipeline": "shop/orders"}
    return {
        of("bucketingest_slo_commits_total", **labels): total,
        of("bucketingest_slo_commits_good_total", **labels): good,
    }


def _freshness(lag: str, promised: str = "120x20000") -> dict[str, str]:
    return {of("bucketingest_commit_lag_seconds"): lag, of("bucketingest_slo_freshness_seconds"): promised}


def _repeated(values: str, times: int) -> str:
    return " ".join([values] * times)


def _condition(kind: str, values: str) -> dict[str, str]:
    return {of("bucketingest_resource_condition", condition=kind): values}


def _phase(name: str, values: str) -> dict[str, str]:
    return {of("bucketingest_resource_phase", phase=name): values}


SCENARIOS: tuple[Scenario, ...] = (
    # -- commit latency: a commit each 30 s
    Scenario(
        "BucketIngestCommitLatencyFastBurn",
        "every second commit is late for half an hour, then none",
        _commits("0+1x240", "0+1x60 60+0.5x60 90+1x120"),
        fires_at=("50m", "60m"),
        silent_at=("25m", "95m", "119m"),
    ),
    Scenario(
        "BucketIngestCommitLatencyFastBurn",
        "one commit in ten is late for hours: 10 % is more than 6 times what may be",
        _commits("0+10x1000", "0+9x1000"),
        fires_at=("1h", "5h"),
        silent_at=("1m",),
        step="5m",
    ),
    Scenario(
        "BucketIngestCommitLatencyFastBurn",
        "one late commit in a hundred is what may be",
        _commits("0+100x300", "0+99x300"),
        silent_at=("1h", "6h", "24h"),
        step="5m",
    ),
    Scenario(
        "BucketIngestCommitLatencyFastBurn",
        "the first two commits of a new driver are late, as Spark warms up",
        _commits("0+1x240", "0 0 0+1x238"),
        silent_at=("2m", "4m", "10m", "60m"),
    ),
    Scenario(
        "BucketIngestCommitLatencyFastBurn",
        "the driver is replaced while commits are late: counters of two pods add up",
        {
            of("bucketingest_slo_commits_total", pod="one"): "0+1x60 _x180",
            of("bucketingest_slo_commits_good_total", pod="one"): "0+0x60 _x180",
            of("bucketingest_slo_commits_total", pod="two"): "_x64 0+1x100",
            of("bucketingest_slo_commits_good_total", pod="two"): "_x64 0+0x100",
        },
        fires_at=("20m", "50m"),
    ),
    Scenario(
        "BucketIngestCommitLatencyFastBurn",
        "no input: no commit, so none is late",
        _commits("7x240", "3x240"),
        silent_at=("30m", "2h"),
    ),
    Scenario(
        "BucketIngestCommitLatencySlowBurn",
        "four commits in a hundred are late for a day",
        _commits("0+100x600", "0+96x600"),
        fires_at=("24h", "40h"),
        step="5m",
    ),
    Scenario(
        "BucketIngestCommitLatencySlowBurn",
        "it was bad, and is over for three hours",
        _commits("0+100x432", "0+90x60 5400+100x372"),
        fires_at=("6h",),
        silent_at=("12h",),
        step="5m",
    ),
    Scenario(
        "BucketIngestCommitLatencySlowBurn",
        "one late commit in two hundred",
        _commits("0+200x600", "0+199x600"),
        silent_at=("24h", "48h"),
        step="5m",
    ),
    # -- freshness
    Scenario(
        "BucketIngestFreshnessFastBurn",
        "input waits for 20 minutes, then all is well",
        _freshness("0x60 130+30x40 0x200"),
        fires_at=("45m", "50m"),
        silent_at=("30m", "90m"),
    ),
    Scenario(
        "BucketIngestFreshnessFastBurn",
        "lag stays below the promise",
        _freshness("100x400"),
        silent_at=("1h", "3h"),
    ),
    Scenario(
        "BucketIngestFreshnessFastBurn",
        "two minutes in each hour",
        _freshness(_repeated("0x115 300x3", 10)),
        silent_at=("5h", "5h10m", "8h5m"),
    ),
    Scenario(
        "BucketIngestFreshnessFastBurn",
        "nothing was promised",
        {of("bucketingest_commit_lag_seconds"): "9000x400"},
        silent_at=("1h",),
    ),
    Scenario(
        "BucketIngestFreshnessSlowBurn",
        "one minute of each twenty, for a day",
        _freshness(_repeated("300x1 0x37", 72)),
        fires_at=("20h", "24h"),
        silent_at=("10m",),
    ),
    Scenario(
        "BucketIngestFreshnessSlowBurn",
        "one minute in two hours",
        _freshness(_repeated("0x237 300x1", 12)),
        silent_at=("8h", "24h"),
    ),
    # -- healing
    Scenario(
        "BucketIngestStuckInflight",
        "a hung driver is not scraped any more; the operator is paused and sees the age grow; then it heals",
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
        "the operator heals it within minutes",
        {
            of("bucketingest_commit_lag_seconds"): "0x10 30+30x16 0x40",
            of("bucketingest_commit_lag_limit_seconds", pod="d"): "300x80",
        },
        silent_at=("12m", "14m", "20m"),
    ),
    Scenario(
        "BucketIngestCommitsLate",
        "a stall is told by an alert of its own",
        {
            of("bucketingest_commit_lag_seconds"): "3000x80",
            of("bucketingest_commit_lag_limit_seconds", pod="d"): "300x80",
            **_phase("Stalled", "1x80"),
        },
        silent_at=("30m",),
    ),
    Scenario(
        "BucketIngestStalled",
        "the operator gives up, a person repairs it",
        _condition("Stalled", "0x10 1x20 0x20"),
        fires_at=("8m", "15m"),
        silent_at=("4m", "6m", "16m"),
    ),
    Scenario("BucketIngestStalled", "Unknown is no stall", _condition("Stalled", "-1x60"), silent_at=("20m",)),
    Scenario(
        "BucketIngestNotReady",
        "no node takes the driver",
        {**_condition("Ready", "1x10 0x60"), **_phase("Starting", "1x70"), **_phase("Suspended", "0x70")},
        fires_at=("22m",),
        silent_at=("5m", "19m"),
    ),
    Scenario(
        "BucketIngestNotReady",
        "nobody knows for long",
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
        "somebody tries one spec after the other",
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
        "those that succeed are nobody's business",
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
        "the checkpoint is on the driver's disk: it is made anew at each start",
        {
            of("bucketingest_job_info", verdict="rebuilt", pod="d", version="1"): "1x60",
            of("bucketingest_running_seconds", pod="d"): "0+30x60",
            of("bucketingest_checkpoint_stays", pod="d"): "0x60",
        },
        silent_at=("5m",),
    ),
    Scenario(
        "BucketIngestCheckpointRebuilt",
        "the operator has taken an instant back, so its rows are ingested again",
        {
            of("bucketingest_job_info", verdict="rewound", pod="d", version="1"): "_x20 1x60",
            of("bucketingest_running_seconds", pod="d"): "_x20 0+30x60",
            of("bucketingest_rollback_jobs_total", result="succeeded"): "0x10 1x70",
        },
        silent_at=("12m", "20m"),
    ),
    # -- the table
    Scenario(
        "BucketIngestCommitsTakenBack",
        "another writer takes one back",
        {of("bucketingest_position_losses_total", pod="d"): "0x10 1x200"},
        fires_at=("6m", "50m"),
        silent_at=("4m", "70m"),
    ),
    Scenario(
        "BucketIngestLockContention",
        "a fifth of the time goes to waiting for the lock, then no more",
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
        "a moment now and then is normal",
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
        "of a few rows nobody cares how they are spread",
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
        "a producer changes its schema, and takes it back",
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
    # -- the operator
    Scenario(
        "BucketIngestOperatorDown",
        "two operators, one leads; then the leader goes, and after a while the other takes over",
        {
            'bucketingest_operator_leader{pod="a"}': "1x20 _x60",
            'bucketingest_operator_leader{pod="b"}': "0x60 1x20",
        },
        fires_at=("19m", "30m"),
        silent_at=("5m", "11m", "31m"),
        labels={},
    ),
    Scenario("BucketIngestOperatorDown", "there never was one", {}, fires_at=("5m",), silent_at=("2m",), labels={}),
    Scenario(
        "BucketIngestOperatorErrors",
        "every pass fails, then none does",
        {'bucketingest_operator_reconcile_errors_total{pod="a"}': "0x10 0+1x100 100x100"},
        fires_at=("30m", "55m"),
        silent_at=("8m", "18m", "80m"),
        labels={},
    ),
    Scenario(
        "BucketIngestOperatorErrors",
        "conflicts with somebody's edit now and then",
        {'bucketingest_operator_reconcile_errors_total{pod="a"}': " ".join(f"{count}x7" for count in range(20))},
        silent_at=("39m",),
        labels={},
    ),
)
