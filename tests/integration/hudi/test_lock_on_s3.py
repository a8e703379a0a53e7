"""Hudi's lock object on a real S3 server, fought over by writers that share nothing but the store."""

from __future__ import annotations

import json
import threading
import uuid
from datetime import timedelta

import pytest

from bucketingest.hudi.lock.hudi_lock import HudiLock, LockSettings, open_lock
from bucketingest.hudi.lock.storage_lock import LOCK_PATH, LockContent
from bucketingest.storage import Storage, open_storage
from devservers.s3 import S3Server

pytestmark = pytest.mark.s3

WRITERS = 4
ROUNDS = 5


@pytest.fixture
def url(s3_server: S3Server) -> str:
    bucket = f"lock-{uuid.uuid4().hex[:8]}"
    s3_server.create_bucket(bucket)
    return f"s3://{bucket}/table"


@pytest.fixture
def storage(url: str, s3_server: S3Server) -> Storage:
    return open_storage(url, s3_server.options())


def lock_of(storage: Storage, owner: str) -> HudiLock:
    return open_lock(storage, {}, LockSettings(wait=timedelta(minutes=2)), owner)


def test_the_lock_object_is_hudis(storage: Storage) -> None:
    with lock_of(storage, "pipeline orders").held() as held:
        held.check()
        content = json.loads(storage.get(LOCK_PATH))
    released = json.loads(storage.get(LOCK_PATH))
    assert list(content) == ["expired", "validUntil", "owner"]
    assert content["owner"].startswith("pipeline orders ")
    assert released == content | {"expired": True}


def test_one_writer_at_a_time_is_inside(url: str, s3_server: S3Server) -> None:
    inside: list[str] = []
    entered: list[str] = []
    failures: list[BaseException] = []

    def work(owner: str) -> None:
        lock = lock_of(open_storage(url, s3_server.options()), owner)
        try:
            for _ in range(ROUNDS):
                with lock.held() as held:
                    inside.append(owner)
                    assert inside == [owner]
                    held.check()
                    inside.remove(owner)
                    entered.append(owner)
        except BaseException as failure:  # noqa: BLE001 - raised in the test's own thread
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(str(number),)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sorted(entered) == sorted(str(number) for number in range(WRITERS) for _ in range(ROUNDS))


def test_a_lock_that_a_crashed_hudi_writer_left_is_taken_when_it_expires(storage: Storage) -> None:
    storage.create(LOCK_PATH, LockContent(expired=False, valid_until_ms=0, owner="a-java-writer").encode())
    with lock_of(storage, "ours").held() as held:
        held.check()
