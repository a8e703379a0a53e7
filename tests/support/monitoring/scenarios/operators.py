"""The operator's own health."""

from __future__ import annotations

from support.monitoring.scenarios.scenario import Scenario, of

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "BucketIngestOperatorDown",
        "two operators, one leads; the leader disappears, and later the other takes over",
        {
            'bucketingest_operator_leader{job="bucketingest-operator",pod="a"}': "1x20 _x60",
            'bucketingest_operator_leader{job="bucketingest-operator",pod="b"}': "0x60 1x20",
        },
        fires_at=("19m", "30m"),
        silent_at=("5m", "11m", "31m"),
        labels={},
    ),
    Scenario("BucketIngestOperatorDown", "there never was one", {}, fires_at=("5m",), silent_at=("2m",), labels={}),
    Scenario(
        "BucketIngestOperatorDown",
        "a pod of a tenant says that it leads",
        {'bucketingest_operator_leader{job="shop/orders",pod="a"}': "1x20"},
        fires_at=("5m",),
        silent_at=("2m",),
        labels={},
    ),
    Scenario(
        "BucketIngestOperatorErrors",
        "every pass fails, then none does",
        {of("bucketingest_resource_errors_total", pod="a"): "0x10 0+1x100 100x100"},
        fires_at=("30m", "55m"),
        silent_at=("8m", "18m", "80m"),
    ),
    Scenario(
        "BucketIngestOperatorErrors",
        "sometimes a conflict with a user's edit",
        {of("bucketingest_resource_errors_total", pod="a"): " ".join(f"{count}x7" for count in range(20))},
        silent_at=("39m",),
    ),
)
