"""What people see of a catalog while a job runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa

from bucketingest.catalog.keeper import CatalogKeeper
from bucketingest.catalog.sync import HudiTarget
from bucketingest.spec.reading.load import load_file
from bucketingest.spec.status import Status
from bucketingest.storage import open_storage
from bucketingest.stream.report.board import ProgressBoard
from bucketingest.stream.report.job_report import progress_report
from bucketingest.stream.report.metrics import JobMetrics
from bucketingest_operator.decide.status import Draft
from support.catalogs.memory import MemoryCatalog
from support.catalogs.tables import SyncedTable

SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False), ("at", pa.timestamp("us", "UTC"))])
EXAMPLE = Path(__file__).parents[4] / "examples" / "rate-to-local.yaml"


def test_a_catalog_that_is_away_is_a_condition_and_a_metric_until_it_is_back(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    board = ProgressBoard(clock=lambda: now)
    metrics = JobMetrics(namespace="n", name="p", pipeline="n/p")
    metrics.watch(board.snapshot)
    SyncedTable((), "").write(tmp_path, SCHEMA)
    catalog = MemoryCatalog(fails_after=0)
    target = HudiTarget("memory lake.t", catalog.opened(), "t", "all")
    keeper = CatalogKeeper(open_storage(str(tmp_path)), target, board.catalog, lambda: 0, lambda: now)

    def condition() -> tuple[str, str]:
        draft = Draft(Status(), 1, now)
        draft.take_report(progress_report(load_file(EXAMPLE), board.snapshot()))
        found = draft.condition("CatalogSynced")
        assert found is not None
        assert ("memory lake.t: memory: it is away" in found.message) == (found.status == "False")
        return found.status, found.reason

    keeper.step()
    now += timedelta(minutes=20)
    assert condition() == ("False", "CatalogFails")
    assert b'bucketingest_catalog_behind_seconds{name="p",namespace="n",pipeline="n/p"} 1200.0' in metrics.exposition()
    assert b'bucketingest_catalog_failures_total{name="p",namespace="n",pipeline="n/p"} 1.0' in metrics.exposition()

    catalog.fails_after = None
    keeper.step()
    assert condition() == ("True", "Synced")
    assert b'bucketingest_catalog_behind_seconds{name="p",namespace="n",pipeline="n/p"} 0.0' in metrics.exposition()


def test_without_catalogs_there_is_neither() -> None:
    metrics = JobMetrics(namespace="n", name="p", pipeline="n/p")
    metrics.watch(ProgressBoard().snapshot)
    assert b"bucketingest_catalog_behind_seconds{" not in metrics.exposition()
    draft = Draft(Status(), 1, datetime.now(UTC))
    draft.set("CatalogSynced", "False", "CatalogFails")
    draft.take_report(progress_report(load_file(EXAMPLE), ProgressBoard().snapshot()))
    assert draft.condition("CatalogSynced") is None
