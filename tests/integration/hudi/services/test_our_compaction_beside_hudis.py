"""The whole cycle of `bucketingest compact` on a table that Hudi also writes, compacts and reads."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from bucketingest.cli.main import call
from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.naming import TIMELINE_DIRECTORY
from bucketingest.hudi.rollback.plan import RollbackPlan
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.hudi.timeline import heartbeat
from bucketingest.hudi.timeline.instant import COMMIT, ROLLBACK
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.services.compact_now import compact_now
from bucketingest.services.compaction.choose import CompactionTriggers
from bucketingest.services.compaction.holder import CompactionHolder
from bucketingest.services.compaction.propose import propose
from bucketingest.services.compaction.records import Work
from bucketingest.services.compaction.rounds import RoundExecutor
from bucketingest.services.protocol.records import End
from bucketingest.storage import Storage, open_storage
from support.oracle.client import HudiOracle
from support.oracle.compare import assert_same_rows
from support.oracle.expected import ExpectedTable, MergeRules
from support.oracle.readers import assert_read_alike
from support.oracle.writer import HudiWriter
from support.tables.local_writer import LocalWriter
from support.tables.services.snapshot import doubled_base_files

pytestmark = pytest.mark.hudi

SCHEMA = pa.schema(
    [("id", pa.string()), ("region", pa.string()), ("at", pa.int64()), ("value", pa.string()), ("gone", pa.bool_())]
)
RULES = MergeRules(key=["id"], partition_by=["region"], ordering="at", deleted="gone")
DEFINITION = TableDefinition("compacted", ("id",), ("region",), "at", buckets=2)
THEIRS = HudiWriter("compacted", ["id"], ["region"], "at", buckets=2)
KEY = ["region", "id"]
ALL = CompactionTriggers(log_files=1)
NOTHING = CompactionTriggers(log_files=10_000, log_ratio=10_000, log_age=timedelta(days=1))


def rows(at: int, first: int, count: int, *, gone: bool = False) -> pa.Table:
    numbers = range(first, first + count)
    return pa.Table.from_pylist(
        [
            {"id": f"key-{n}", "region": ("eu", "us")[n % 2], "at": at, "value": f"{at}", "gone": gone and n % 3 == 0}
            for n in numbers
        ],
        schema=SCHEMA,
    )


class Table:
    """A table, the attempt that writes it, and what it should hold."""

    def __init__(self, hudi: HudiOracle, path: Path) -> None:
        self.hudi, self.path = hudi, path
        self.expected = ExpectedTable(RULES)
        self.writer = LocalWriter(path, DEFINITION, SCHEMA, deleted="gone")
        self.storage = open_storage(str(path))

    def commit(self, *batches: pa.Table) -> None:
        for batch in batches:
            self.writer.commit(batch)
            self.expected.apply(batch)

    def judge(self, *, compacted: bool = False) -> None:
        assert_read_alike(self.hudi, self.path, self.expected.table(), KEY)
        assert doubled_base_files(self.storage) == []
        if compacted:
            assert_same_rows(self.hudi.read_optimized(self.path), self.expected.table(), KEY)

    @property
    def compactions(self) -> int:
        return sum(each.action == COMMIT for each in Timeline.load(self.storage).completed)


@pytest.fixture
def table(hudi: HudiOracle, tmp_path: Path) -> Table:
    table = Table(hudi, tmp_path / "table")
    table.commit(rows(2, 0, 40), rows(3, 10, 20, gone=True))
    return table


def holder(storage: Storage) -> CompactionHolder:
    return CompactionHolder(storage, nullcontext, lambda: None)


def started(table: Table) -> Work:
    proposal = propose(table.storage, ALL, utc_now()).proposal
    assert proposal is not None
    its = holder(table.storage)
    its.request(proposal)
    work = its.advance()
    assert isinstance(work, Work)
    return work


def test_a_running_job_and_hudi_go_on_after_our_compactions(hudi: HudiOracle, table: Table) -> None:
    assert call(["compact", "--all", str(table.path)]) == 0
    table.expected.compact()
    assert table.compactions == 1
    table.judge(compacted=True)
    table.commit(rows(1, 0, 50), rows(4, 30, 30, gone=True))
    table.judge()
    assert call(["compact", "--all", str(table.path)]) == 0
    table.expected.compact()
    table.judge(compacted=True)
    hudi.upsert(table.path, rows(5, 50, 20), THEIRS)
    table.expected.apply(rows(5, 50, 20))
    table.commit(rows(6, 60, 20))
    hudi.compact(table.path, THEIRS)
    table.expected.compact()
    table.judge(compacted=True)
    table.commit(rows(7, 0, 30, gone=True))
    assert call(["compact", "--all", str(table.path)]) == 0
    table.expected.compact()
    table.judge(compacted=True)
    assert hudi.schedule_compaction(table.path, THEIRS).num_rows == 0, "Hudi finds nothing that ours left out"


def test_hudi_that_runs_our_pending_compaction_is_obeyed(hudi: HudiOracle, table: Table) -> None:
    """Hudi's single writer takes no notice of our heartbeat: it rolls ours back, and makes its own base files."""
    work = started(table)
    RoundExecutor(table.storage, work.number, work.round_number).run()
    assert hudi.run_compaction(table.path, THEIRS, work.compaction)["state"].to_pylist() == ["COMPLETED"]
    ended = holder(table.storage).advance()
    assert ended is not None
    assert not isinstance(ended, Work)
    assert ended.end is End.COMPLETED
    table.expected.compact()
    table.judge(compacted=True)
    table.commit(rows(8, 5, 25))
    assert [each.end for each in compact_now(table.storage, holder(table.storage), ALL, utc_now)] == [End.COMPLETED]
    table.expected.compact()
    table.judge(compacted=True)


