from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bucketingest.hudi.lock.process_identity import ProcessIdentity
from bucketingest.lease.objects import LEASES, newest_lease
from bucketingest.lease.record import DRIFT, KEPT, LeaseLost, LeaseOwner, TableLeased
from bucketingest.lease.table_lease import TableLease
from bucketingest.storage import Storage, StorageUnavailable, open_storage
from support.clocks import FakeClock
from support.dated_storage import DatedStorage
from support.flaky_storage import FlakyStorage

VALIDITY = timedelta(seconds=30)
HERE = ProcessIdentity("host-1", 4711)
"""A process of which nobody can say whether it is dead."""

Acquire = Callable[..., TableLease]


def owner(pipeline: str = "shop/orders", process: ProcessIdentity = HERE) -> LeaseOwner:
    return LeaseOwner(pipeline, process=process)


@pytest.fixture
def clock() -> FakeClock:
    """Of the storage, and of every job that has no other."""
    return FakeClock()


@pytest.fixture
def storage(clock: FakeClock) -> Storage:
    return DatedStorage(open_storage(f"memory://{uuid.uuid4()}"), clock.wall)


@pytest.fixture
def acquire(storage: Storage, clock: FakeClock) -> Iterator[Acquire]:
    """Acquires the table by a clock that stands still; what a test leaves held is released after it."""
    held: list[TableLease] = []

    def make(of: LeaseOwner | None = None, at: Storage | None = None, **settings: Any) -> TableLease:
        times: dict[str, Any] = {
            "clock": clock.wall,
            "monotonic": clock.forward,
            "sleep": clock.sleep,
            "wait": timedelta(0),
        }
        held.append(TableLease.acquire(at or storage, of or owner(), **(times | settings)))
        return held[-1]

    yield make
    for lease in held:
        lease.release()


def numbers(storage: Storage) -> list[int]:
    return sorted(int(info.path.rpartition("/")[2]) for info in storage.list(LEASES))


def test_a_table_is_held_by_one_job_whatever_its_pipeline(acquire: Acquire) -> None:
    acquire(owner("shop/orders")).check()
    for pipeline in ("shop/orders", "shop/other"):
        with pytest.raises(TableLeased):
            acquire(owner(pipeline))


def test_who_is_refused_reads_who_holds_the_table_since_when_and_what_to_do(acquire: Acquire, clock: FakeClock) -> None:
    lease = acquire(owner("shop/orders"))
    lease.set_epoch(7)
    clock.advance(timedelta(seconds=10))
    lease.renew()
    with pytest.raises(TableLeased) as refused:
        acquire(owner("shop/other"))
    for part in ("shop/orders (epoch 7)", "process 4711 on host-1", "since 2026-11-21 09:00:00", "until", "Stop that"):
        assert part in str(refused.value)


def test_a_released_table_is_free_at_once(acquire: Acquire) -> None:
    first = acquire()
    first.release()
    acquire(owner("shop/other")).check()
    with pytest.raises(LeaseLost, match="released"):
        first.check()


def test_a_lease_that_is_renewed_stays(acquire: Acquire, clock: FakeClock) -> None:
    lease = acquire()
    for _ in range(10):
        clock.advance(VALIDITY / 3)
        lease.renew()
        lease.check(VALIDITY / 3)
        with pytest.raises(TableLeased):
            acquire(owner("shop/other"))


def test_a_lease_that_is_not_renewed_ends_for_its_owner_well_before_others_may_take_it(
    acquire: Acquire, clock: FakeClock
) -> None:
    lease = acquire()
    clock.advance(VALIDITY * 2 / 3)
    with pytest.raises(LeaseLost, match="not renewed in time"):
        lease.check()
    clock.advance(VALIDITY / 3 + DRIFT)
    with pytest.raises(TableLeased):
        acquire(owner("shop/other"))
    clock.advance(timedelta(milliseconds=1))
    acquire(owner("shop/other")).check()
    with pytest.raises(LeaseLost, match=r"was taken: pipeline shop/other"):
        lease.renew()
    with pytest.raises(LeaseLost, match="was taken"):
        lease.check()


def test_a_margin_asks_for_more_than_the_present_moment(acquire: Acquire, clock: FakeClock) -> None:
    lease = acquire()
    lease.check(timedelta(seconds=19))
    with pytest.raises(LeaseLost):
        lease.check(timedelta(seconds=21))


def test_time_is_counted_from_before_the_request_was_sent(acquire: Acquire, storage: Storage, clock: FakeClock) -> None:
    def passing_time(path: str) -> bool:
        clock.advance(VALIDITY)
        return False

    with pytest.raises(LeaseLost):
        acquire(at=FlakyStorage(storage, passing_time)).check()


