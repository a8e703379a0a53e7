"""Our archive beside Hudi: its readers, its archived timeline, and its own archiver go on with what we write."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from bucketingest.hudi.history.archived import archived_instants
from bucketingest.hudi.history.manifest import VERSION_PATH, load_manifest
from bucketingest.hudi.naming import HISTORY_DIRECTORY
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.hudi.timeline.instant import CLEAN, COMMIT, DELTA_COMMIT
from bucketingest.hudi.timeline.ocf import read_record
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.services.archive.choose import ArchiveRules, Held
from bucketingest.services.archive.execute import ArchiveResult, archive
from bucketingest.services.protocol.holder import Guarded
from bucketingest.storage import Storage, open_storage
from support.oracle import hudi_rs
from support.oracle.client import HudiOracle
from support.oracle.compare import diff_tables
from support.oracle.expected import ExpectedTable, MergeRules
from support.oracle.readers import assert_read_alike
from support.oracle.writer import HudiWriter
from support.storage.crashing_storage import Crash
from support.storage.passing_storage import PassingStorage
from support.tables.local_writer import LocalWriter

pytestmark = pytest.mark.hudi

SCHEMA = pa.schema([("id", pa.string()), ("region", pa.string()), ("at", pa.int64()), ("value", pa.string())])
RULES = MergeRules(key=["id"], partition_by=["region"], ordering="at")
KEY = ["region", "id"]
DEFINITION = TableDefinition("archived", ("id",), ("region",), "at", buckets=2)
THEIRS = HudiWriter("archived", ["id"], ["region"], "at", buckets=2)
ARCHIVING = HudiWriter(
    "archived",
    ["id"],
    ["region"],
    "at",
    buckets=2,
    extra={
        "hoodie.archive.automatic": "true",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.clean.commits.retained": "1",
        "hoodie.timeline.compaction.batch.size": "2",
    },
)
FEW = ArchiveRules(keep_min=5, min_age=timedelta(), instants_max=100)


@dataclass
class Table:
    """A table that we write, and Hudi compacts and cleans."""

    path: Path
    inputs: list[pa.Table]
    compacted: int = 0
    """How many of the inputs are in base files."""

    @property
    def storage(self) -> Storage:
        return open_storage(str(self.path))

    @property
    def timeline(self) -> Timeline:
        return Timeline.load(self.storage)

    def next_rows(self) -> pa.Table:
        at = len(self.inputs) + 1
        numbers = range(at % 7, at % 7 + 12)
        places = [(region, number) for region in ("eu", "us") for number in numbers]
        rows = [{"id": f"key-{number}", "region": region, "at": at, "value": f"{at}"} for region, number in places]
        self.inputs.append(pa.Table.from_pylist(rows, schema=SCHEMA))
        return self.inputs[-1]

    def commit(self, count: int) -> None:
        writer = LocalWriter(self.path, DEFINITION, SCHEMA)
        for _ in range(count):
            writer.commit(self.next_rows())

    def compact(self, hudi: HudiOracle) -> None:
        hudi.compact(self.path, THEIRS)
        self.compacted = len(self.inputs)

    def expected(self, inputs: int | None = None) -> pa.Table:
        table = ExpectedTable(RULES)
        for rows in self.inputs[:inputs]:
            table.apply(rows)
        return table.table()

    def archive(self, storage: Storage | None = None, rules: ArchiveRules = FEW) -> ArchiveResult:
        cleans = [instant for instant in self.timeline.completed if instant.action == CLEAN]
        retained = None
        if cleans:
            path = path_of(cleans[-1])
            retained = read_record(self.storage.get(path), path)["earliestCommitToRetain"]
        return archive(Guarded(storage or self.storage), Held(retained), rules)

    def judge(self, hudi: HudiOracle) -> None:
        assert_read_alike(hudi, self.path, self.expected(), KEY)
        assert diff_tables(hudi.read_optimized(self.path), self.expected(self.compacted), KEY).same

    def shown(self, hudi: HudiOracle) -> list[tuple[str, str]]:
        """Time and action of every instant in Hudi's archived timeline."""
        rows = self._call(hudi, "show_timeline", "showArchived => true, limit => 1000")
        archived = [row for row in rows.to_pylist() if row["timeline_type"] == "ARCHIVED"]
        assert all(row["state"] == "COMPLETED" and row["completed_time"] for row in archived)
        return sorted((row["instant_time"], row["action"]) for row in archived)

    def shown_commits(self, hudi: HudiOracle) -> list[str]:
        """Times of the commits whose archived metadata Hudi reads."""
        return sorted(
            self._call(
                hudi,
                "show_archived_commits",
                "limit => 1000, start_ts => '20200101000000000', end_ts => '29990101000000000'",
            )["commit_time"].to_pylist()
        )

    def _call(self, hudi: HudiOracle, procedure: str, arguments: str) -> pa.Table:
        hudi.sql(f"CREATE TABLE archived USING hudi LOCATION '{self.path}'")
        try:
            return hudi.sql(f"call {procedure}(table => 'archived', {arguments})")
        finally:
            hudi.sql("DROP TABLE archived")


def ours(table: Table) -> list[tuple[str, str]]:
    return [(instant.request_time, instant.action) for instant in archived_instants(table.storage)]


