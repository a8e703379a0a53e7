"""What people see of schemas that messages are written with, and that the table takes or does not."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

from bucketingest.spec.job_report import RefusedSchema, SchemasReport
from bucketingest.spec.reading.load import load_file
from bucketingest.spec.status import Status
from bucketingest.stream.report.board import ProgressBoard
from bucketingest.stream.report.job_report import progress_report
from bucketingest.stream.report.metrics import JobMetrics
from bucketingest_operator.decide.pass_state import Pass
from bucketingest_operator.decide.status import Draft
from unit.stream.report.test_catalogs import EXAMPLE

NOW = datetime(2026, 1, 2, tzinfo=UTC)
LABELS = b'{name="p",namespace="n",pipeline="n/p"}'


def test_schemas_that_are_refused_or_taken_are_a_condition_an_event_and_metrics() -> None:
    board = ProgressBoard()
    metrics = JobMetrics(namespace="n", name="p", pipeline="n/p")
    metrics.watch(board.snapshot)
    events: list[tuple[Any, ...]] = []
    work = cast(Any, SimpleNamespace(draft=Draft(Status(), 1, NOW), seen=SimpleNamespace(contact=SimpleNamespace())))
    work.seen.contact.read_at = NOW
    work.event = lambda *event: events.append(event)

    def condition() -> tuple[str, str] | None:
        Pass.take_report(work, progress_report(load_file(EXAMPLE), board.snapshot()))
        found = work.draft.condition("SchemasTaken")
        return None if found is None else (found.status, found.reason)

    assert condition() is None, "without a registry there is none"
    assert b"bucketingest_refused_schemas{" not in metrics.exposition()
    board.schemas(SchemasReport())
    assert (condition(), events) == (("True", "AllTaken"), [])
    board.schemas(SchemasReport(growths=1, last_growth="schema 7: note, place.y"))
    assert condition() == condition() == ("True", "ColumnsGrown")
    grown = "schema 7: note, place.y"
    assert events == [("Normal", "ColumnsGrown", grown, grown)], "once"
    board.schemas(SchemasReport(refused_schemas=1, refused=(RefusedSchema(id=8, reason="has n"),), growths=1))
    assert condition() == condition() == ("False", "SchemaRefused")
    refused = "All messages of 1 schemas are dead letters: schema 8 has n."
    assert events[1:] == [("Warning", "SchemaRefused", refused, refused)]
    exposition = metrics.exposition()
    assert b"bucketingest_refused_schemas" + LABELS + b" 1.0" in exposition
    assert b"bucketingest_column_growths" + LABELS + b" 1.0" in exposition
