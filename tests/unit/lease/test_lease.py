from __future__ import annotations

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from bucketingest.exit_codes import ExitCode
from bucketingest.hudi.lock.process_identity import ProcessIdentity
from bucketingest.lease.objects import newest_lease
from bucketingest.lease.record import DRIFT, KEPT, LeaseLost, LeaseNotRenewed, TableLeased
from bucketingest.lease.table_lease import TableLease
from bucketingest.storage import Storage, StorageUnavailable, open_storage
from support.locks.clocks import FakeClock
from support.locks.leases import VALIDITY, Acquire, numbers, owner
from support.storage.dated_storage import DatedStorage
from support.storage.flaky_storage import FlakyStorage


def test_a_table_is_held_by_one_job_whatever_its_pipeline(acquire: Acquire) -> None:
    acquire(owner("shop/orders")).check()
    for pipeline in ("shop/orders", "shop/other"):
        with pytest.raises(TableLeased):
            acquire(owner(pipeline))


def test_the_refusal_names_the_holder_since_when_and_what_to_do(acquire: Acquire, clock: FakeClock) -> None:
    lease = acquire(owner("shop/orders"))
    lease.set_epoch(7)
    clock.advance(timedelta(seconds=10))
    lease.renew()
    with pytest.raises(TableLeased) as refused:
        acquire(owner("shop/other"))
    for part in ("shop/orders (epoch 7)", "process 4711 on host-1", "since 2026-11-21 09:00:00", "until", "Stop that"):
        assert part in str(refused.value)


def test_the_refusal_promises_no_end_while_the_holder_lives(acquire: Acquire) -> None:
    acquire(owner("shop/orders", ProcessIdentity.own()))
    with pytest.raises(TableLeased, match="Its process lives, and renews the lease until it ends") as held:
        acquire(owner("shop/other"))
    assert "within" not in str(held.value)


def test_a_released_table_is_free_immediately(acquire: Acquire) -> None:
    first = acquire()
    first.release()
    acquire(owner("shop/other")).check()
    with pytest.raises(LeaseLost, match="released"):
        first.check()


def test_nobody_waits_for_a_holder_on_a_host_that_has_ended_and_for_no_other_it_helps(acquire: Acquire) -> None:
    acquire()
    with pytest.raises(TableLeased):
        acquire(owner("shop/other"), ended_hosts={"host-10", "host"})
    acquire(owner("shop/other"), ended_hosts={"host-1"}).check()


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
    with pytest.raises(LeaseLost, match=r"took the table: pipeline shop/other"):
        lease.renew()
    with pytest.raises(LeaseLost, match="took the table"):
        lease.check()


def test_a_store_that_does_not_answer_is_named_and_a_process_that_was_paused_too(
    acquire: Acquire, clock: FakeClock, storage: Storage
) -> None:
    """Who is paged looks at the store in one case, and for another job in the other."""
    failing = [False]
    lease = acquire(at=FlakyStorage(storage, lambda path: failing[0]))
    clock.advance(VALIDITY)
    with pytest.raises(LeaseLost, match="the process was paused") as paused:
        lease.check()
    lease.renew()
    failing[0] = True
    with pytest.raises(StorageUnavailable):
        lease.renew()
    lease.check()
    failing[0] = False
    clock.advance(VALIDITY)
    with pytest.raises(LeaseNotRenewed, match="storage has not answered the renewal") as silent:
        lease.check()
    assert (paused.value.exit_code, silent.value.exit_code) == (ExitCode.FENCED_OUT, ExitCode.STORAGE_UNAVAILABLE)
    lease.renew()
    lease.check(VALIDITY / 2)


def test_a_margin_asks_for_more_than_the_present_moment(acquire: Acquire, clock: FakeClock) -> None:
    lease = acquire()
    lease.check(timedelta(seconds=19))
    with pytest.raises(LeaseLost):
        lease.check(timedelta(seconds=21))


def test_a_lease_that_ran_out_unnoticed_can_be_taken_up_again(acquire: Acquire, clock: FakeClock) -> None:
    lease = acquire()
    clock.advance(VALIDITY * 10)
    lease.renew()
    lease.check()


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_of_racers_exactly_one_gets_the_table(kind: str, storage: Storage, clock: FakeClock, tmp_path: Path) -> None:
    if kind == "file":
        storage = DatedStorage(open_storage(str(tmp_path), {"durable": "false"}), clock.wall)
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


def test_a_renewal_whose_answer_was_lost_is_its_own_when_retried(
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


def test_a_thread_renews_until_the_lease_is_released() -> None:
    storage = open_storage(f"memory://{uuid.uuid4()}")
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
