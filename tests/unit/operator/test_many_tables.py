"""One resource with many tables, as the operator sees it: whose they are, what is said of them, what it leaves out."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bucketingest.spec.job_report import LagReport, ProgressReport, TableReport, TablesReport
from bucketingest.spec.status import Condition, Status
from bucketingest.stream.report.endpoints import Answer
from bucketingest_operator.decide.permission import forbidden, may_write
from bucketingest_operator.decide.plan import CreateRollback
from bucketingest_operator.decide.reconcile import reconcile
from bucketingest_operator.decide.status import MESSAGE_MAX, Draft
from bucketingest_operator.manifests.attempt_objects import Manifests
from bucketingest_operator.manifests.settings import JobSettings
from bucketingest_operator.manifests.spark_conf import executor_overhead_mib
from bucketingest_operator.observation import Contact, Observation
from bucketingest_operator.observe.progress_client import MAX_BYTES
from bucketingest_operator.observe.resource_reading import table_of
from support.operator.observations import NOW, UID, bucket_ingest, commit, input_of, report, resource, well
from support.operator.plans import condition, events, kinds


def many(**changes: Any) -> dict[str, Any]:
    """A spec with a table for each topic of a pattern; `kafka`, `overrides` and `path` change a part of it."""
    kafka = {"bootstrapServers": "kafka:9092", "topicPattern": "shop[.].*"} | changes.get("kafka", {})
    return {
        "source": {"kafka": {name: value for name, value in kafka.items() if value is not None}},
        "format": {"type": "json", "schema": "id STRING"},
        "table": {"path": changes.get("path", "s3://lake/{topic}"), "recordKey": ["id"]},
        "tables": {"overrides": changes.get("overrides", [])},
    }


def named(*topics: str) -> dict[str, Any]:
    return {"kafka": {"topicPattern": None, "topics": list(topics)}}


OWNERS = {"s3://lake": ("team-a",), "s3://lake/b": ("team-b",), "s3://lake/c/shared": ("team-a", "team-b")}


@pytest.mark.parametrize(
    ("path", "namespaces"),
    [
        ("s3://lake/x/{topic}", {"team-a"}),
        ("s3://lake/b/{topic}", {"team-b"}),
        ("s3://lake/b/{topic}/x{topic}", {"team-b"}),
        ("s3://lake/{topic}", set()),  # the topic b
        ("s3://lake/x{topic}", {"team-a"}),
        ("s3://lake/{topic}x", {"team-a"}),
        ("s3://lake/{topic}/tables", set()),
        ("s3://lake/{topic}/shared", set()),
        ("s3://lake/x{topic}/shared", {"team-a"}),
        ("s3://{topic}/b/x", set()),  # the topic lake
        ("s3://other/{topic}", {"team-a", "team-b", "team-c"}),
        ("s3://lake/c/shared/{topic}", {"team-a", "team-b"}),
        ("s3://lake/c/{topic}", {"team-a"}),
    ],
)
def test_no_topic_leads_out_of_the_paths_of_its_namespace(path: str, namespaces: set[str]) -> None:
    assert {each for each in ("team-a", "team-b", "team-c") if may_write(OWNERS, path, each)} == namespaces


def test_topics_that_are_named_are_judged_one_by_one() -> None:
    def why(**changes: Any) -> str | None:
        owners = {"s3://lake": ("ingest",), "s3://lake/b": ("team-b",)}
        return forbidden(Manifests(bucket_ingest(many(**changes)), "ingest", UID, JobSettings(table_owners=owners)))

    assert why(**named("a", "bb")) is None
    assert why(**named("a", "b")) == (
        "s3://lake/b is for other namespaces: an administrator's job.tableOwners of the chart says which are for whom."
    )
    assert "s3://lake/{topic} may be for other namespaces with some topic" in (why() or "")
    assert "s3://lake/b_dead_letters" not in (why(**named("b_dead_letters")) or "")


def test_dead_letters_do_not_lead_out_either() -> None:
    owners = {"s3://lake/team": ("ingest",), "s3://lake/team_dead_letters": ("other",)}
    wanted = bucket_ingest({"table": {"path": "s3://lake/team", "recordKey": ["value"]}})
    said = forbidden(Manifests(wanted, "ingest", UID, JobSettings(table_owners=owners)))
    assert said is not None
    assert said.startswith("s3://lake/team_dead_letters is for other namespaces")


def test_a_checkpoint_beside_a_local_table_does_not_lead_out_either() -> None:
    owners = {"/lake": ("ingest",), "/lake/team_checkpoints": ("other",)}

    def why(path: str) -> str | None:
        wanted = bucket_ingest({"table": {"path": path, "recordKey": ["value"]}})
        return forbidden(Manifests(wanted, "ingest", UID, JobSettings(table_owners=owners | {"/var": ("other",)})))

    assert (why("/lake/team") or "").startswith("/lake/team_checkpoints/")
    assert why("/lake/teams") is None
    assert why("s3://lake/team") is None  # in the driver's own folder


def test_two_resources_want_the_same_tables_only_with_the_same_path_and_topics() -> None:
    def key(**changes: Any) -> str | None:
        return table_of({"spec": many(**changes)})

    assert key() == key(path="s3a://lake/{topic}")
    assert len({key(), key(kafka={"topicPattern": "other"}), key(path="s3://x/{topic}"), key(**named("a"))}) == 4
    assert key(**named("a", "b")) == key(**named("b", "a"))
    assert table_of({"spec": {"table": {"path": "/{topic}"}, "source": ["hostile"]}}) is not None


def test_a_task_may_write_the_table_that_takes_the_most_memory() -> None:
    plain = executor_overhead_mib(bucket_ingest(many()))
    larger = bucket_ingest(many(overrides=[{"topics": "x", "table": {"memoryPerTask": "1Gi"}}]))
    assert executor_overhead_mib(larger) - plain == larger.spec.spark.slots * (1024 - 256)


def table(topic: str, state: str = "parked", reason: str | None = "no rights", seconds: float = 0) -> TableReport:
    return TableReport.model_validate(
        {
            "topic": topic,
            "table": f"s3://lake/{topic}",
            "state": state,
            "reason": reason,
            "lag": LagReport(offsets=1, seconds=seconds),
            "rows": 1,
            "commits": 1,
        }
    )


def tables(*worst: TableReport, **counts: int) -> TablesReport:
    parked = sum(each.state == "parked" for each in worst)
    found = TablesReport(known=5, open=5 - parked, parked=parked, gone=0, worst=worst)
    return found.model_copy(update=counts)


def running(said: TablesReport, **changes: Any) -> Observation:
    """A resource with many tables whose driver says this of them."""
    wanted = bucket_ingest(many())
    answer: ProgressReport = report(tables=said, inflight=None, **changes)
    seen = replace(well(), contact=Contact(answer), inputs={1: input_of(wanted)})
    return replace(seen, resource=replace(seen.resource, wanted=wanted))


def test_parked_tables_are_in_the_status_and_the_resource_stays_ready() -> None:
    plan = reconcile(running(tables(table("shop.a"), table("shop.b", "open", None, 900), late=1)))
    found = plan.status.tables
    assert found is not None
    assert (found.known, found.open, found.parked, found.late) == (5, 4, 1, 1)
    assert [(each.topic, each.state, each.reason) for each in found.worst or ()] == [
        ("shop.a", "parked", "no rights"),
        ("shop.b", "late", None),
    ]
    healthy = condition(plan, "TablesHealthy")
    assert (healthy.status, healthy.reason) == ("False", "TablesParked")
    assert healthy.message == "1 of 5 tables are parked: shop.a: no rights; shop.b: late"
    assert condition(plan, "Ready").status == "True"
    assert [each.reason for each in events(plan)] == ["TablesParked"]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (tables(), ("True", "AllWritten")),
        (tables(table("a", "open", None, 900), late=1), ("False", "TablesLate")),
        (tables(table("a", "opening", None, 900), late=1), ("False", "TablesLate")),
        (tables(left_out=3), ("False", "TooManyTopics")),
        (tables(table("a", "gone", None), gone=1), ("True", "AllWritten")),
    ],
)
def test_the_condition_says_what_is_wrong(said: TablesReport, expected: tuple[str, str]) -> None:
    found = condition(reconcile(running(said)), "TablesHealthy")
    assert (found.status, found.reason) == expected
    assert ("1 tables no more" in found.message) is bool(said.gone)
    assert (": a: late" in found.message) is bool(said.late)


def test_a_resource_none_of_whose_tables_can_be_written_is_not_ready_and_is_not_restarted() -> None:
    said = tables(*(table(each) for each in "abcde"))
    plan = reconcile(running(said, idle=True, last_commit=commit(9000), lag=LagReport(offsets=0, seconds=None)))
    ready = condition(plan, "Ready")
    assert (ready.status, ready.reason) == ("False", "TablesParked")
    assert "5 of 5 tables are parked: a: no rights" in ready.message
    assert "DeleteDriver" not in kinds(plan)


def test_what_the_status_holds_of_tables_is_bounded_and_times_in_reasons_write_nothing() -> None:
    first = tables(
        *(table(f"topic-{number}", reason=f"held {number + 10} s" + "x" * 9000) for number in range(10)), known=999
    )
    draft = Draft(Status(), 1, NOW)
    draft.take_report(report(tables=first))
    before = draft.status()
    assert before.tables is not None
    assert len(str(before.tables.to_document())) < 11 * MESSAGE_MAX
    assert len(condition_of(before).message) <= MESSAGE_MAX

    again = Draft(before, 1, NOW + timedelta(seconds=15))
    later = tables(*(table(f"topic-{n}", reason=f"held {n + 27} s" + "x" * 9000) for n in range(10)), known=999)
    again.take_report(report(tables=later))
    assert again.status() == before
    another = Draft(before, 1, NOW)
    another.take_report(report(tables=tables(*(table(f"topic-{n}", reason="refused") for n in range(10)), known=999)))
    assert "refused" in condition_of(another.status()).message


def test_the_status_names_another_table_though_only_a_digit_of_its_topic_differs() -> None:
    draft = Draft(Status(), 1, NOW)
    draft.take_report(report(tables=tables(table("topic-1"))))
    again = Draft(draft.status(), 1, NOW + timedelta(seconds=15))
    again.take_report(report(tables=tables(table("topic-2"))))
    assert "topic-2" in condition_of(again.status()).message


def test_the_operator_reads_the_answer_of_a_driver_whose_tables_all_have_long_reasons() -> None:
    path = "s3://lake/" + "x" * 1014
    worst = [table("t" * 249, reason="ä" * 90_000).model_copy(update={"table": path}) for _ in range(10)]
    said = report(tables=tables(*worst, known=1000))
    assert len(Answer.of(said.model_dump(mode="json", by_alias=True)).body) < MAX_BYTES


def condition_of(status: Status) -> Condition:
    return next(each for each in status.conditions or () if each.type == "TablesHealthy")


def test_a_stuck_driver_is_replaced_and_no_job_rolls_one_path_back() -> None:
    wanted = bucket_ingest(many())
    late = running(tables(), last_commit=commit(9000), lag=LagReport(offsets=9, seconds=9000))
    plan = reconcile(late)
    assert condition(plan, "Ready").reason == "Stuck"
    suspended = bucket_ingest({**many(), "suspend": True})
    rested = resource(suspended, status=plan.status)
    for seen in (
        replace(late, resource=rested, drivers=()),
        replace(late, resource=replace(rested, deleting=True), drivers=()),
        replace(late, resource=resource(wanted, status=plan.status), drivers=()),
    ):
        ended = reconcile(replace(seen, now=NOW + timedelta(minutes=1)))
        assert not any(isinstance(each, CreateRollback) for each in ended.actions), seen