def test_a_lease_that_ran_out_unnoticed_can_be_taken_up_again(acquire: Acquire, clock: FakeClock) -> None:
    lease = acquire()
    clock.advance(VALIDITY * 10)
    lease.renew()
    lease.check()


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
    ahead = FakeClock(clock.now + timedelta(hours=5))
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
    acquire(owner("shop/other"), clock=other.wall).check()


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


def test_who_cannot_ask_for_the_age_of_a_lease_is_told_so(acquire: Acquire, storage: Storage) -> None:
    acquire()
    with pytest.raises(StorageUnavailable):
        acquire(owner("shop/other"), at=FlakyStorage(storage, lambda path: True))
    assert numbers(storage) == [1]


def test_nobody_waits_for_a_process_that_is_dead(acquire: Acquire, monkeypatch: pytest.MonkeyPatch) -> None:
    acquire()
    monkeypatch.setattr(ProcessIdentity, "is_dead", lambda process: process == HERE)
    acquire(owner("shop/other", ProcessIdentity.own())).check()


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_of_racers_exactly_one_gets_the_table(kind: str, storage: Storage, clock: FakeClock, tmp_path: Path) -> None:
    if kind == "file":
        storage = open_storage(str(tmp_path), {"durable": "false"})
    racers = 8
    for _ in range(5):
        start = threading.Barrier(racers)

        def compete(number: int, start: threading.Barrier = start) -> TableLease | None:
            start.wait()
            with suppress(TableLeased):
                return TableLease.acquire(
                    storage, owner(str(number)), wait=timedelta(0), clock=clock.wall, monotonic=clock.forward
                )
            return None

        with ThreadPoolExecutor(racers) as pool:
            winners = [lease for lease in pool.map(compete, range(racers)) if lease is not None]
        (winner,) = winners
        winner.check()
        winner.release()


def test_old_lease_objects_are_deleted_but_the_newest_stay(
    acquire: Acquire, storage: Storage, clock: FakeClock
) -> None:
    lease = acquire()
    for _ in range(20):
        lease.renew()
    assert numbers(storage) == list(range(22 - KEPT, 22))
    assert lease.number == 21


def test_a_request_that_was_held_up_until_its_number_was_free_again_takes_nothing(
    acquire: Acquire, storage: Storage, clock: FakeClock
) -> None:
    late = acquire()
    clock.advance(VALIDITY * 2)
    other = acquire(owner("shop/other"))
    for _ in range(2 * KEPT):
        other.renew()
    assert late.number + 1 not in numbers(storage)
    with pytest.raises(LeaseLost, match="shop/other"):
        late.renew()
    assert late.number + 1 not in numbers(storage)
    other.renew()
    other.check()


def test_a_renewal_whose_answer_was_lost_is_its_own_when_tried_again(
    acquire: Acquire, storage: Storage, clock: FakeClock
) -> None:
    failing = [False]
    flaky = FlakyStorage(storage, lambda path: failing[0], after_effect=True)
    lease = acquire(at=flaky)
    clock.advance(VALIDITY / 3)
    failing[0] = True
    with pytest.raises(StorageUnavailable):
        lease.renew()
    failing[0] = False
    clock.advance(VALIDITY / 3)
    lease.renew()
    assert lease.number == 2
    lease.check(VALIDITY / 3)  # counted from the first try
    with pytest.raises(LeaseLost):
        lease.check(VALIDITY / 3 + timedelta(seconds=1))


def test_a_release_after_a_renewal_of_unknown_outcome_still_frees_the_table(acquire: Acquire, storage: Storage) -> None:
    failing = [False]
    lease = acquire(at=FlakyStorage(storage, lambda path: failing[0], after_effect=True))
    failing[0] = True
    with pytest.raises(StorageUnavailable):
        lease.renew()
    failing[0] = False
    lease.release()
    acquire(owner("shop/other")).check()


def test_a_release_that_fails_leaves_the_lease_to_expire(acquire: Acquire, storage: Storage) -> None:
    failing = [False]
    lease = acquire(at=FlakyStorage(storage, lambda path: failing[0]))
    failing[0] = True
    lease.release()
    assert newest_lease(storage)[0] == 1


def test_a_thread_renews_until_the_lease_is_released(storage: Storage) -> None:
    renewed = threading.Semaphore(0)

    def count(path: str) -> bool:
        renewed.release()
        return False

    with TableLease.acquire(
        FlakyStorage(storage, count), owner(), wait=timedelta(0), validity=timedelta(milliseconds=300)
    ) as lease:
        for _ in range(4):
            assert renewed.acquire(timeout=20)
    names = [thread.name for thread in threading.enumerate()]
    assert f"lease-{lease.owner.pipeline}" not in names
    acquired = newest_lease(storage)[1]
    assert acquired is not None
    assert acquired.released
