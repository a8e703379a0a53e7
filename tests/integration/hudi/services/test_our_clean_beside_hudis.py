"""Our clean beside Hudi's: readers keep what they need, and each writer goes on with the other's cleans."""

from __future__ import annotations

import copy
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from bucketingest.hudi.naming import TIMELINE_DIRECTORY
from bucketingest.hudi.plans.clean_plan import CleanMetadata, read_clean_plan
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.hudi.timeline.instant import CLEAN, DELTA_COMMIT, Instant
from bucketingest.hudi.timeline.instant_time import parse_time
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.services.clean.choose import Retention
from bucketingest.services.clean.execute import choose_now, clean_table, finish_pending, request
from bucketingest.services.protocol.holder import Guarded
from bucketingest.storage import open_storage
from support.oracle import hudi_rs
from support.oracle.client import HudiOracle
from support.oracle.compare import assert_same_rows
from support.oracle.expected import ExpectedTable, MergeRules
from support.oracle.readers import assert_read_alike
from support.oracle.writer import HudiWriter
from support.tables.local_writer import LocalWriter

pytestmark = pytest.mark.hudi

SCHEMA = pa.schema([("id", pa.string()), ("region", pa.string()), ("at", pa.int64()), ("value", pa.string())])
RULES = MergeRules(key=["id"], partition_by=["region"], ordering="at")
DEFINITION = TableDefinition("cleaned", ("id",), ("region",), "at", buckets=2)
THEIRS = HudiWriter("cleaned", ["id"], ["region"], "at", buckets=2)
KEY = ["region", "id"]


class Table:
    """Commits 1 to 5, with a compaction of Hudi's after each of the first three; `us` is written by 1 and 2 only."""

    def __init__(self, hudi: HudiOracle, path: Path) -> None:
        self.path = path
        self.storage = open_storage(str(path))
        self.expected = ExpectedTable(RULES)
        self.tables: dict[int, pa.Table] = {}
        self.batches: dict[int, pa.Table] = {}
        for at in range(1, 6):
            self.commit(at, *(("eu", "us") if at <= 2 else ("eu",)))
            if at <= 3:
                hudi.compact(path, THEIRS)

    def commit(self, at: int, *regions: str) -> None:
        rows = [
            {"id": f"key-{number}", "region": region, "at": at, "value": f"{at}"}
            for region in regions
            for number in range(at, at + 20)
        ]
        self.batches[at] = pa.Table.from_pylist(rows, schema=SCHEMA)
        LocalWriter(self.path, DEFINITION, SCHEMA).commit(self.batches[at])
        self.expected.apply(self.batches[at])
        self.tables[at] = self.expected.table()

    def copy_to(self, path: Path) -> Table:
        """The same table at another place."""
        shutil.copytree(self.path, path)
        other = copy.deepcopy(self)
        other.path, other.storage = path, open_storage(str(path))
        return other

    def instant(self, at: int) -> Instant:
        """That of the commit with this number."""
        return [each for each in Timeline.load(self.storage).completed if each.action == DELTA_COMMIT][at - 1]

    def since(self, at: int) -> tuple[Guarded, Retention]:
        """Retains all from this commit on."""
        now = datetime.now(UTC)
        retention = Retention(retain=now - parse_time(self.instant(at).request_time))
        return Guarded(self.storage, clock=lambda: now), retention

    def cleans(self) -> list[Instant]:
        return [each for each in Timeline.load(self.storage).instants if each.action == CLEAN]

    def data(self) -> set[str]:
        """The data files that are there, without Hadoop's checksums."""
        paths = (info.path for info in self.storage.list() if not info.path.startswith(".hoodie/"))
        return {path for path in paths if not path.endswith(".crc")}

    def judge(self, hudi: HudiOracle, *, first: int) -> None:
        """Every kind of read; of moments those of the commits from `first` on."""
        assert_read_alike(hudi, self.path, self.expected.table(), KEY)
        assert_same_rows(hudi.read_optimized(self.path), self.tables[3], KEY)
        for at in range(first, 6):
            completed = self.instant(at).completion_time
            assert completed is not None
            assert_same_rows(hudi.as_of(self.path, completed), self.tables[at], KEY)
            later = ExpectedTable(RULES)
            for batch in (self.batches[number] for number in range(at + 1, max(self.batches) + 1)):
                later.apply(batch)
            if at < max(self.batches):
                for read in (hudi.incremental, hudi_rs.incremental):
                    assert_same_rows(read(self.path, completed), later.table(), KEY)


@pytest.fixture(scope="module")
def compacted(hudi: HudiOracle, tmp_path_factory: pytest.TempPathFactory) -> Table:
    return Table(hudi, tmp_path_factory.mktemp("cleaned") / "table")


@pytest.fixture
def table(compacted: Table, tmp_path: Path) -> Table:
    """A copy of its own for each test."""
    return compacted.copy_to(tmp_path / "table")


