"""What is said of a Kafka that does not answer: in `/progress`, `/readyz` and the metrics."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import cast

import pytest

from bucketingest.cli.job import Job
from bucketingest.cli.options import RunOptions
from bucketingest.spec.job_report import SourceReport
from bucketingest.spec.model import BucketIngest
from bucketingest.stream.report.board import ProgressBoard
from bucketingest.stream.report.endpoints import Answer
from bucketingest.stream.report.job_report import progress_report
from bucketingest.stream.report.metrics import JobMetrics
from bucketingest.stream.report.progress import Phase, Progress

PROBLEM = "Kafka at kafka:9092 does not answer within 5 s"
AWAY = SourceReport(
    bootstrap_servers="kafka:9092",
    answers=False,
    problem=PROBLEM,
    unanswered_seconds=12.5,
    open_transaction_seconds=None,
)
HERE = SourceReport(
    bootstrap_servers="kafka:9092",
    answering_seconds=30.0,
    open_transaction_seconds=7.0,
    open_transaction="orders partition 3 at offset 12",
)


def scraped(source: SourceReport | None) -> dict[str, str]:
    """The samples of the source's metrics."""
    metrics = JobMetrics(namespace="", name="orders", pipeline="orders")
    metrics.watch(lambda: Progress(1.0, source=source))
    lines = metrics.exposition().decode().splitlines()
    found = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    names = ("source_answers", "source_unanswered_seconds", "open_transaction_seconds")
    return {name: value for name in names for line, value in found.items() if line.startswith(f"bucketingest_{name}{{")}


def test_metrics_say_whether_kafka_answers_and_nothing_that_is_not_known() -> None:
    assert scraped(None) == {}
    assert scraped(AWAY) == {"source_answers": "0.0", "source_unanswered_seconds": "12.5"}
    assert scraped(HERE) == {
        "source_answers": "1.0",
        "source_unanswered_seconds": "0.0",
        "open_transaction_seconds": "7.0",
    }


def test_progress_says_what_is_wrong_and_where() -> None:
    resource = BucketIngest.from_document(
        {
            "apiVersion": "bucketingest.dev/v1alpha1",
            "kind": "BucketIngest",
            "metadata": {"name": "orders"},
            "spec": {"source": {"rate": {"rowsPerSecond": 1}}, "table": {"path": "/t", "recordKey": ["value"]}},
        }
    )
    said = progress_report(resource, Progress(1.0, phase=Phase.WAITING, source=AWAY)).model_dump(by_alias=True)
    assert said["phase"] == "waiting"
    assert said["source"] == {
        "bootstrapServers": "kafka:9092",
        "answers": False,
        "answeredAt": None,
        "answeringSeconds": 0.0,
        "unansweredSeconds": 12.5,
        "problem": PROBLEM,
        "openTransactionSeconds": None,
        "openTransaction": None,
    }
    said = progress_report(resource, Progress(1.0, source=HERE)).model_dump(by_alias=True)
    assert said["source"]["answeringSeconds"] == 30.0
    assert said["source"]["openTransaction"] == "orders partition 3 at offset 12"
    assert progress_report(resource, Progress(1.0)).source is None


@pytest.mark.parametrize(("source", "ready"), [(HERE, True), (AWAY, False)])
def test_a_job_whose_kafka_does_not_answer_is_not_ready(source: SourceReport, *, ready: bool) -> None:
    board = ProgressBoard()
    board.started(None, 1)
    board.source(source)
    routes = Job(RunOptions())._routes(cast(BucketIngest, None), board, lambda: b"")
    answer: Answer = routes["/readyz"]()
    assert (answer.status is HTTPStatus.OK) is ready
    assert json.loads(answer.body).get("problem") == (None if ready else PROBLEM)
