"""A real S3 server: the common behaviour, and what only a server shows: refusals, large uploads, racing processes."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import uuid
from collections.abc import Callable

import pytest

from bucketingest.storage import (
    AccessDenied,
    AlreadyExists,
    ConditionalStorage,
    InvalidLocation,
    Storage,
    StorageUnavailable,
    limits,
    open_storage,
)
from devservers.certificates import Authority
from devservers.s3 import S3Server
from support.storage.conditional_behaviour import ConditionalBehaviour
from support.storage.storage_behaviour import StorageBehaviour

pytestmark = [pytest.mark.integration, pytest.mark.s3]

LARGE_BYTES = 300 * 1024 * 1024


@pytest.fixture(scope="module")
def bucket(s3_server: S3Server) -> str:
    name = f"storage-{uuid.uuid4().hex[:8]}"
    s3_server.create_bucket(name)
    return name


@pytest.fixture
def table(s3_server: S3Server, bucket: str) -> Storage:
    return open_storage(f"s3://{bucket}/{uuid.uuid4().hex}", s3_server.options())


class TestS3(StorageBehaviour):
    @pytest.fixture
    def storage(self, s3_server: S3Server, bucket: str) -> Storage:
        return open_storage(f"s3a://{bucket}/{uuid.uuid4().hex}/a root=%20#é", s3_server.options())


class TestS3CompareAndSwap(ConditionalBehaviour):
    @pytest.fixture
    def storage(self, table: Storage) -> ConditionalStorage:
        assert isinstance(table, ConditionalStorage)
        return table


def test_a_server_whose_certificate_a_private_authority_signed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path / "authority")
    with S3Server(authority=authority) as server:
        url = server.create_bucket("lake")
        monkeypatch.delenv("SSL_CERT_FILE", raising=False)
        monkeypatch.setattr(limits, "RETRIES_MAX", 0)
        with pytest.raises(StorageUnavailable, match=r"not trusted \(UnknownIssuer\);.* SSL_CERT_FILE"):
            open_storage(url, server.options()).get("a")
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
        storage = open_storage(url, server.options())
        storage.create("a", b"x")
        assert storage.get("a") == b"x"


@pytest.fixture
def large_file(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "large"
    block = os.urandom(1024 * 1024)
    with path.open("wb") as file:
        for _ in range(LARGE_BYTES // len(block)):
            file.write(block)
    return path


CREATE_AND_REPORT_MEMORY = """
import json, pathlib, sys
from bucketingest.storage import open_storage
url, options, path = sys.argv[1], json.loads(sys.argv[2]), pathlib.Path(sys.argv[3])
storage = open_storage(url, options)
storage.create("small", b"x")
import threading
peak, done = 0, threading.Event()
def anonymous():
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
before = anonymous()
def watch():
    global peak
    while not done.wait(0.01):
        peak = max(peak, anonymous())
watcher = threading.Thread(target=watch)
watcher.start()
storage.create("large", path)
done.set()
watcher.join()
print(max(peak - before, 0))
"""


def test_a_large_file_is_created_without_filling_memory(
    s3_server: S3Server, table: Storage, large_file: pathlib.Path
) -> None:
    run = subprocess.run(
        [sys.executable, "-c", CREATE_AND_REPORT_MEMORY, table.url, json.dumps(s3_server.options()), str(large_file)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    grown_kib = int(run.stdout)
    assert grown_kib < 50 * 1024
    assert table.head("large").size == LARGE_BYTES
    with large_file.open("rb") as file:
        file.seek(LARGE_BYTES - 1000)
        assert table.get_range("large", LARGE_BYTES - 1000, 2000) == file.read()
    # The server refuses this one while we still send: it must not look like a broken connection.
    with pytest.raises(AlreadyExists):
        table.create("large", large_file)


RACE = """
import json, sys
from bucketingest.storage import AlreadyExists, open_storage
storage = open_storage(sys.argv[1], json.loads(sys.argv[2]))
sys.stdin.readline()
wins = []
for number in range(20):
    try:
        storage.create(f"race/{number}", b"equal content")
        wins.append(number)
    except AlreadyExists:
        pass
print(json.dumps(wins))
"""


def test_of_processes_that_race_with_equal_content_exactly_one_wins(s3_server: S3Server, table: Storage) -> None:
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, table.url, json.dumps(s3_server.options())],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    wins = [number for racer in racers for number in json.loads(racer.communicate(timeout=120)[0])]
    assert sorted(wins) == list(range(20))


def every_call(storage: Storage) -> list[Callable[[], object]]:
    return [
        lambda: storage.get("a"),
        lambda: storage.create("a", b""),
        lambda: storage.put("a", b""),
        lambda: storage.delete("a"),
        lambda: list(storage.list()),
        storage.list_level,
    ]


def test_wrong_keys_are_access_denied_and_not_shown(s3_server: S3Server, table: Storage) -> None:
    wrong = open_storage(table.url, {**s3_server.options(), "secret_access_key": "WRONGSECRETKEY"})
    for call in every_call(wrong):
        with pytest.raises(AccessDenied) as caught:
            call()
        assert "WRONGSECRETKEY" not in str(caught.value)
        assert s3_server.access_key not in str(caught.value)


def test_a_missing_bucket_is_named_and_no_object_is_reported_as_deleted(s3_server: S3Server) -> None:
    storage = open_storage("s3://no-such-bucket-here/orders", s3_server.options())
    for call in every_call(storage):
        with pytest.raises(InvalidLocation, match="bucket or container does not exist"):
            call()