def test_readers_keep_what_they_need_and_hudis_clean_goes_on_from_ours(hudi: HudiOracle, table: Table) -> None:
    before = table.data()
    backup = table.path.with_name("backup")
    shutil.copytree(table.path, backup)
    done = clean_table(*table.since(3))
    deleted = before - table.data()
    assert done.choice.kept == ()
    assert done.choice.limit.instant == table.instant(3)
    assert {path.split("/")[0] for path in deleted} == {"eu", "us"}
    table.judge(hudi, first=3)

    # A clean that looked at every partition would delete these; Hudi's looks at those written since ours.
    again = sorted(path for path in deleted if path.startswith("us/"))
    for path in again:
        shutil.copy2(backup / path, table.path / path)
    assert hudi.clean(table.path, THEIRS).num_rows == 0  # ours says that nothing was committed since
    table.commit(6, "eu")
    before = table.data()
    (row,) = hudi.clean(table.path, THEIRS).to_pylist()
    gone = before - table.data()
    assert gone
    assert not gone & deleted
    assert {path.split("/")[0] for path in gone} == {"eu"}
    assert row["total_files_deleted"] == len(gone)
    assert [each.is_completed for each in table.cleans()] == [True, True]
    assert_read_alike(hudi, table.path, table.expected.table(), KEY)

    clean_table(Guarded(table.storage), Retention(versions=1))
    assert not table.data() & set(again)
    assert_read_alike(hudi, table.path, table.expected.table(), KEY)


def test_hudis_pending_clean_is_finished_by_us(hudi: HudiOracle, table: Table) -> None:
    backup = table.path.with_name("backup")
    before = table.data()
    shutil.copytree(table.path, backup)
    hudi.clean(table.path, THEIRS)
    (clean,) = table.cleans()
    theirs = CleanMetadata.decode(table.storage.get(path_of(clean)), "theirs")
    gone = before - table.data()
    assert gone
    for path in gone:  # as if it had died before its first deletion
        shutil.copy2(backup / path, table.path / path)
    table.storage.delete(path_of(clean))

    (result,) = finish_pending(Guarded(table.storage))
    assert (result.request_time, result.files) == (clean.request_time, len(gone))
    assert before - table.data() == gone
    (ours,) = table.cleans()
    metadata = CleanMetadata.decode(table.storage.get(path_of(ours)), "ours")
    assert {path: set(names) for path, names in metadata.files.items()} == {
        path: set(names) for path, names in theirs.files.items()
    }
    assert (metadata.earliest, metadata.last_completed) == (theirs.earliest, theirs.last_completed)
    assert [(each.requested, each.state) for each in hudi.instants(table.path) if each.action == CLEAN] == [
        (clean.request_time, "COMPLETED")
    ]
    assert_read_alike(hudi, table.path, table.expected.table(), KEY)
    hudi.clean(table.path, THEIRS)  # reads ours as the last one; nothing is left
    assert before - table.data() == gone


def test_our_pending_clean_is_finished_by_hudi(hudi: HudiOracle, table: Table) -> None:
    before = table.data()
    plan = choose_now(*table.since(3)).plan
    assert plan is not None
    clean = request(Guarded(table.storage), plan)
    assert (table.path / TIMELINE_DIRECTORY / f"{clean}.clean.requested").exists()
    hudi.clean(table.path, THEIRS, retain_commits=9)
    assert before - table.data() == set(plan.paths)
    (done,) = table.cleans()
    assert (done.request_time, done.is_completed) == (clean, True)
    metadata = CleanMetadata.decode(table.storage.get(path_of(done)), "theirs")
    assert {path: set(names) for path, names in metadata.files.items()} == {
        path: set(names) for path, names in plan.files.items()
    }
    assert plan.earliest is not None
    assert (metadata.earliest, metadata.last_completed) == (plan.earliest.request_time, plan.last_completed)
    assert read_clean_plan(table.storage, clean) == plan
    table.judge(hudi, first=3)
    assert clean_table(*table.since(3)).results == ()


def test_hudis_savepoint_keeps_its_files(hudi: HudiOracle, table: Table) -> None:
    time = table.instant(2).request_time
    hudi.sql(f"call create_savepoint(path => '{table.path}', commit_time => '{time}')", THEIRS.session_conf())
    before = table.data()
    done = clean_table(*table.since(3))
    deleted = before - table.data()
    assert {each.why for each in done.choice.kept} == {f"savepoint {time} keeps it"}
    first = table.instant(1).request_time
    assert deleted
    assert {path for path in deleted if first not in path} == set()
    assert done.choice.plan is not None
    assert done.choice.plan.savepoints == {time}

    hudi.sql(f"call delete_savepoint(path => '{table.path}', instant_time => '{time}')", THEIRS.session_conf())
    table.commit(6, "eu")
    before = table.data()
    hudi.clean(table.path, THEIRS)  # sees in ours that the savepoint is gone, and looks at its partitions again
    assert {path.split("/")[0] for path in before - table.data()} == {"eu", "us"}
    assert_read_alike(hudi, table.path, table.expected.table(), KEY)