def planned_and_died(hudi: HudiOracle, table: Table, work: Work) -> tuple[Path, bytes]:
    """The rollback plan that Hudi makes of our compaction before it carries it out again; the table is as before."""
    before = table.path.with_name("before")
    shutil.copytree(table.path, before)
    hudi.run_compaction(table.path, THEIRS, work.compaction)
    (plan,) = (table.path / TIMELINE_DIRECTORY).glob("*.rollback.requested")
    content = plan.read_bytes()
    shutil.rmtree(table.path)
    before.rename(table.path)
    return plan, content


@pytest.mark.parametrize("then", ["hudi goes on", "we go on", "we had committed and died"])
def test_a_rollback_plan_that_hudi_left_pending_names_files_that_are_not_made_again(
    hudi: HudiOracle, table: Table, then: str
) -> None:
    """Hudi carries out the plan that it finds, whatever has become of the files since."""
    work = started(table)
    RoundExecutor(table.storage, work.number, work.round_number).run()
    plan, content = planned_and_died(hudi, table, work)
    named = [file.path for file in RollbackPlan.decode(content, "plan").files]
    assert len(named) == 4
    assert all(map(table.storage.exists, named))
    if then == "we had committed and died":
        assert finished(table) == [End.COMPLETED]
        (noted,) = table.path.glob(".hoodie/.bucketingest/services/compaction/*/done")
        noted.unlink()  # as if it had died before
    plan.write_bytes(content)
    if then == "hudi goes on":
        hudi.run_compaction(table.path, THEIRS, work.compaction)
        done = [each for each in Timeline.load(table.storage).completed if each.action == ROLLBACK]
        assert [each.request_time for each in done] == [plan.name.partition(".")[0]]
    assert finished(table) == [End.COMPLETED]
    assert not any(map(table.storage.exists, named))
    table.expected.compact()
    table.judge(compacted=True)
    table.storage.delete_many(named)  # by the process that made the plan, and was paused
    assert finished(table) == []
    table.judge(compacted=True)
    hudi.upsert(table.path, rows(5, 50, 20), THEIRS)
    table.expected.apply(rows(5, 50, 20))
    hudi.compact(table.path, THEIRS)
    table.expected.compact()
    table.judge(compacted=True)


def finished(table: Table) -> list[End]:
    """How the compactions ended that were pending, or broken."""
    return [each.end for each in compact_now(table.storage, holder(table.storage), NOTHING, utc_now)]


def test_hudis_inline_compaction_beside_ours(hudi: HudiOracle, table: Table) -> None:
    """Its writer first finishes every pending compaction that it finds, ours too."""
    work = started(table)
    inline = replace(THEIRS, extra={**THEIRS.extra, "hoodie.compact.inline": "true"})
    hudi.upsert(table.path, rows(5, 50, 20), inline)
    table.expected.apply(rows(5, 50, 20))
    ended = holder(table.storage).advance()
    if isinstance(ended, Work):  # it left ours alone
        RoundExecutor(table.storage, ended.number, ended.round_number).run()
        ended = holder(table.storage).advance()
    assert ended is not None
    assert Timeline.load(table.storage).find(work.compaction, COMMIT) is not None
    table.expected.compact()
    table.judge()


def test_hudis_multi_writer_leaves_ours_alone_while_its_heart_beats(hudi: HudiOracle, table: Table) -> None:
    work = started(table)
    last = heartbeat.last_beat(table.storage, work.compaction)
    assert not heartbeat.is_expired(last, datetime.now(UTC) - timedelta(seconds=1))
    RoundExecutor(table.storage, work.number, work.round_number).run()
    hudi.upsert(table.path, rows(5, 50, 20), THEIRS)
    table.expected.apply(rows(5, 50, 20))
    ended = holder(table.storage).advance()
    assert ended is not None
    assert not isinstance(ended, Work)
    table.judge()


def test_the_commands_keep_a_table_small_and_hudi_reads_it(hudi: HudiOracle, table: Table) -> None:
    for at in range(4, 7):
        table.commit(rows(at, at, 30))
        assert call(["compact", "--all", str(table.path)]) == 0
        table.expected.compact()
    before = sum(path.is_file() for path in table.path.glob("*/*"))
    assert call(["clean", "--retain", "1s", "--dry-run", str(table.path)]) == 0
    assert sum(path.is_file() for path in table.path.glob("*/*")) == before
    assert call(["clean", "--retain", "0s", str(table.path)]) == 0
    assert sum(path.is_file() for path in table.path.glob("*/*")) < before
    assert call(["archive", str(table.path)]) == 0
    table.judge(compacted=True)
    table.commit(rows(9, 0, 10))
    hudi.compact(table.path, THEIRS)
    table.expected.compact()
    hudi.clean(table.path, THEIRS)
    table.judge(compacted=True)
