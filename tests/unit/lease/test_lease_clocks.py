"""Whose clock decides how long a lease is valid, and how long a job waits for it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bucketingest.hudi.errors import ClockError
from bucketingest.hudi.lock.process_identity import ProcessIdentity
from bucketingest.lease.record import DRIFT, LeaseLost, TableLeased
from bucketingest.lease.store_clock import DIFFERENCE_MAX
from bucketingest.storage import Storage, StorageUnavailable
from support.locks.clocks import FakeClock
from support.locks.leases import HERE, VALIDITY, Acquire, numbers, owner
from support.storage.flaky_storage import FlakyStorage


def test_time_is_counted_from_before_the_request_was_sent(acquire: Acquire, storage: Storage, clock: FakeClock) -> None:
    def passing_time(path: str) -> bool:
        clock.advance(VALIDITY)
        return False

    with pytest.raises(LeaseLost):
        acquire(at=FlakyStorage(storage, passing_time)).check()


def test_who_waits_gets_the_table_when_the_holder_stops_renewing(acquire: Acquire, clock: FakeClock) -> None:
    acquire()
    acquire(owner("shop/other"), wait=timedelta(minutes=1)).check()
    assert timedelta(seconds=sum(clock.slept)) < VALIDITY + DRIFT + timedelta(seconds=2)


def test_waiting_is_bounded(acquire: Acquire, clock: FakeClock) -> None:
    lease = acquire()

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        lease.renew()

    with pytest.raises(TableLeased, match="waited 60 s"):
        acquire(owner("shop/other"), wait=timedelta(minutes=1), sleep=sleep)
    assert sum(clock.slept) == 60


def test_a_wait_can_be_ended_by_its_sleep(acquire: Acquire) -> None:
    class Stop(Exception):
        pass

    def sleep(seconds: float) -> None:
        raise Stop

    acquire()
    with pytest.raises(Stop):
        acquire(owner("shop/other"), wait=timedelta(minutes=1), sleep=sleep)


def test_an_owner_whose_clock_was_ahead_blocks_the_table_no_longer_than_any_other(
    acquire: Acquire, clock: FakeClock
) -> None:
    ahead = FakeClock(clock.now + timedelta(minutes=4))
    acquire(clock=ahead.wall)
    acquire(owner("shop/other"), wait=timedelta(minutes=1)).check()
    assert timedelta(seconds=sum(clock.slept)) < VALIDITY + DRIFT + timedelta(seconds=2)


@pytest.mark.parametrize("ahead", [timedelta(seconds=22), timedelta(hours=5), timedelta(hours=-5)])
def test_the_clock_of_who_asks_decides_nothing(acquire: Acquire, clock: FakeClock, ahead: timedelta) -> None:
    lease = acquire()
    clock.advance(VALIDITY / 3)
    other = FakeClock(clock.now + ahead)
    with pytest.raises(TableLeased):
        acquire(owner("shop/other"), clock=other.wall)
    lease.renew()
    clock.advance(VALIDITY * 100)
    other.advance(VALIDITY * 100)
    if abs(ahead) < DIFFERENCE_MAX:
        acquire(owner("shop/other"), clock=other.wall).check()


@pytest.mark.parametrize(("ahead", "word"), [(timedelta(days=3), "ahead"), (timedelta(minutes=-6), "behind")])
def test_a_job_whose_clock_is_wrong_is_refused_and_holds_nothing(
    acquire: Acquire, clock: FakeClock, ahead: timedelta, word: str
) -> None:
    wrong = FakeClock(clock.now + ahead)
    with pytest.raises(ClockError, match=rf"clock shows {wrong.now:%Y-%m-%d %H:%M:%S} UTC, .* {word}, more than"):
        acquire(clock=wrong.wall)
    acquire(owner("shop/other")).check()


def test_a_clock_that_is_set_after_the_last_renewal_is_noticed(acquire: Acquire) -> None:
    job = FakeClock()
    lease = acquire(clock=job.wall, monotonic=job.forward)
    job.advance(timedelta(seconds=9))
    lease.check()
    job.now += timedelta(minutes=6)
    with pytest.raises(ClockError, match=r"0:06:\d\d.* ahead"):
        lease.check()
    job.now -= timedelta(minutes=6)
    lease.check()


def test_a_request_that_took_long_proves_nothing_about_the_clock(acquire: Acquire, storage: Storage) -> None:
    """The storage may have written the object at its beginning or at its end."""
    job = FakeClock()

    def slow(path: str) -> bool:
        job.advance(timedelta(minutes=7))
        return False

    lease = acquire(at=FlakyStorage(storage, slow), clock=job.wall, monotonic=job.forward, validity=timedelta(hours=1))
    lease.check()


def test_time_before_the_first_look_counts_by_the_clock_of_the_storage(acquire: Acquire, clock: FakeClock) -> None:
    acquire()
    clock.advance(VALIDITY - timedelta(seconds=5))
    acquire(owner("shop/other"), wait=timedelta(minutes=1)).check()
    assert timedelta(seconds=sum(clock.slept)) < timedelta(seconds=5) + DRIFT + timedelta(seconds=2)


def test_the_clock_of_the_storage_decides_nothing_about_a_process_that_lives_here(
    acquire: Acquire, clock: FakeClock
) -> None:
    acquire(owner("shop/orders", ProcessIdentity.own()))
    clock.now += timedelta(hours=1)  # a local file system's is this machine's, and was set
    with pytest.raises(TableLeased):
        acquire(owner("shop/other"))
    acquire(owner("shop/other"), wait=timedelta(minutes=1)).check()
    assert sum(clock.slept) > VALIDITY.total_seconds(), "seen unchanged for so long"


def test_asking_for_the_age_of_a_lease_leaves_nothing(acquire: Acquire, storage: Storage) -> None:
    acquire()
    with pytest.raises(TableLeased):
        acquire(owner("shop/other"))
    assert numbers(storage) == [1]


def test_an_age_of_a_lease_that_cannot_be_read_is_an_error(acquire: Acquire, storage: Storage) -> None:
    acquire()
    with pytest.raises(StorageUnavailable):
        acquire(owner("shop/other"), at=FlakyStorage(storage, lambda path: True))
    assert numbers(storage) == [1]


def test_no_job_waits_for_a_dead_process(acquire: Acquire, monkeypatch: pytest.MonkeyPatch) -> None:
    acquire()
    monkeypatch.setattr(ProcessIdentity, "is_dead", lambda process: process == HERE)
    acquire(owner("shop/other", ProcessIdentity.own())).check()
