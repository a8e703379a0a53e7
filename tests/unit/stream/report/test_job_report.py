"""`/progress` as a document, and its description for users."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bucketingest.errors import BucketIngestError
from bucketingest.index.state.summary import StateSummary
from bucketingest.services.clustering.propose import SmallGroups
from bucketingest.services.compaction.propose import LogBacklog
from bucketingest.services.placement import Home
from bucketingest.services.pods.waiting import PodWork
from bucketingest.services.state import ServicesState
from bucketingest.spec.job_report import (
    CatalogReport,
    CommitReport,
    DamagedFile,
    FilesReport,
    InflightReport,
    LagReport,
    Pin,
    ProgressReport,
    RefusedSchema,
    SchemasReport,
    ServicesReport,
    StateReport,
    TerminationReport,
    UnknownColumn,
)
from bucketingest.spec.model import BucketIngest
from bucketingest.stream.report.job_report import progress_report
from bucketingest.stream.report.metrics import JobMetrics
from bucketingest.stream.report.progress import Phase, Progress
from bucketingest.write.coordinator_api import Commit

DOCUMENTATION = (Path(__file__).parents[4] / "docs" / "job-contract.md").read_text()
AT = datetime(2026, 11, 21, 12, 0, 1, tzinfo=UTC)
DAMAGED = DamagedFile(file="eu/a.parquet", file_group="a", instant="20261121110000000", problem="it is gone")
AWAY = CatalogReport(
    catalog="glue eu-west-1 lake.t",
    behind_since=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    failures=2,
    problem="away",
)
PROGRESS = Progress(
    75.25,
    phase=Phase.IDLE,
    epoch=3,
    verdict="in step",
    verdict_reason="nothing was left",
    batches=4,
    batch=17,
    commits=2,
    rows=1000,
    deletes=5,
    rejected=1,
    size_bytes=2048,
    rows_per_second=13.33333,
    skew=1.25,
    last=Commit("20261121120000000", "20261121120001000", 2, 500, 4, 1000, open_seconds=1.0, commit_seconds=0.5),
    last_commit_age=3.0,
    last_commit_at=AT,
    inflight_instant="20261121120002000",
    inflight_age=1.5,
    lag_offsets=42,
    lag_seconds=2.0,
    idle=True,
    files=FilesReport(
        changed_files=1,
        changed=("a.csv",),
        unknown_columns=2,
        unknown=(UnknownColumn(column="more", file="b.csv"),),
    ),
    schemas=SchemasReport(
        refused_schemas=1, refused=(RefusedSchema(id=8, reason="has n"),), growths=2, last_growth="schema 7: note"
    ),
    last_report_at=AT,
    last_report_age=0.25,
    services=ServicesState(
        LogBacklog(12, 4096, AT),
        "20261121115900000",
        compactions=3,
        failures=1,
        failing=1,
        last_error=BucketIngestError("storage did not answer"),
        home=Home.JOB,
        why="it is large",
        pod_work=PodWork("20261121115900000", 7, 2, chunks=64, size=10**10),
        last_compaction="20261121115000000",
        last_compaction_at=AT,
        small_groups=SmallGroups(21, 2**20, 20),
        too_large="a of partition 'eu'",
        merged_groups=40,
        pins=(Pin(service="archive", by="the instant 20261121110000000 of another writer is open", seconds=60.0),),
        damage=(DAMAGED,),
    ),
    oldest_log_age=90.0,
    compacting_for=7.5,
    catalogs=(AWAY,),
    catalog_behind=7.0,
    state=StateSummary(9, 400, 2, 1, 3, 5, unloaded_partitions=6, new_keys_in_logs=True),
)


@pytest.fixture
def resource() -> BucketIngest:
    table = {"path": "/x", "recordKey": ["value"], "index": {"buckets": 1}}
    return BucketIngest.from_document(
        {
            "apiVersion": "bucketingest.dev/v1alpha1",
            "kind": "BucketIngest",
            "metadata": {"name": "orders", "namespace": "shop"},
            "spec": {"source": {"rate": {"rowsPerSecond": 1}}, "table": {**table, "orderingField": "timestamp"}},
        }
    )


def test_everything_is_reported_under_its_camel_case_name(resource: BucketIngest) -> None:
    assert json.loads(progress_report(resource, PROGRESS).model_dump_json(by_alias=True)) == {
        "pipeline": "shop/orders",
        "namespace": "shop",
        "name": "orders",
        "phase": "idle",
        "epoch": 3,
        "verdict": "in step",
        "verdictReason": "nothing was left",
        "runningSeconds": 75.25,
        "lastCommit": {
            "instant": "20261121120000000",
            "completionTime": "20261121120001000",
            "at": "2026-11-21T12:00:01Z",
            "rows": 500,
            "microBatches": 2,
            "latencySeconds": 1.5,
            "ageSeconds": 3.0,
        },
        "inflight": {"instant": "20261121120002000", "ageSeconds": 1.5},
        "lag": {"offsets": 42, "seconds": 2.0},
        "source": None,
        "files": {
            "changedFiles": 1,
            "changed": ["a.csv"],
            "unknownColumns": 2,
            "unknown": [{"column": "more", "file": "b.csv"}],
        },
        "schemas": {
            "refusedSchemas": 1,
            "refused": [{"id": 8, "reason": "has n"}],
            "growths": 2,
            "lastGrowth": "schema 7: note",
        },
        "idle": True,
        "batch": 17,
        "batches": 4,
        "commits": 2,
        "rows": 1000,
        "deletes": 5,
        "deadLetters": 1,
        "bytes": 2048,
        "rowsPerSecond": 13.333,
        "skew": 1.25,
        "services": {
            "logFiles": 12,
            "logBytes": 4096,
            "oldestLogSeconds": 90.0,
            "compacting": "20261121115900000",
            "compactingSeconds": 7.5,
            "compactions": 3,
            "failures": 1,
            "failing": 1,
            "mode": "auto",
            "home": "job",
            "why": "it is large",
            "oldestLogAt": "2026-11-21T12:00:01Z",
            "compactingAt": "2026-11-21T11:59:00Z",
            "lastCompaction": "20261121115000000",
            "lastCompactionAt": "2026-11-21T12:00:01Z",
            "lastFailure": "storage did not answer",
            "smallGroups": 21,
            "mergedGroups": 40,
            "tooLarge": "a of partition 'eu'",
            "pins": [
                {
                    "service": "archive",
                    "by": "the instant 20261121110000000 of another writer is open",
                    "seconds": 60.0,
                }
            ],
            "damagedFiles": 1,
            "damage": [
                {
                    "file": "eu/a.parquet",
                    "fileGroup": "a",
                    "instant": "20261121110000000",
                    "problem": "it is gone",
                }
            ],
            "job": {"compaction": "20261121115900000", "number": 7, "round": 2, "chunks": 64, "size": 10**10},
        },
        "catalogs": [
            {
                "catalog": "glue eu-west-1 lake.t",
                "behindSince": "2026-01-02T03:04:05Z",
                "failures": 2,
                "problem": "away",
            }
        ],
        "state": {
            "keys": 9,
            "stateBytes": 400,
            "fileGroups": 3,
            "loadedKeys": 5,
            "unloadedPartitions": 6,
            "newKeysInLogs": True,
        },
        "rollbacks": 0,
        "positionLosses": 0,
        "tables": None,
        "lastReportAt": "2026-11-21T12:00:01Z",
        "lastReportAgeSeconds": 0.25,
    }


def test_what_is_not_known_is_null(resource: BucketIngest) -> None:
    document = progress_report(resource, Progress(0.0)).model_dump(mode="json", by_alias=True)
    unknown = {name for name, value in document.items() if value is None}
    assert unknown == {
        "epoch",
        "verdict",
        "verdictReason",
        "lastCommit",
        "inflight",
        "source",
        "batch",
        "skew",
        "services",
        "tables",
        "files",
        "schemas",
        "state",
        "lastReportAt",
        "lastReportAgeSeconds",
    }
    assert document["lag"] == {"offsets": None, "seconds": None}


def test_a_reader_takes_a_document_of_a_newer_job(resource: BucketIngest) -> None:
    document = progress_report(resource, PROGRESS).model_dump(mode="json", by_alias=True)
    assert ProgressReport.model_validate({**document, "newField": 1}) == progress_report(resource, PROGRESS)


@pytest.mark.parametrize(
    "model",
    [
        ProgressReport,
        CommitReport,
        InflightReport,
        LagReport,
        ServicesReport,
        Pin,
        DamagedFile,
        CatalogReport,
        StateReport,
        TerminationReport,
    ],
)
def test_every_field_is_documented(model: type[ProgressReport]) -> None:
    for field in model.model_json_schema(by_alias=True)["properties"]:
        assert f"`{field}`" in DOCUMENTATION or f"lag.{field}" in DOCUMENTATION


def test_every_metric_is_documented() -> None:
    metrics = JobMetrics(namespace="", name="orders", pipeline="orders")
    metrics.watch(lambda: PROGRESS)
    names = [line.split()[2] for line in metrics.exposition().decode().splitlines() if line.startswith("# TYPE")]
    assert len(names) > 15
    for name in names:
        if not name.endswith("_created"):
            assert f"`{name}`" in DOCUMENTATION
