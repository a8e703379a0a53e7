"""Our compaction plans beside Hudi's: it plans the same, and runs ours."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from bucketingest.hudi.plans.compaction_plan import CompactionPlan, read_compaction_plan
from bucketingest.hudi.table.file_view import load_file_view
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.hudi.timeline.instant import COMPACTION
from bucketingest.hudi.timeline.instant_time import format_time
from bucketingest.hudi.timeline.timeline import Timeline, create_requested
from bucketingest.services.compaction.choose import CompactionTriggers, due_groups, plan_of
from bucketingest.storage import Storage, open_storage
from support.oracle.client import HudiOracle
from support.oracle.expected import ExpectedTable, MergeRules
from support.oracle.readers import assert_read_alike
from support.oracle.writer import HudiWriter
from support.tables.local_writer import LocalWriter

pytestmark = pytest.mark.hudi

SCHEMA = pa.schema([("id", pa.string()), ("region", pa.string()), ("at", pa.int64()), ("value", pa.string())])
RULES = MergeRules(key=["id"], partition_by=["region"], ordering="at")
DEFINITION = TableDefinition("planned", ("id",), ("region",), "at", buckets=2)
THEIRS = HudiWriter("planned", ["id"], ["region"], "at", buckets=2)
ALL = CompactionTriggers(log_files=1)


class Table:
    """A table with base files and log files on top, and groups that have only log files."""

    def __init__(self, hudi: HudiOracle, path: Path) -> None:
        self.path = path
        self.expected = ExpectedTable(RULES)
        self.writer = LocalWriter(path, DEFINITION, SCHEMA)
        self.commit(1, "eu")
        hudi.compact(path, THEIRS)
        for at in (2, 3):
            self.commit(at, "eu", "us")

    def commit(self, at: int, *regions: str) -> None:
        rows = [
            {"id": f"key-{number}", "region": region, "at": at, "value": f"{at}"}
            for region in regions
            for number in range(at, at + 20)
        ]
        batch = pa.Table.from_pylist(rows, schema=SCHEMA)
        self.writer.commit(batch)
        self.expected.apply(batch)

    def judge(self, hudi: HudiOracle) -> None:
        assert_read_alike(hudi, self.path, self.expected.table(), ["region", "id"])


def our_plan(storage: Storage, partition_path: str | None = None) -> CompactionPlan:
    """Of everything, or of one partition, which leaves the others out."""
    now = datetime.now(UTC)
    due, left_out = due_groups(load_file_view(storage, Timeline.load(storage)), (), ALL, now)
    chosen = [each for each in due if partition_path in (None, each.operation.partition_path)]
    others = [each.operation.group for each in due if each not in chosen]
    return plan_of(chosen, [*left_out, *others])


def request(storage: Storage, plan: CompactionPlan) -> str:
    time = format_time(datetime.now(UTC) + timedelta(milliseconds=2))
    create_requested(storage, time, COMPACTION, plan.encode())
    return time


@pytest.fixture
def table(hudi: HudiOracle, tmp_path: Path) -> Table:
    return Table(hudi, tmp_path / "table")


def test_hudi_plans_the_same(hudi: HudiOracle, table: Table) -> None:
    ours = our_plan(open_storage(str(table.path)))
    copy = table.path.with_name("copy")
    shutil.copytree(table.path, copy)
    hudi.schedule_compaction(copy, THEIRS)
    storage = open_storage(str(copy))
    (pending,) = Timeline.load(storage).pending
    theirs = read_compaction_plan(storage, pending.request_time)
    assert theirs is not None
    assert {each.group: each for each in ours.operations} == {each.group: each for each in theirs.operations}


def test_hudi_runs_our_plan(hudi: HudiOracle, table: Table) -> None:
    storage = open_storage(str(table.path))
    time = request(storage, our_plan(storage))
    assert hudi.run_compaction(table.path, THEIRS, time)["state"].to_pylist() == ["COMPLETED"]
    assert time in {each.request_time for each in Timeline.load(storage).completed}
    table.judge(hudi)
    table.commit(4, "eu", "us")
    table.judge(hudi)


@pytest.mark.parametrize("listed", [True, False])
def test_hudis_next_plan_has_what_ours_left_out_if_it_is_listed(hudi: HudiOracle, table: Table, listed: bool) -> None:
    storage = open_storage(str(table.path))
    plan = our_plan(storage, "eu")
    assert plan.left_out == ("us",)
    hudi.run_compaction(table.path, THEIRS, request(storage, plan if listed else replace(plan, left_out=())))
    table.commit(4, "eu")
    hudi.schedule_compaction(table.path, THEIRS)
    (pending,) = Timeline.load(storage).pending
    theirs = read_compaction_plan(storage, pending.request_time)
    assert theirs is not None
    assert {each.partition_path for each in theirs.operations} == ({"eu", "us"} if listed else {"eu"})
    hudi.run_compaction(table.path, THEIRS, pending.request_time)
    table.judge(hudi)
