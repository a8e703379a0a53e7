"""A running job of many tables: topics come and go, tables rest or are parked, their services share one process."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from pyspark.sql import SparkSession

from bucketingest.hudi.timeline.instant import CLEAN, COMMIT
from bucketingest.lease.objects import newest_lease
from bucketingest.lease.record import LeaseOwner
from bucketingest.lease.table_lease import TableLease
from bucketingest.services import schedule
from bucketingest.services.worker import Request
from bucketingest.services.worker_process import KeptProcess, WorkerProcess
from bucketingest.storage import open_storage
from bucketingest.stream.tables import running, topics_look, turns
from support.jobs.many_running import runs
from support.jobs.many_topics import Topics

pytestmark = pytest.mark.kafka


def test_topics_come_and_go_and_the_others_are_not_disturbed(
    spark: SparkSession, topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    assert topics_look.LIST_SECONDS + 1 < 30, "a new topic has a table within 30 s"
    topics.make("stays", "goes")
    topics.send("stays", 0, 10)
    topics.send("goes", 0, 10)
    with runs(spark, topics) as lake:
        lake.until(lake.has(stays=10, goes=10))
        topics.make("new")
        topics.send("new", 0, 7)
        topics.broker.delete_topic(topics.prefix + "goes")
        topics.send("stays", 10, 10)
        lake.until(lake.has(stays=20, new=7))
        lake.until(lambda: lake.reports()["goes"].state == "gone")
        topics.send("stays", 20, 10)
        lake.until(lake.has(stays=30, new=7))
        assert {name: each.failures for name, each in lake.reports().items()} == {"stays": 0, "goes": 0, "new": 0}
    assert "Kafka does not answer" not in caplog.messages
    assert [topics.numbers(name) for name in ("stays", "goes", "new")] == [
        list(range(30)),
        list(range(10)),
        list(range(7)),
    ]


def test_a_parked_table_comes_back_from_its_own_position(spark: SparkSession, topics: Topics) -> None:
    """Another job holds one of the tables for a while."""
    topics.make("held", "free")
    topics.send("held", 0, 10)
    topics.send("free", 0, 10)
    with runs(spark, topics) as lake:
        lake.until(lake.has(held=10, free=10))
    with TableLease.acquire(lake.storage("held"), LeaseOwner("another"), wait=timedelta(0)):
        topics.send("held", 10, 5)
        topics.send("free", 10, 5)
        with runs(spark, topics) as lake:
            lake.until(lake.has(free=5))
            lake.until(lambda: lake.reports()["held"].failures >= 2)
            parked = lake.reports()["held"]
            assert parked.state == "parked"
            assert "another job holds this table" in (parked.reason or "")
            topics.send("held", 15, 5)
            topics.send("free", 15, 5)
            lake.until(lake.has(free=10))
    with runs(spark, topics) as lake:
        lake.until(lake.has(held=10))
    assert topics.numbers("held") == topics.numbers("free") == list(range(20))


def test_a_parked_table_comes_back_in_the_same_job(spark: SparkSession, topics: Topics) -> None:
    topics.make("held", "free")
    topics.send("held", 0, 10)
    other = TableLease.acquire(open_storage(str(topics.table("held"))), LeaseOwner("another"), wait=timedelta(0))
    with runs(spark, topics) as lake:
        lake.until(lambda: "held" in lake.reports() and lake.reports()["held"].failures >= 2)
        other.release()
        lake.until(lake.has(held=10))
        assert (lake.reports()["held"].state, lake.reports()["held"].failures) == ("open", 0)
    assert topics.numbers("held") == list(range(10))


def test_a_table_without_input_gives_its_lease_back_and_its_next_row_opens_it(
    spark: SparkSession, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "_IDLE_SECONDS", 3.0)
    topics.make("quiet", "busy")
    topics.send("quiet", 0, 10)
    with runs(spark, topics) as lake:
        lake.until(lake.has(quiet=10))

        def is_released() -> bool:
            topics.send("busy", 0, 1)
            newest = newest_lease(lake.storage("quiet"))[1]
            return newest is not None and newest.released

        lake.until(is_released)
        assert lake.reports()["quiet"].state == "open"
        assert lake.reports()["quiet"].lag.offsets == 0
        topics.send("quiet", 10, 10)
        lake.until(lake.has(quiet=20))
    assert topics.numbers("quiet") == list(range(20))


def test_services_of_two_tables_work_in_turns_in_one_process(
    spark: SparkSession, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is compacted and cleaned, and no two of them work at a time."""
    monkeypatch.setattr(schedule, "FIRST_LOOK", timedelta(0))
    monkeypatch.setattr(schedule, "TIDY_EVERY", timedelta(seconds=1))
    monkeypatch.setattr("bucketingest.services.inline.LOOK_EVERY", timedelta(seconds=1))
    monkeypatch.setattr(turns, "REST_SHARE", 0.0)
    started: list[WorkerProcess] = []
    at_once: list[int] = []
    start = KeptProcess.start

    def recorded(self: KeptProcess, request: Request) -> WorkerProcess:
        at_once.append(sum(not each.has_ended() for each in started))
        started.append(start(self, request))
        return started[-1]

    monkeypatch.setattr(KeptProcess, "start", recorded)
    names = ("a", "b")
    topics.make(*names)
    sent = 0
    services = {"mode": "inline", "compaction": {"logFiles": 2}, "clean": {"versions": 1}}
    deadline = time.monotonic() + 240.0
    with runs(spark, topics, services=services) as lake:
        while not sent or not all({COMMIT, CLEAN} <= set(lake.actions(name)) for name in names):
            for name in names:
                topics.send(name, sent, 5)
            sent += 5
            lake.until(lake.has(**dict.fromkeys(names, sent)))
            assert time.monotonic() < deadline, {name: lake.actions(name) for name in names}
    assert set(at_once) == {0}, "one works at a time"
    assert len({each.pid for each in started}) < len(started)
    for name in names:
        assert topics.numbers(name) == list(range(sent))
