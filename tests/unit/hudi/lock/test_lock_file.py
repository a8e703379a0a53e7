from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from bucketingest.hudi.errors import LockLost
from bucketingest.hudi.lock.file_lock import LOCK_PATH, FileLock, HeldFileLock
from bucketingest.hudi.lock.process_identity import ProcessIdentity
from bucketingest.storage import Data, Storage, open_storage
from bucketingest.storage.local.storage import LocalStorage
from support.locks.clocks import FakeClock

VALIDITY = timedelta(seconds=30)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(str(tmp_path), {"durable": "false"})


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def lock(storage: Storage, clock: FakeClock, owner: str = "us") -> FileLock:
    return FileLock(storage, owner, VALIDITY, clock=clock.wall)


def take(of: FileLock) -> HeldFileLock:
    held = of.try_take()
    assert isinstance(held, HeldFileLock), held
    return held


def test_the_file_is_there_while_the_lock_is_held(storage: Storage, clock: FakeClock, tmp_path: Path) -> None:
    held = take(lock(storage, clock))
    assert (tmp_path / ".hoodie" / "lock").is_file()
    held.check()
    assert isinstance(lock(storage, clock, "other").try_take(), str)
    held.release()
    assert not (tmp_path / ".hoodie" / "lock").exists()


def test_a_file_of_hudi_is_respected_forever(storage: Storage, clock: FakeClock) -> None:
    storage.create(LOCK_PATH, b"")
    clock.advance(timedelta(days=365))
    said = lock(storage, clock).try_take()
    assert isinstance(said, str)
    assert "a Hudi writer" in said
    assert LOCK_PATH in said
    assert storage.get(LOCK_PATH) == b""


def test_our_own_file_is_removed_when_it_has_expired(storage: Storage, clock: FakeClock) -> None:
    late = take(lock(storage, clock))
    clock.advance(VALIDITY)
    assert isinstance(lock(storage, clock, "other").try_take(), str)
    assert storage.exists(LOCK_PATH)
    clock.advance(timedelta(seconds=3))
    other = lock(storage, clock, "other")
    assert isinstance(other.try_take(), str)
    held = take(other)
    with pytest.raises(LockLost):
        late.check()
    late.release()
    held.check()


def test_a_file_of_a_dead_process_is_removed_immediately(
    storage: Storage, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(lock(storage, clock))
    monkeypatch.setattr(ProcessIdentity, "is_dead", lambda process: True)
    other = lock(storage, clock, "other")
    assert isinstance(other.try_take(), str)
    take(other).check()


def test_a_file_that_hudi_emptied_or_removed_is_lost_and_not_deleted(storage: Storage, clock: FakeClock) -> None:
    held = take(lock(storage, clock))
    storage.put(LOCK_PATH, b"")
    with pytest.raises(LockLost, match="another writer took"):
        held.check()
    held.release()
    assert storage.exists(LOCK_PATH)
    storage.delete(LOCK_PATH)
    with pytest.raises(LockLost):
        held.check()
    held.release()


def test_hudi_coming_at_the_same_moment_wins(storage: Storage, clock: FakeClock) -> None:
    class Truncating(LocalStorage):
        def create(self, path: str, data: Data) -> None:
            super().create(path, data)
            super().put(path, b"")

    said = lock(Truncating(storage.url, durable=False), clock).try_take()
    assert isinstance(said, str)
    assert "at the same moment" in said
    assert storage.get(LOCK_PATH) == b""
