"""A table that is rolled back behind a running query: the query ends, whatever it is about to do, and starts again."""

from __future__ import annotations

import threading

import pytest
from pyspark.sql import SparkSession

from bucketingest.stream import ingest_resource
from bucketingest.write.coordinator import InstantCoordinator
from bucketingest.write.coordinator_api import Commit
from bucketingest.write.errors import PositionLost
from support.jobs.stream_runs import WAIT_SECONDS_MAX, Lake

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
