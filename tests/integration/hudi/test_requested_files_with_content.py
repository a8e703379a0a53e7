"""A requested file may say whose the instant is: Hudi leaves it empty, and takes one with metadata just the same.

An empty file cannot tell two writers apart that took the same time. So a deltacommit's requested file may hold what its
inflight file holds; everything of Hudi's that meets such a file is tried here, and hudi-rs.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from bucketingest.hudi.history.archived import archived_instants
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.storage import open_storage
from bucketingest.write.pipeline_names import PIPELINE
from support.oracle import hudi_rs
from support.oracle.client import HudiOracle
from support.oracle.compare import assert_same_rows
from support.oracle.expected import ExpectedTable, MergeRules
from support.oracle.readers import assert_read_alike
from support.oracle.writer import HudiWriter
from support.tables.local_writer import LocalWriter

pytestmark = pytest.mark.hudi

SCHEMA: Final = pa.schema([("id", pa.string()), ("region", pa.string()), ("at", pa.int64()), ("value", pa.string())])
RULES: Final = MergeRules(key=["id"], partition_by=["region"], ordering="at")
KEY: Final = ["region", "id"]
DEFINITION: Final = TableDefinition("named", ("id",), ("region",), "at", buckets=2)
EAGER: Final = HudiWriter("named", ["id"], ["region"], "at", buckets=2)
LAZY: Final = HudiWriter(
    "named",
    ["id"],
    ["region"],
    "at",
    buckets=2,
    extra={
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.clean.failed.writes.policy": "LAZY",
        "hoodie.clean.automatic": "true",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    },
)
ARCHIVING: Final = HudiWriter(
    "named",
    ["id"],
    ["region"],
    "at",
    buckets=2,
    extra={
        "hoodie.compact.inline": "true",
        "hoodie.clean.automatic": "true",
        "hoodie.clean.commits.retained": "1",
        "hoodie.archive.automatic": "true",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
    },
)
STATES: Final = ["requested", "inflight"]
LONG_AGO: Final = 1_700_000_000


def rows(at: int, count: int = 12) -> pa.Table:
    """Half of them update rows of the call with `at` one less."""
    numbers = range(at * count // 2, at * count // 2 + count)
    columns: dict[str, list[Any]] = {
        "id": [f"key-{n}" for n in numbers],
        "region": [["eu", "us"][n % 2] for n in numbers],
    }
    return pa.table(columns | {"at": [at] * count, "value": [f"value {at}"] * count}, schema=SCHEMA)


def say_whose(path: Path) -> int:
    """Let each of our requested files hold what its inflight file holds; returns how many do."""
    named = 0
    for inflight in (path / ".hoodie" / "timeline").glob("*.deltacommit.inflight"):
        if PIPELINE.encode() in (content := inflight.read_bytes()):
            inflight.with_suffix(".requested").write_bytes(content)
            named += 1
    return named


def begin_and_die(path: Path, batch: pa.Table, state: str) -> str:
    """An attempt that leaves an instant in this state, its files written; returns its request time."""
    instant = LocalWriter(path, DEFINITION, SCHEMA, commit_interval=timedelta(hours=1)).commit(batch).instant_time
    assert instant is not None
    assert say_whose(path) > 0
    if state == "requested":
        (path / ".hoodie" / "timeline" / f"{instant}.deltacommit.inflight").unlink()
    return instant


def with_three_commits(path: Path) -> ExpectedTable:
    expected = ExpectedTable(RULES)
    writer = LocalWriter(path, DEFINITION, SCHEMA)
    for at in range(3):
        writer.commit(rows(at))
        expected.apply(rows(at))
    assert say_whose(path) == 3
    return expected


def judge(hudi: HudiOracle, path: Path, expected: ExpectedTable) -> None:
    assert_read_alike(hudi, path, expected.table(), KEY)


def names_with(path: Path, instant: str) -> list[str]:
    storage = open_storage(str(path))
    return sorted(info.path for info in storage.list("") if instant in info.path and "/.bucketingest/" not in info.path)


def test_readers_and_the_timeline_take_them_as_they_are(hudi: HudiOracle, tmp_path: Path) -> None:
    expected = with_three_commits(tmp_path)
    pending = begin_and_die(tmp_path, rows(9), "inflight")
    judge(hudi, tmp_path, expected)
    instants = hudi.instants(tmp_path)
    assert [instant.state for instant in instants] == ["COMPLETED", "COMPLETED", "COMPLETED", "INFLIGHT"]
    assert instants[-1].requested == pending
    middle = instants[1].completed
    assert middle is not None
    for table in (hudi.incremental(tmp_path, middle), hudi_rs.incremental(tmp_path, middle)):
        assert_same_rows(table, rows(2), KEY)


@pytest.mark.parametrize("state", STATES)
def test_hudis_eager_writer_rolls_such_an_instant_back(hudi: HudiOracle, tmp_path: Path, state: str) -> None:
    expected = with_three_commits(tmp_path)
    instant = begin_and_die(tmp_path, rows(9), state)
    assert len(names_with(tmp_path, instant)) > 3
    hudi.upsert(tmp_path, rows(3), EAGER)
    expected.apply(rows(3))
    left = [name for name in names_with(tmp_path, instant) if not name.startswith(".hoodie/.heartbeat/")]
    assert not any(name.startswith(".hoodie/timeline/") for name in left)
    assert state == "requested" or left == []
    judge(hudi, tmp_path, expected)


@pytest.mark.parametrize("state", STATES)
def test_hudis_lazily_cleaning_writer_rolls_such_an_instant_back_once_its_heartbeat_is_old(
    hudi: HudiOracle, tmp_path: Path, state: str
) -> None:
    expected = with_three_commits(tmp_path)
    instant = begin_and_die(tmp_path, rows(9), state)
    hudi.upsert(tmp_path, rows(3), LAZY)
    expected.apply(rows(3))
    assert f".hoodie/timeline/{instant}.deltacommit.requested" in names_with(tmp_path, instant), "it was alive"
    os.utime(tmp_path / ".hoodie" / ".heartbeat" / instant, (LONG_AGO, LONG_AGO))
    hudi.upsert(tmp_path, rows(4), LAZY)
    expected.apply(rows(4))
    assert not [name for name in names_with(tmp_path, instant) if name.startswith(".hoodie/timeline/")]
    judge(hudi, tmp_path, expected)


def test_compaction_and_clean_work_on_them_also_while_one_is_pending(hudi: HudiOracle, tmp_path: Path) -> None:
    expected = with_three_commits(tmp_path)
    begin_and_die(tmp_path, rows(9), "inflight")
    hudi.compact(tmp_path, EAGER)
    judge(hudi, tmp_path, expected)
    writer = LocalWriter(tmp_path, DEFINITION, SCHEMA, pipeline="another")
    for at in (3, 4):
        writer.commit(rows(at))
        expected.apply(rows(at))
        say_whose(tmp_path)
    hudi.compact(tmp_path, EAGER)
    assert hudi.clean(tmp_path, EAGER).num_rows >= 0
    judge(hudi, tmp_path, expected)
    assert_same_rows(hudi.read_optimized(tmp_path), expected.table(), KEY)


def test_archival_takes_them_into_the_history(hudi: HudiOracle, tmp_path: Path) -> None:
    expected = with_three_commits(tmp_path)
    ours = {instant.requested for instant in hudi.instants(tmp_path)}
    for at in range(3, 8):
        hudi.upsert(tmp_path, rows(at), ARCHIVING)
        expected.apply(rows(at))
    archived = {instant.request_time for instant in archived_instants(open_storage(str(tmp_path)))}
    assert ours <= archived
    timeline = (tmp_path / ".hoodie" / "timeline").glob("*.*")
    assert not [path.name for path in timeline if path.name[:17] in ours]
    for table in (hudi.snapshot(tmp_path), hudi_rs.snapshot(tmp_path), hudi.incremental(tmp_path, "0")):
        assert_same_rows(table, expected.table(), KEY)
    writer = LocalWriter(tmp_path, DEFINITION, SCHEMA)
    writer.commit(rows(8))
    expected.apply(rows(8))
    for table in (hudi.snapshot(tmp_path), hudi_rs.snapshot(tmp_path)):
        assert_same_rows(table, expected.table(), KEY)
