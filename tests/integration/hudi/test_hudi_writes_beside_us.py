"""Hudi's own writer and ours at work on one table at the same time, each under Hudi's lock: no update gets lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from bucketingest.hudi.lock.file_lock import LOCK_PATH
from bucketingest.hudi.lock.hudi_lock import HudiLock, LockSettings, open_lock
from bucketingest.hudi.table.table import TableDefinition, load_table
from bucketingest.hudi.timeline.instant import DELTA_COMMIT, State
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.storage import Storage, open_storage
from support.oracle import hudi_rs
from support.oracle.client import HudiOracle
from support.oracle.compare import assert_same_rows
from support.oracle.environment import OracleError
from support.oracle.expected import ExpectedTable, MergeRules
from support.oracle.writer import HudiWriter
from support.tables.local_writer import LocalWriter

pytestmark = pytest.mark.hudi

PROVIDER: Final = "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
RULES: Final = MergeRules(key=["id"], partition_by=["region"], ordering="at")
KEY: Final = ["region", "id"]
BUCKETS: Final = 2
DEFINITION: Final = TableDefinition(
    name="shared",
    record_key=("id",),
    partition_fields=("region",),
    ordering_field="at",
    buckets=BUCKETS,
    properties={"hoodie.write.lock.provider": PROVIDER},
)
SCHEMA: Final = pa.schema([("id", pa.string()), ("region", pa.string()), ("at", pa.int64()), ("value", pa.string())])
THEIRS: Final = HudiWriter(
    name="shared",
    record_key=RULES.key,
    partition_by=RULES.partition_by,
    ordering="at",
    buckets=BUCKETS,
    extra={
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.clean.failed.writes.policy": "LAZY",
        "hoodie.clean.automatic": "true",
        "hoodie.write.lock.provider": PROVIDER,
        "hoodie.write.lock.wait_time_ms": "1000",
        "hoodie.write.lock.client.wait_time_ms_between_retry": "50",
        "hoodie.write.lock.client.num_retries": "1000",
    },
)
WAIT_SECONDS_MAX: Final = 120.0
ROUNDS_MAX: Final = 10


def rows(region: str, at: int, *keys: str) -> pa.Table:
    count = len(keys)
    values = [f"{region} {at}"] * count
    return pa.table({"id": list(keys), "region": [region] * count, "at": [at] * count, "value": values}, schema=SCHEMA)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "table"


@pytest.fixture
def storage(path: Path) -> Storage:
    return open_storage(str(path))


@pytest.fixture
def ours(path: Path, storage: Storage) -> tuple[LocalWriter, HudiLock]:
    """Our writer with the lock that the table's own properties name."""
    LocalWriter(path, DEFINITION, SCHEMA)
    settings = LockSettings(wait=timedelta(seconds=WAIT_SECONDS_MAX))
    lock = open_lock(storage, load_table(storage).properties, settings, "ours")
    return LocalWriter(path, DEFINITION, SCHEMA, lock=lock.held), lock


@pytest.fixture
def background() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def inflight(storage: Storage) -> set[str]:
    """The deltacommits that are being written.

    Hudi's writer notes which commits it has seen after it requests its own and before that is inflight: what is
    completed later is what it is checked against.
    """
    pending = Timeline.load(storage).pending
    return {
        instant.request_time for instant in pending if (instant.action, instant.state) == (DELTA_COMMIT, State.INFLIGHT)
    }


def wait_until_inflight(storage: Storage, write: Future[None]) -> str | None:
    """The deltacommit that `write` writes; None when it was over before we looked."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not write.done():
        if found := inflight(storage):
            return found.pop()
        assert time.monotonic() < deadline
    return None


def judge(hudi: HudiOracle, path: Path, expected: ExpectedTable) -> None:
    assert_same_rows(hudi.snapshot(path), expected.table(), KEY)
    assert_same_rows(hudi_rs.snapshot(path), expected.table(), KEY)


def test_writes_to_different_partitions_at_the_same_time_all_stand(
    hudi: HudiOracle,
    path: Path,
    storage: Storage,
    ours: tuple[LocalWriter, HudiLock],
    background: ThreadPoolExecutor,
) -> None:
    writer, _ = ours
    expected = ExpectedTable(RULES)
    commits = 0
    for round_number in range(3):
        theirs = rows("us", round_number, "same", f"theirs-{round_number}")
        write = background.submit(hudi.upsert, path, theirs, THEIRS)
        while not write.done():
            batch = rows("eu", commits, "same", f"ours-{commits}")
            writer.commit(batch)
            expected.apply(batch)
            commits += 1
        write.result()
        expected.apply(theirs)

    assert commits > 3, "the writers were not at work at the same time"
    judge(hudi, path, expected)
    timeline = Timeline.load(storage)
    assert [instant.action for instant in timeline.instants if instant.action == "rollback"] == []
    assert len(timeline.completed_commits) == commits + 3
    assert not storage.exists(LOCK_PATH)


def test_a_write_of_hudis_to_a_bucket_that_we_commit_meanwhile_fails_and_succeeds_when_repeated(
    hudi: HudiOracle,
    path: Path,
    storage: Storage,
    ours: tuple[LocalWriter, HudiLock],
    background: ThreadPoolExecutor,
) -> None:
    writer, lock = ours
    expected = ExpectedTable(RULES)
    batch = rows("eu", 1, "first", "second", "third")
    writer.commit(batch)
    expected.apply(batch)

    for at in range(3, 3 + ROUNDS_MAX):
        theirs = rows("eu", at, "second", "theirs")
        write = background.submit(hudi.upsert, path, theirs, THEIRS)
        started = wait_until_inflight(storage, write)
        with lock.held():
            if started in inflight(storage):  # it stays so: Hudi cannot commit now
                meanwhile = rows("eu", 2, "first", "second", "ours", *(f"more-{n}" for n in range(10)))
                writer.commit(meanwhile)
                expected.apply(meanwhile)
                break
        write.result()
        expected.apply(theirs)  # it committed before we had the lock
    else:
        pytest.fail(f"Hudi's writer committed before we had the lock, {ROUNDS_MAX} times")
    with pytest.raises(OracleError, match="Conflict"):
        write.result()
    judge(hudi, path, expected)

    hudi.upsert(path, theirs, THEIRS)
    expected.apply(theirs)
    judge(hudi, path, expected)
    after = rows("eu", 3 + ROUNDS_MAX, "first", "after")
    writer.commit(after)
    expected.apply(after)
    judge(hudi, path, expected)
