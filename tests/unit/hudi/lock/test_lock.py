from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from bucketingest.hudi.errors import LockHeld, UnsupportedTable
from bucketingest.hudi.lock.file_lock import LOCK_PATH as LOCK_FILE
from bucketingest.hudi.lock.hudi_lock import (
    FILE_SYSTEM_PATH_PROPERTY,
    PROVIDER_PROPERTY,
    HudiLock,
    LockSettings,
    Provider,
    chosen_provider,
    open_lock,
)
from bucketingest.hudi.lock.storage_lock import LOCK_PATH as LOCK_OBJECT
from bucketingest.storage import Storage, open_storage
from support.locks.clocks import FakeClock

HUDIS = "org.apache.hudi.client.transaction.lock."
SETTINGS = LockSettings(wait=timedelta(seconds=5))


@pytest.fixture
def memory() -> Storage:
    return open_storage(f"memory://{uuid.uuid4()}")


@pytest.fixture
def disk(tmp_path: Path) -> Storage:
    return open_storage(str(tmp_path), {"durable": "false"})


class CountingForm:
    """A lock that others hold for the first tries."""

    def __init__(self, held_for: int = 0) -> None:
        self.held_for = held_for
        self.events: list[str] = []

    def try_take(self) -> CountingForm | str:
        if self.held_for > 0:
            self.held_for -= 1
            return "another writer, until noon"
        self.events.append("taken")
        return self

    def check(self) -> None:
        self.events.append("checked")

    def release(self) -> None:
        self.events.append("released")


def lock_of(form: CountingForm, clock: FakeClock, wait: float = 5) -> HudiLock:
    return HudiLock(form, timedelta(seconds=wait), where="s3://lake/orders", monotonic=clock.forward, sleep=clock.sleep)


def test_the_lock_is_released_whatever_happens_inside() -> None:
    form = CountingForm()

    def fail_inside() -> None:
        with lock_of(form, FakeClock()).held() as held:
            held.check()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_inside()
    assert form.events == ["taken", "checked", "released"]


def test_a_thread_that_holds_the_lock_may_enter_again() -> None:
    form = CountingForm()
    lock = lock_of(form, FakeClock())
    with lock.held(), lock.held() as inner:
        inner.check()
    with lock.held():
        pass
    assert form.events == ["taken", "checked", "released", "taken", "released"]


def test_another_thread_can_check_whether_the_lock_is_still_held() -> None:
    form = CountingForm()
    lock = lock_of(form, FakeClock())
    lock.check()
    assert form.events == []
    with lock.held():
        lock.check()
    assert form.events == ["taken", "checked", "released"]


def test_who_waits_gets_the_lock_when_it_is_free() -> None:
    clock, form = FakeClock(), CountingForm(held_for=3)
    with lock_of(form, clock).held():
        assert form.events == ["taken"]
    assert len(clock.slept) == 3


def test_waiting_is_bounded_and_says_who_holds_the_lock() -> None:
    clock = FakeClock()
    with (
        pytest.raises(LockHeld, match=r"s3://lake/orders: .*held by another writer, until noon; waited 5 s"),
        lock_of(CountingForm(held_for=1000), clock).held(),
    ):
        pytest.fail("entered")
    assert sum(clock.slept) == pytest.approx(5)


def test_threads_of_one_process_exclude_each_other() -> None:
    form = CountingForm()
    lock = lock_of(form, FakeClock(), wait=0.01)
    refused: list[LockHeld] = []

    def enter() -> None:
        try:
            with lock.held():
                pass
        except LockHeld as error:
            refused.append(error)

    with lock.held():
        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
    assert len(refused) == 1
    enter()
    assert len(refused) == 1


def test_without_a_lock_nothing_is_held_and_nothing_lost(disk: Storage) -> None:
    with open_lock(disk, {}, LockSettings("none"), "us").held() as held:
        held.check()


@pytest.mark.parametrize(
    ("place", "wanted", "named", "expected"),
    [
        ("memory", "auto", None, "storage"),
        ("disk", "auto", None, "none"),
        ("disk", "auto", "FileSystemBasedLockProvider", "fileSystem"),
        ("memory", "auto", "StorageBasedLockProvider", "storage"),
        ("memory", "auto", "InProcessLockProvider", "none"),
        ("memory", "none", "StorageBasedLockProvider", "none"),
        ("memory", "none", "ZookeeperBasedLockProvider", "none"),
        ("disk", "fileSystem", None, "fileSystem"),
        ("memory", "storage", None, "storage"),
    ],
)
def test_the_lock_is_what_the_spec_says_then_what_the_table_says(
    request: pytest.FixtureRequest, place: str, wanted: Provider, named: str | None, expected: str
) -> None:
    properties = {} if named is None else {PROVIDER_PROPERTY: HUDIS + named}
    assert chosen_provider(request.getfixturevalue(place), properties, wanted) == expected


@pytest.mark.parametrize(
    ("place", "wanted", "properties", "reason"),
    [
        ("disk", "storage", {}, "compare-and-swap"),
        ("memory", "fileSystem", {}, "for file systems"),
        ("disk", "auto", {PROVIDER_PROPERTY: f"{HUDIS}StorageBasedLockProvider"}, "compare-and-swap"),
        ("memory", "auto", {PROVIDER_PROPERTY: f"{HUDIS}ZookeeperBasedLockProvider"}, "cannot take that lock"),
        ("disk", "fileSystem", {FILE_SYSTEM_PATH_PROPERTY: "/locks"}, "/locks"),
    ],
)
def test_a_lock_that_cannot_be_taken_is_refused_with_what_to_do(
    request: pytest.FixtureRequest, place: str, wanted: Provider, properties: dict[str, str], reason: str
) -> None:
    with pytest.raises(UnsupportedTable, match=reason):
        chosen_provider(request.getfixturevalue(place), properties, wanted)


@pytest.mark.parametrize("written", ["{root}/.hoodie", "file:{root}/.hoodie", "file://{root}/.hoodie/"])
def test_hudis_default_place_of_the_lock_file_may_be_written_out(disk: Storage, written: str) -> None:
    properties = {FILE_SYSTEM_PATH_PROPERTY: written.format(root=disk.url)}
    assert chosen_provider(disk, properties, "fileSystem") == "fileSystem"


@pytest.mark.parametrize(("place", "path"), [("memory", LOCK_OBJECT), ("disk", LOCK_FILE)])
def test_two_writers_take_turns(request: pytest.FixtureRequest, place: str, path: str) -> None:
    storage: Storage = request.getfixturevalue(place)
    wanted: Provider = "storage" if place == "memory" else "fileSystem"
    make: Callable[[str], HudiLock] = lambda owner: open_lock(  # noqa: E731
        storage, {}, LockSettings(wanted, wait=timedelta(seconds=60)), owner
    )
    inside: list[str] = []
    entered: list[str] = []

    def work(owner: str) -> None:
        lock = make(owner)
        for _ in range(5):
            with lock.held() as held:
                inside.append(owner)
                assert inside == [owner]
                assert storage.exists(path)
                held.check()
                inside.remove(owner)
                entered.append(owner)

    threads = [threading.Thread(target=work, args=(owner,)) for owner in ("first", "second")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(entered) == ["first"] * 5 + ["second"] * 5