@pytest.fixture(scope="module")
def built(hudi: HudiOracle, tmp_path_factory: pytest.TempPathFactory) -> Table:
    """60 commits, two compactions; what the second one superseded is cleaned."""
    table = Table(tmp_path_factory.mktemp("built") / "table", [])
    table.commit(30)
    table.compact(hudi)
    table.commit(20)
    table.compact(hudi)
    table.commit(10)
    pinned = table.archive()
    assert pinned.instants == ()
    assert "log file" in pinned.pins[0].why, "nothing is cleaned"
    hudi.clean(table.path, THEIRS)
    return table


@pytest.fixture
def table(built: Table, tmp_path: Path) -> Table:
    shutil.copytree(built.path, tmp_path / "table")
    return Table(tmp_path / "table", list(built.inputs), built.compacted)


def sorted_rows(rows: pa.Table) -> pa.Table:
    return rows.sort_by([(name, "ascending") for name in KEY])


def test_every_read_is_as_before_and_hudi_shows_our_rows(hudi: HudiOracle, table: Table) -> None:
    done = [instant.completion_time or "" for instant in table.timeline.completed_commits]
    begins = [done[3], done[-8]]
    reads: list[Callable[[Path, str], pa.Table]] = [hudi.incremental, hudi_rs.incremental]
    before = [sorted_rows(read(table.path, begin)) for read in reads for begin in begins]
    compactions = [instant.request_time for instant in table.timeline.completed if instant.action == COMMIT]
    runs = [table.archive(rules=replace(FEW, instants_max=5)) for _ in range(12)]
    archived = [instant for run in runs for instant in run.instants]
    assert [instant.action for instant in archived].count(DELTA_COMMIT) == 50
    assert {*compactions} <= {instant.request_time for instant in archived}, "ten commits have come since the last one"
    assert "log file" in runs[-1].pins[0].why
    assert [entry.name[-9:] for entry in load_manifest(table.storage).entries] == ["1.parquet", "0.parquet"]
    table.judge(hudi)
    assert [sorted_rows(read(table.path, begin)) for read in reads for begin in begins] == before
    assert table.shown(hudi) == ours(table)
    assert table.shown_commits(hudi) == [time for time, action in ours(table) if action in (COMMIT, DELTA_COMMIT)]


class Dying(PassingStorage):
    """The process dies after the change of a path that ends so."""

    def __init__(self, inner: Storage, end: str) -> None:
        super().__init__(inner)
        self._end = end
        self._dead = False

    def _change(self, path: str, act: Callable[[], None]) -> None:
        if self._dead:
            raise Crash
        act()
        self._dead = path.endswith(self._end)


@pytest.mark.parametrize("after", ["manifest_1", "the middle"])
def test_readers_between_two_steps(hudi: HudiOracle, table: Table, after: str) -> None:
    middle = path_of(table.timeline.completed[25])
    with pytest.raises(Crash):
        table.archive(Dying(table.storage, after if after == "manifest_1" else middle))
    assert (len(load_manifest(table.storage).entries), table.storage.exists(VERSION_PATH)) == (1, after != "manifest_1")
    assert_read_alike(hudi, table.path, table.expected(), KEY)
    assert len(table.shown(hudi)) == 52, "without the version file Hudi takes the highest manifest"
    table.archive()
    assert table.shown(hudi) == ours(table)
    assert len(table.timeline.instants) == 11


def test_a_file_that_a_paused_process_puts_back_hides_rows_until_it_is_removed(hudi: HudiOracle, table: Table) -> None:
    """It becomes the first active instant. To Hudi an archived instant that is newer than that has not completed."""
    put_back = table.timeline.completed[25]
    content = table.storage.get(path_of(put_back))
    table.archive()
    hudi.upsert(table.path, table.next_rows(), ARCHIVING)  # it archives instants whose log files are in latest slices
    assert diff_tables(hudi.snapshot(table.path), table.expected(), KEY).same
    table.storage.create(path_of(put_back), content)
    hidden = diff_tables(hudi.snapshot(table.path), table.expected(), KEY)
    assert not hidden.same
    assert table.archive().removed == (put_back,)
    assert diff_tables(hudi.snapshot(table.path), table.expected(), KEY).same
    assert table.shown(hudi) == ours(table)


def test_hudis_archiver_goes_on_from_ours_and_ours_from_hudis(hudi: HudiOracle, table: Table) -> None:
    table.archive()
    ours_before = ours(table)
    hudi.upsert(table.path, table.next_rows(), ARCHIVING)
    assert len(ours(table)) > len(ours_before) == 52
    assert set(ours_before) < set(ours(table))
    assert [entry.name[-9:] for entry in load_manifest(table.storage).entries] == ["1.parquet"], "Hudi merged our file"
    assert table.shown(hudi) == ours(table)
    assert diff_tables(hudi.snapshot(table.path), table.expected(), KEY).same
    assert diff_tables(hudi.incremental(table.path, "0"), table.expected(), KEY).same
    # Hudi leaves log files of archived instants in latest slices, which hudi-rs reads only after a compaction.
    table.commit(20)
    table.compact(hudi)
    table.commit(6)
    hudi.clean(table.path, THEIRS)
    hudis = ours(table)
    result = table.archive()
    assert len(result.instants) >= 20
    assert table.shown(hudi) == ours(table) == sorted([*hudis, *((i.request_time, i.action) for i in result.instants)])
    table.judge(hudi)
    checksums = {path.name for path in (table.path / HISTORY_DIRECTORY).glob(".*.crc")}
    assert "._version_.crc" not in checksums, "Hadoop would refuse our version file"
