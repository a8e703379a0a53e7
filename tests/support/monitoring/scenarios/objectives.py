"""The objectives: how many commits may be late, and how long rows may be."""

from __future__ import annotations

from support.monitoring.scenarios.scenario import Scenario, of


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
        "one commit in ten is late for hours: 10 % is more than 6 times the budget",
        _commits("0+10x1000", "0+9x1000"),
        fires_at=("1h", "5h"),
        silent_at=("1m",),
        step="5m",
    ),
    Scenario(
        "BucketIngestCommitLatencyFastBurn",
        "one late commit in a hundred is within the budget",
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
        "it was bad, and ended three hours ago",
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
        "input waits for 20 minutes, then no more",
        _freshness("0x60 130+30x40 0x200"),
        fires_at=("45m", "50m"),
        silent_at=("30m", "90m"),
    ),
    Scenario(
        "BucketIngestFreshnessFastBurn",
        "lag stays below slo.freshness",
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
        "there is no slo.freshness",
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
)
