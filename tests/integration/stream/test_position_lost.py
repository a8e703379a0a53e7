"""A table that is rolled back behind a running query: the query ends, whatever it is about to do, and starts again."""

from __future__ import annotations

import threading
import time

import pytest
from pyspark.sql import SparkSession

from bucketingest.exit_codes import ExitCode
from bucketingest.storage import open_storage
from bucketingest.stream import ingest_resource
from bucketingest.stream import running as running_module
from bucketingest.write.coordinator import InstantCoordinator
from bucketingest.write.coordinator_api import Commit
from bucketingest.write.errors import PositionLost
from support.jobs.stream_runs import WAIT_SECONDS_MAX, Lake
from support.tables.other_writers import roll_back_completed
from support.tables.table_runs import TestTable

LOSSES = 2


def test_a_query_without_a_pause_between_its_micro_batches_is_started_again_each_time(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_if_due = InstantCoordinator.commit_if_due
    lost: list[str] = []
    enough = threading.Event()

    def losing(coordinator: InstantCoordinator) -> Commit | None:
        if len(lost) < LOSSES:
            lost.append(str(coordinator.inflight))
            raise PositionLost("another writer took the open instant")
        enough.set()
        return commit_if_due(coordinator)

    monkeypatch.setattr(InstantCoordinator, "commit_if_due", losing)
    commit = {"mode": "interval", "interval": "30s", "trigger": "0s"}
    running = ingest_resource(
        spark, lake.resource({"rate": {"rowsPerSecond": 200}}, table={"recordKey": ["value"]}, commit=commit)
    )
    waiting = threading.Thread(target=running.wait, daemon=True)
    waiting.start()
    started_anew = enough.wait(WAIT_SECONDS_MAX)
    running.request_stop()  # also ends what would wait for ever
    waiting.join(WAIT_SECONDS_MAX)

    assert started_anew
    assert not waiting.is_alive()
    assert running.progress().position_losses == LOSSES
    values = lake.rows()["value"].to_pylist()
    assert sorted(values) == list(range(len(values))), "every row once"


def test_a_pipeline_whose_commits_another_writer_rolls_back_again_and_again_ends(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_module, "RESTARTS_MAX", 1)
    resource = lake.resource({"rate": {"rowsPerSecond": 200}}, table={"recordKey": ["value"]})
    running = ingest_resource(spark, resource)
    table, gone = TestTable(), set[str]()
    table.storage = open_storage(str(lake.table))
    deadline = time.monotonic() + WAIT_SECONDS_MAX

    def rolled_back_again_and_again() -> None:
        while time.monotonic() < deadline and not running.wait(0.2):
            newest = table.timeline().completed_commits[-1:]
            if newest and newest[0].request_time not in gone and len(gone) == running.progress().position_losses:
                gone.add(newest[0].request_time)
                roll_back_completed(table, newest[0].request_time)

    with pytest.raises(PositionLost) as ended:
        rolled_back_again_and_again()
    assert ended.value.exit_code is ExitCode.POSITION_LOST
    assert running.progress().position_losses == len(gone) == LOSSES
