"""Real processes on one table: stopped, continued, killed, racing."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from bucketingest.lease.objects import age_of, newest_lease
from bucketingest.lease.record import DRIFT, LeaseOwner, TableLeased
from bucketingest.lease.table_lease import TableLease
from bucketingest.storage import Storage, open_storage
from devservers.s3 import S3Server
from support.locks.lease_holder import ask, hear, start_holder

VALIDITY = timedelta(seconds=1)
Start = Callable[[Storage, Mapping[str, str]], subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts processes that are gone after the test."""
    processes = []

    def one(storage: Storage, options: Mapping[str, str]) -> subprocess.Popen[str]:
        processes.append(start_holder(storage.url, options, VALIDITY))
        return processes[-1]

    yield one
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def on_disk(tmp_path: Path) -> Storage:
    return open_storage(str(tmp_path))


@pytest.fixture
def on_s3(s3_server: S3Server) -> Storage:
    bucket = f"lease-{uuid.uuid4().hex[:8]}"
    s3_server.create_bucket(bucket)
    return open_storage(f"s3://{bucket}/table", s3_server.options())


def take(storage: Storage, wait: timedelta = timedelta(0)) -> TableLease:
    return TableLease.acquire(
        storage, LeaseOwner("other"), wait=wait, validity=VALIDITY, sleep=lambda s: time.sleep(min(s, 0.05))
    )


def age(storage: Storage) -> timedelta:
    """Of the newest lease, by the storage's clock."""
    return age_of(storage, *newest_lease(storage))


def stop(process: subprocess.Popen[str]) -> None:
    """Stop it and wait until it is stopped."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)


def test_a_process_that_was_paused_past_its_lease_knows_when_it_wakes_up(on_disk: Storage, start: Start) -> None:
    holder = start(on_disk, {})
    assert hear(holder) == "held"
    assert ask(holder) == "held"
    stop(holder)
    with pytest.raises(TableLeased, match="holder"):
        take(on_disk)
    with take(on_disk, wait=VALIDITY + DRIFT + timedelta(seconds=30)) as lease:
        holder.send_signal(signal.SIGCONT)
        assert ask(holder).startswith("lost:")
        lease.check()


def test_the_table_of_a_killed_process_is_free_immediately_on_the_same_machine(on_disk: Storage, start: Start) -> None:
    holder = start(on_disk, {})
    assert hear(holder) == "held"
    with pytest.raises(TableLeased):
        take(on_disk)
    holder.kill()
    os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
    take(on_disk).release()


def test_a_table_on_an_object_store_is_held_the_same_way(on_s3: Storage, s3_server: S3Server, start: Start) -> None:
    holder = start(on_s3, s3_server.options())
    assert hear(holder) == "held"
    stop(holder)
    with pytest.raises(TableLeased, match="holder"):
        take(on_s3)
    with take(on_s3, wait=VALIDITY + DRIFT + timedelta(seconds=30)) as lease:
        holder.send_signal(signal.SIGCONT)
        assert ask(holder).startswith("lost:")
        lease.check()
    take(on_s3).release()


@pytest.mark.parametrize("place", ["on_disk", "on_s3"])
def test_a_job_whose_clock_is_ahead_takes_no_live_lease_and_immediately_one_long_dead(
    place: str, s3_server: S3Server, request: pytest.FixtureRequest
) -> None:
    storage: Storage = request.getfixturevalue(place)
    options = s3_server.options() if place == "on_s3" else {}
    validity = timedelta(seconds=3)
    holder = start_holder(storage.url, options, validity, elsewhere=True)
    try:
        assert hear(holder) == "held"
        asker = start_holder(storage.url, options, validity, ahead=timedelta(hours=1))
        assert hear(asker) == "", "refused"
        asker.communicate()
        stop(holder)
        while age(storage) <= validity + DRIFT:
            pass  # until so much of the storage's own time has passed
        take(storage).release()
    finally:
        holder.kill()
        holder.communicate()


@pytest.mark.parametrize("place", ["on_disk", "on_s3"])
def test_of_racing_processes_exactly_one_holds_the_table(
    place: str, s3_server: S3Server, start: Start, request: pytest.FixtureRequest
) -> None:
    storage: Storage = request.getfixturevalue(place)
    options = s3_server.options() if place == "on_s3" else {}
    racers = [start(storage, options) for _ in range(4)]
    assert sorted(hear(racer) for racer in racers) == ["", "", "", "held"]
