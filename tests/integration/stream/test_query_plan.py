"""How Spark runs a micro-batch: decoding once, nothing row by row in Python, and the same work for each write task."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from bucketingest.stream import foreach_batch, micro_batch
from bucketingest.stream.files import writing
from bucketingest.stream.micro_batch import WARM_UP, warm_up, write_micro_batch, write_packed, write_traced
from bucketingest.stream.source.shape import RowShape
from bucketingest.stream.source.sources import read_source
from bucketingest.stream.spark.arrow_map import Stage, map_in_arrow
from bucketingest.write.plan import WritePlan
from bucketingest.write.rows.write_status import WriteStatus
from support.jobs.stream_runs import Lake, NewTopic, Runner


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[WriteStatus]]]:
    """For each micro-batch the executed plan of the table's rows, and what the tasks reported."""
    seen: list[tuple[str, list[WriteStatus]]] = []

    def recording(rows: DataFrame, plan: WritePlan) -> list[WriteStatus]:
        statuses = write_micro_batch(rows, plan)
        seen.append((rows._jdf.queryExecution().executedPlan().toString(), statuses))
        return statuses

    def recording_traced(rows: DataFrame, traced: Callable[[], DataFrame], plan: WritePlan) -> list[WriteStatus]:
        statuses = write_traced(rows, traced, plan)
        seen.append((rows._jdf.queryExecution().executedPlan().toString(), statuses))
        return statuses

    def recording_files(rows: DataFrame, plan: WritePlan) -> list[WriteStatus]:
        statuses = write_packed(rows, plan)
        seen.append((rows._jdf.queryExecution().executedPlan().toString(), statuses))
        return statuses

    monkeypatch.setattr(foreach_batch, "write_micro_batch", recording)
    monkeypatch.setattr(foreach_batch, "write_traced", recording_traced)
    monkeypatch.setattr(writing, "write_packed", recording_files)
    return seen


def test_the_warm_up_runs_both_stages_of_a_micro_batch_on_each_slot(spark: SparkSession) -> None:
    warm_up(spark).join(60)
    tracker = spark.sparkContext.statusTracker()
    (job,) = (tracker.getJobInfo(each) for each in tracker.getJobIdsForGroup(WARM_UP))
    assert job is not None
    assert job.status == "SUCCEEDED"
    stages = [tracker.getStageInfo(each) for each in job.stageIds]
    assert [each and each.numCompletedTasks for each in stages] == [2, 2]


@pytest.mark.kafka
def test_json_is_decoded_once_by_us_also_if_sql_is_sparks(
    run: Runner,
    lake: Lake,
    new_topic: NewTopic,
    written: list[tuple[str, list[WriteStatus]]],
) -> None:
    topic = new_topic()
    topic.send([(None, b'{"id": "a", "quantity": 1, "gone": false}')])
    wanted = lake.resource(
        topic.source(),
        format={"type": "json", "schema": "id STRING, quantity INT, gone BOOLEAN"},
        transform={"sql": "SELECT *, concat(reverse(id), '-', quantity) AS label, quantity * 2 AS double FROM source"},
        table={"recordKey": ["id"], "partitionBy": ["label"], "deleteWhen": "gone OR quantity < 0"},
    )

    run.once(wanted)

    ((plan, _),) = written
    assert plan.count("MapInArrow") == 1, plan
    assert "from_json" not in plan, plan


@pytest.mark.kafka
@pytest.mark.parametrize("sql", ["SELECT * FROM source", "SELECT upper(id) AS id, quantity / 2 AS half FROM source"])
def test_json_crosses_to_python_as_the_bytes_that_it_is_if_no_sql_is_sparks(
    run: Runner, lake: Lake, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    plans: list[str] = []

    def recording(rows: DataFrame, stage: Stage, ddl: str) -> DataFrame:
        mapped = map_in_arrow(rows, stage, ddl)
        plans.append(mapped._jdf.queryExecution().executedPlan().toString())
        return mapped

    monkeypatch.setattr(micro_batch, "map_in_arrow", recording)
    topic = new_topic()
    topic.send([(None, b'{"id": "a", "quantity": 1}'), (None, b"no json"), (None, b'{"id": "b", "quantity": 2}')])
    wanted = lake.resource(
        topic.source(),
        format={"type": "json", "schema": "id STRING, quantity INT"},
        transform={"sql": sql},
        table={"recordKey": ["id"]},
    )

    progress = run.once(wanted)

    assert (progress.rows, progress.rejected) == (3, 1)
    assert [each["value"] for each in lake.letters()] == [b"no json"]
    assert len(plans) == 3, "rows, write tasks, and the one message that is no row"
    assert not any("from_json" in plan for plan in plans)


def test_each_of_two_tasks_writes_half_of_the_file_groups(
    run: Runner, lake: Lake, tmp_path: Any, written: list[tuple[str, list[WriteStatus]]]
) -> None:
    (tmp_path / "in").mkdir()
    wanted = lake.resource(
        {"files": {"path": str(tmp_path / "in"), "format": "json", "schema": "id STRING, part STRING"}},
        table={"recordKey": ["id"], "partitionBy": ["part"], "index": {"buckets": 8}, "writeTasks": 2},
    )
    for batch in range(2):  # the first creates the partitions, the second finds them
        rows = [{"id": f"{batch}-{number}", "part": f"p{number % 4}"} for number in range(2000)]
        (tmp_path / "in" / f"{batch}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
        run.once(wanted)

    assert len(written) == 2
    for _, statuses in written:
        tasks = Counter(status.task for status in statuses)
        assert tasks == {0: 16, 1: 16}
        of_partition: defaultdict[str, Counter[int]] = defaultdict(Counter)
        for status in statuses:
            of_partition[status.partition_path][status.task] += 1
        assert set(of_partition) == {f"p{number}" for number in range(4)}


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("sql", "repeatable"),
    [
        ("SELECT * FROM source", True),
        ("SELECT *, current_date() AS day, now() AS at FROM source", True),
        ("SELECT *, rand() AS chance FROM source", False),
        ("SELECT *, uuid() AS mark FROM source", False),
    ],
)
def test_sql_that_gives_other_rows_each_time_is_distinguished_from_sql_that_does_not(
    spark: SparkSession, lake: Lake, new_topic: NewTopic, sql: str, repeatable: bool
) -> None:
    """With a kept batch time, the date is the same each time."""
    wanted = lake.resource(
        new_topic().source(),
        format={"type": "json", "schema": "id STRING"},
        transform={"sql": sql},
        table={"recordKey": ["id"]},
    )
    assert RowShape(wanted, None).is_repeatable(read_source(spark, wanted)) is repeatable
