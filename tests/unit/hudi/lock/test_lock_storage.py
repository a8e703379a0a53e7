from __future__ import annotations

import uuid
from datetime import timedelta

import pytest

from bucketingest.exit_codes import ExitCode
from bucketingest.hudi.errors import InvalidTable, LockLost, LockNotRenewed
from bucketingest.hudi.lock.storage_lock import CLOCK_DRIFT, LOCK_PATH, HeldStorageLock, LockContent, StorageLock
from bucketingest.storage import ConditionalStorage, Data, StorageUnavailable, Version, open_storage
from bucketingest.storage.remote.object_storage import ObjectStorage
from support.locks.clocks import FakeClock

VALIDITY = timedelta(seconds=30)


@pytest.fixture
def storage() -> ConditionalStorage:
    storage = open_storage(f"memory://{uuid.uuid4()}")
    assert isinstance(storage, ConditionalStorage)
    return storage


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def lock(storage: ConditionalStorage, clock: FakeClock, owner: str = "us") -> StorageLock:
    return StorageLock(storage, owner, VALIDITY, clock=clock.wall, monotonic=clock.forward)


def take(of: StorageLock) -> HeldStorageLock:
    held = of.try_take()
    assert isinstance(held, HeldStorageLock), held
    return held


def stored(storage: ConditionalStorage) -> LockContent:
    return LockContent.decode(storage.get(LOCK_PATH), LOCK_PATH)


def now_ms(clock: FakeClock) -> int:
    return int(clock.wall().timestamp() * 1000)


def test_the_object_is_what_hudi_writes(storage: ConditionalStorage, clock: FakeClock) -> None:
    content = LockContent(expired=False, valid_until_ms=1795255629939, owner="8e80b1c3-0764-4d7b-b129-feaba5c31eb3")
    assert content.encode() == (
        b'{"expired":false,"validUntil":1795255629939,"owner":"8e80b1c3-0764-4d7b-b129-feaba5c31eb3"}'
    )
    held = take(lock(storage, clock))
    written = stored(storage)
    assert (written.expired, written.valid_until_ms) == (False, now_ms(clock) + 30_000)
    held.release()
    assert stored(storage) == LockContent(expired=True, valid_until_ms=written.valid_until_ms, owner=written.owner)


def test_fields_that_a_later_hudi_adds_are_tolerated() -> None:
    content = b'{"expired":true,"validUntil":1,"owner":"x","since":7}'
    assert LockContent.decode(content, LOCK_PATH) == LockContent(expired=True, valid_until_ms=1, owner="x")


def test_an_object_that_is_not_a_lock_is_not_overwritten(storage: ConditionalStorage, clock: FakeClock) -> None:
    storage.create(LOCK_PATH, b"{}")
    with pytest.raises(InvalidTable, match="table_lock"):
        lock(storage, clock).try_take()
    assert storage.get(LOCK_PATH) == b"{}"


def test_a_lock_that_hudi_holds_is_respected_until_it_expires(storage: ConditionalStorage, clock: FakeClock) -> None:
    until = now_ms(clock) + 10_000
    storage.create(LOCK_PATH, LockContent(expired=False, valid_until_ms=until, owner="a-java-writer").encode())
    own = lock(storage, clock)
    clock.advance(timedelta(seconds=10) + CLOCK_DRIFT)
    said = own.try_take()
    assert isinstance(said, str)
    assert "a-java-writer, valid until 2026-11-21 09:00:10 UTC" in said
    clock.advance(timedelta(milliseconds=1))
    take(own).release()


def test_a_lock_that_hudi_released_is_free(storage: ConditionalStorage, clock: FakeClock) -> None:
    until = now_ms(clock) + 300_000
    storage.create(LOCK_PATH, LockContent(expired=True, valid_until_ms=until, owner="a-java-writer").encode())
    take(lock(storage, clock)).release()


def test_one_of_two_writers_gets_the_lock(storage: ConditionalStorage, clock: FakeClock) -> None:
    held = take(lock(storage, clock))
    assert isinstance(lock(storage, clock).try_take(), str)
    held.check()
    held.release()


