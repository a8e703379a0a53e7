"""A resource with many tables at a real API server: its definition takes it, and its status holds what is said."""

from __future__ import annotations

from typing import Any

from bucketingest.spec.job_report import LagReport, TableReport, TablesReport
from support.operator.scene import Scene, Start

TOPICS = "shop[.].*"


def spec(pattern: str = TOPICS, **changes: Any) -> dict[str, Any]:
    return {
        "source": {"kafka": {"bootstrapServers": "kafka:9092", "topicPattern": pattern}},
        "format": {"type": "json", "schema": "id STRING"},
        "table": {"path": "s3://lake/{topic}", "recordKey": ["id"]},
        "tables": {"overrides": [{"topics": "shop[.]big", "table": {"index": {"buckets": 16}}}]},
        **changes,
    }


def said(*parked: str) -> TablesReport:
    worst = tuple(
        TableReport(
            topic=topic,
            table=f"s3://lake/{topic}",
            state="parked",
            reason="the table has 8 buckets, the spec 4",
            lag=LagReport(offsets=None, seconds=None),
            rows=0,
            commits=0,
        )
        for topic in parked
    )
    return TablesReport(known=5, open=5 - len(parked), parked=len(parked), gone=0, worst=worst)


def test_a_resource_with_many_tables_runs_and_says_which_are_parked(scene: Scene, start: Start) -> None:
    start()
    scene.apply(**spec())
    scene.driver()
    assert "{topic}" in scene.given(1)
    _, job = scene.run(inflight=None, tables=said("shop.refused"))
    with job:
        found = scene.await_condition("TablesHealthy", "False", "TablesParked")
        assert "shop.refused: the table has 8 buckets, the spec 4" in found["message"]
        scene.await_condition("Ready", "True")
        tables = scene.resource()["status"]["tables"]
        assert (tables["known"], tables["open"], tables["parked"], tables["late"]) == (5, 4, 1, 0)
        assert [each["topic"] for each in tables["worst"]] == ["shop.refused"]
        wide = scene.kube.kubectl("get", "bi", "-n", scene.namespace, "-o", "wide").splitlines()
        assert wide[0].split()[-2:] == ["TABLES", "PARKED"]
        assert wide[1].split()[-2:] == ["5", "1"]
        scene.await_event("TablesParked")
        job.report = scene.well(inflight=None, tables=said())
        scene.await_condition("TablesHealthy", "True")
        assert "worst" not in scene.resource()["status"]["tables"]


def test_two_resources_with_some_of_the_topics_both_run_and_with_the_same_ones_one_waits(
    scene: Scene, start: Start
) -> None:
    start()
    scene.apply("lake", **spec())
    scene.driver(name="lake")
    scene.apply("other", **spec("shop[.]b.*"))
    scene.driver(name="other")
    scene.apply("again", **spec())
    assert "/lake" in scene.await_condition("Ready", "False", "TableTaken", name="again")["message"]
