"""A process that slept completes an instant after its rollback; its completed file is deleted again: no reader minds.

The rollback had deleted the instant's files, so the late completed file names files that are gone. Until it is deleted
a snapshot read is right, since it lists files; afterwards everything is as if the instant had never been.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from bucketingest.hudi.rollback.rollback import roll_back
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.storage import open_storage
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
DEFINITION: Final = TableDefinition("late", ("id",), ("region",), "at", buckets=2)
THEIRS: Final = HudiWriter("late", ["id"], ["region"], "at", buckets=2)
SERVICES: Final = {
    "hoodie.compact.inline": "true",
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.archive.automatic": "true",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}
WITH_SERVICES: Final = HudiWriter("late", ["id"], ["region"], "at", buckets=2, extra=SERVICES)


def rows(at: int, count: int = 12) -> pa.Table:
    """Half of them update rows of the call with `at` one less."""
    numbers = range(at * count // 2, at * count // 2 + count)
    regions = [["eu", "us"][number % 2] for number in numbers]
    columns: dict[str, list[Any]] = {"id": [f"key-{number}" for number in numbers], "region": regions}
    return pa.table(columns | {"at": [at] * count, "value": [f"value {at}"] * count}, schema=SCHEMA)


def completed_too_late(path: Path, batch: pa.Table) -> Path:
    """An instant that was rolled back and then completed; returns its completed file."""
    outcome = LocalWriter(path, DEFINITION, SCHEMA, pipeline="slept").commit(batch)
    assert outcome.commit is not None
    instant = outcome.commit.instant_time
    completed = path / ".hoodie" / "timeline" / f"{instant}_{outcome.commit.completion_time}.deltacommit"
    content = completed.read_bytes()
    completed.unlink()
    assert roll_back(open_storage(str(path)), instant).deleted
    completed.write_bytes(content)
    return completed


def judge(hudi: HudiOracle, path: Path, expected: ExpectedTable) -> None:
    assert_read_alike(hudi, path, expected.table(), KEY)


@pytest.mark.parametrize("compacted", [False, True], ids=["at once", "after a compaction"])
def test_readers_and_writers_of_hudi_do_not_miss_it(hudi: HudiOracle, tmp_path: Path, compacted: bool) -> None:
    expected = ExpectedTable(RULES)

    def commit(at: int) -> None:
        LocalWriter(tmp_path, DEFINITION, SCHEMA).commit(rows(at))
        expected.apply(rows(at))

    commit(0)
    commit(1)
    late = completed_too_late(tmp_path, rows(9))
    commit(2)
    assert_same_rows(hudi.snapshot(tmp_path), expected.table(), KEY)
    assert_same_rows(hudi_rs.snapshot(tmp_path), expected.table(), KEY)
    if compacted:
        hudi.compact(tmp_path, THEIRS)

    late.unlink()

    judge(hudi, tmp_path, expected)
    request, completion = late.stem.split("_")
    assert_same_rows(hudi.incremental(tmp_path, completion), rows(2), KEY)
    assert_same_rows(hudi_rs.incremental(tmp_path, completion), rows(2), KEY)
    assert request not in {instant.requested for instant in hudi.instants(tmp_path)}
    commit(3)
    for at in range(4, 9):
        hudi.upsert(tmp_path, rows(at), WITH_SERVICES)
        expected.apply(rows(at))
    commit(10)
    assert_same_rows(hudi.snapshot(tmp_path), expected.table(), KEY)
    assert_same_rows(hudi_rs.snapshot(tmp_path), expected.table(), KEY)