def test_a_lock_that_is_not_renewed_ends_for_us_well_before_others_take_it(
    storage: ConditionalStorage, clock: FakeClock
) -> None:
    held = take(lock(storage, clock))
    clock.advance(VALIDITY * 2 / 3)
    with pytest.raises(LockLost):
        held.check()
    assert isinstance(lock(storage, clock).try_take(), str)
    held.release()


class Forgetful(ObjectStorage):
    """Loses the answers of replaces while `losing` is set."""

    losing = False
    reads = 0

    def replace(self, path: str, data: Data, version: Version) -> Version:
        done = super().replace(path, data, version)
        if self.losing:
            raise StorageUnavailable(f"{path}: no answer")
        return done

    def get_versioned(self, path: str) -> tuple[bytes, Version]:
        self.reads += 1
        return super().get_versioned(path)


@pytest.fixture
def forgetful(storage: ConditionalStorage) -> Forgetful:
    assert isinstance(storage, ObjectStorage)
    return Forgetful(storage._location)


def test_a_store_that_does_not_answer_is_named_and_a_process_that_was_paused_too(
    forgetful: Forgetful, clock: FakeClock
) -> None:
    held = take(lock(forgetful, clock))
    clock.advance(VALIDITY)
    with pytest.raises(LockLost, match="the process was paused") as paused:
        held.check()
    assert held.renew()
    forgetful.losing = True
    with pytest.raises(StorageUnavailable):
        held.renew()
    held.check()
    clock.advance(VALIDITY)
    with pytest.raises(LockNotRenewed, match="storage has not answered the renewal") as silent:
        held.check()
    assert (paused.value.exit_code, silent.value.exit_code) == (ExitCode.FENCED_OUT, ExitCode.STORAGE_UNAVAILABLE)


def test_a_lock_that_is_renewed_stays(storage: ConditionalStorage, clock: FakeClock) -> None:
    held = take(lock(storage, clock))
    for _ in range(10):
        clock.advance(VALIDITY / 3)
        assert held.renew()
        held.check()
        assert isinstance(lock(storage, clock).try_take(), str)
    held.release()


def test_a_lock_that_another_writer_took_is_lost_and_not_released(
    storage: ConditionalStorage, clock: FakeClock
) -> None:
    held = take(lock(storage, clock))
    clock.advance(VALIDITY * 2)
    other = take(lock(storage, clock, "other"))
    assert not held.renew()
    with pytest.raises(LockLost):
        held.check()
    held.release()
    other.check()
    assert not stored(storage).expired
    other.release()


def test_a_lock_taken_without_an_answer_is_held_at_the_next_try(forgetful: Forgetful, clock: FakeClock) -> None:
    own = lock(forgetful, clock)
    take(own).release()
    forgetful.losing = True
    with pytest.raises(StorageUnavailable):
        own.try_take()
    forgetful.losing = False
    held = take(own)
    held.check()
    held.release()


def test_a_renewal_without_an_answer_does_not_lose_the_lock(forgetful: Forgetful, clock: FakeClock) -> None:
    held = take(lock(forgetful, clock))
    forgetful.losing = True
    with pytest.raises(StorageUnavailable):
        held.renew()
    forgetful.losing = False
    assert held.renew()
    held.release()
    assert stored(forgetful).expired


def test_a_release_that_fails_leaves_the_lock_to_expire(forgetful: Forgetful, clock: FakeClock) -> None:
    held = take(lock(forgetful, clock))
    forgetful.losing = True
    held.release()


def test_a_lock_that_no_writer_took_meanwhile_is_taken_again_without_reading(
    forgetful: Forgetful, clock: FakeClock
) -> None:
    own = lock(forgetful, clock)
    take(own).release()
    reads = forgetful.reads
    take(own).release()
    assert forgetful.reads == reads
    take(lock(forgetful, clock, "other")).release()
    take(own).release()
    assert forgetful.reads > reads
