"""File groups that we merged, as Hudi and hudi-rs read them, and as Hudi's own writers go on with them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.table.table import StateRules, TableDefinition
from bucketingest.hudi.timeline.instant import REPLACE_COMMIT
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.services.archive.choose import ArchiveRules
from bucketingest.services.clean.choose import Retention
from bucketingest.services.clean_and_archive import archive_old, clean
from bucketingest.services.clustering.choose import ClusteringTriggers
from bucketingest.services.clustering.records import ClusteringJournal
from bucketingest.services.protocol.holder import Guarded
from bucketingest.services.protocol.journal import KEPT_FOR
from bucketingest.services.protocol.records import End
from bucketingest.storage import Storage, open_storage
from bucketingest.write.instants.records import CommitDecision
from support.oracle import hudi_rs
from support.oracle.client import HudiOracle
from support.oracle.compare import assert_same_rows
from support.oracle.expected import ExpectedTable, MergeRules
from support.oracle.writer import HudiWriter
from support.storage.crashing_storage import Crash
from support.storage.passing_storage import PassingStorage
from support.tables.local_writer import LocalWriter
from support.tables.services.clustered import PAIRS, cluster, clustering_holder, current_groups, made
from support.tables.services.compactions import compact

pytestmark = pytest.mark.hudi

RULES: Final = MergeRules(key=["id"], partition_by=["region"], ordering="at", deleted="gone")
SCHEMA: Final = pa.schema(
    [("id", pa.string()), ("region", pa.string()), ("at", pa.int64()), ("value", pa.string()), ("gone", pa.bool_())]
)
DEFINITION: Final = TableDefinition("merged", ("id",), ("region",), "at", state=StateRules())
ALL: Final = ClusteringTriggers(PAIRS.target_bytes, min_groups=2)


@pytest.fixture(autouse=True)
def local_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def theirs(index: str) -> HudiWriter:
    options = {"hoodie.index.type": index, "hoodie.parquet.small.file.limit": str(100 * 1024**2)}
    return HudiWriter(name="merged", record_key=["id"], partition_by=["region"], ordering="at", extra=options)


def rows_of(keys: range, at: int, *, gone: int = 0) -> pa.Table:
    """The first `gone` of them are deletes."""
    columns = {
        "id": [f"k{number}" for number in keys],
        "region": [("eu", "us")[number % 2] for number in keys],
        "at": [at] * len(keys),
        "value": [f"{at} {number}" for number in keys],
        "gone": [place < gone for place in range(len(keys))],
    }
    return pa.table(columns, schema=SCHEMA)


class Given:
    """A table that we wrote, with five small file groups in each of two partitions, and what it should show."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.expected = ExpectedTable(RULES)
        self.writer = LocalWriter(path, DEFINITION, SCHEMA, deleted="gone")
        for number in range(5):
            self.commit(rows_of(range(10 * number, 10 * number + 12), number))
        self.commit(rows_of(range(20, 24), 6, gone=2))

    @property
    def storage(self) -> Storage:
        return open_storage(str(self.path))

    def commit(self, rows: pa.Table) -> None:
        self.writer.commit(rows)
        self.expected.apply(rows)

    def check(self, hudi: HudiOracle) -> None:
        assert_same_rows(hudi.snapshot(self.path), self.expected.table(), RULES.identity)
        assert_same_rows(hudi_rs.snapshot(self.path), self.expected.table(), RULES.identity)


def newest(storage: Storage) -> str:
    return max(each.completion_time or "" for each in Timeline.load(storage).completed_commits)


def test_every_reader_shows_the_same_rows_and_hudis_writers_go_on(hudi: HudiOracle, tmp_path: Path) -> None:
    its = Given(tmp_path / "table")
    its.check(hudi)
    first = min(each.completion_time or "" for each in Timeline.load(its.storage).completed_commits)
    before, changed = newest(its.storage), hudi.incremental(its.path, first)
    changed_rs, unmerged = hudi_rs.incremental(its.path, first), its.expected.table()

    old = sum(map(len, current_groups(its.storage).values()))
    ended = cluster(its.storage, ALL)
    assert (ended.end, ended.new_groups, len(ended.replaced)) == (End.COMPLETED, 2, old)
    its.expected.compact()  # deletes are forgotten
    its.check(hudi)
    assert_same_rows(hudi.read_optimized(its.path), its.expected.table(), RULES.identity)
    for read, old in ((hudi.incremental, changed), (hudi_rs.incremental, changed_rs)):
        assert_same_rows(read(its.path, first), old.select(SCHEMA.names), RULES.identity)
        assert read(its.path, before).num_rows == 0, "a merge brings no rows"
    assert_same_rows(hudi.as_of(its.path, before), unmerged, RULES.identity)

    for at, index in enumerate(("SIMPLE", "BLOOM"), start=10):
        rows = rows_of(range(15 * at - 140, 15 * at - 120), at)
        hudi.upsert(its.path, rows, theirs(index))
        its.expected.apply(rows)
        its.check(hudi)
        its.commit(rows_of(range(5, 70, 4), 100 + at))
        its.check(hudi)
    assert set(compact(its.storage)) == {End.COMPLETED}
    its.expected.compact()
    its.check(hudi)


def test_what_was_replaced_is_cleaned_and_archived(hudi: HudiOracle, tmp_path: Path) -> None:
    its = Given(tmp_path / "table")
    old = current_groups(its.storage)
    assert cluster(its.storage, ALL).end is End.COMPLETED
    its.expected.compact()
    its.commit(rows_of(range(3, 9), 20))
    guarded = Guarded(its.storage, nullcontext, lambda: None)
    assert clean(guarded, Retention(retain=timedelta(hours=1))).choice.plan is None, "readers may still read them"
    (cleaned,) = clean(guarded, Retention(retain=timedelta(0))).results
    assert cleaned.files > sum(map(len, old.values())), "base files, and log files of some"
    left = {path.name.split("_")[0] for path in its.path.glob("*/*.parquet")}
    assert all(left.isdisjoint(file_ids) for file_ids in old.values())
    its.check(hudi)
    for at in range(30, 34):
        its.commit(rows_of(range(50, 55), at))
    assert set(compact(its.storage)) == {End.COMPLETED}
    its.expected.compact()
    its.commit(rows_of(range(50, 55), 40))
    clean(guarded, Retention(retain=timedelta(0)))
    later = utc_now() + KEPT_FOR + timedelta(minutes=1)  # until then a file may come late into a replaced group
    guarded = replace(guarded, clock=lambda: later)
    archive_old(guarded, ArchiveRules(keep_min=1, min_age=timedelta()))
    assert not [each for each in Timeline.load(its.storage).instants if each.action == REPLACE_COMMIT]
    its.check(hudi)
    rows = rows_of(range(10), 50)
    hudi.upsert(its.path, rows, theirs("SIMPLE"))
    its.expected.apply(rows)
    its.check(hudi)


def test_hudi_cleans_and_archives_after_a_merge(hudi: HudiOracle, tmp_path: Path) -> None:
    its = Given(tmp_path / "table")
    assert cluster(its.storage, ALL).end is End.COMPLETED
    its.expected.compact()
    options = {
        "hoodie.index.type": "SIMPLE",
        "hoodie.archive.automatic": "true",
        "hoodie.clean.automatic": "true",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.clean.commits.retained": "1",
    }
    writer = HudiWriter(name="merged", record_key=["id"], partition_by=["region"], ordering="at", extra=options)
    for at in range(20, 26):
        rows = rows_of(range(at, at + 20), at)
        hudi.upsert(its.path, rows, writer)
        its.expected.apply(rows)
    its.check(hudi)
    its.commit(rows_of(range(4, 80, 3), 60))
    its.check(hudi)


class DiesBeforeTheCompletedFile(PassingStorage):
    def _change(self, path: str, act: Callable[[], None]) -> None:
        if path.endswith(".replacecommit"):
            raise Crash
        act()


@pytest.mark.parametrize("written_meanwhile", [False, True], ids=["as it was", "written to meanwhile"])
def test_a_merge_that_a_crash_left_on_the_timeline(hudi: HudiOracle, tmp_path: Path, written_meanwhile: bool) -> None:
    its = Given(tmp_path / "table")
    _, number = made(its.storage, ALL)
    with pytest.raises(Crash):
        clustering_holder(DiesBeforeTheCompletedFile(its.storage)).commit(number)
    decided = ClusteringJournal(its.storage).decision(number)
    assert isinstance(decided, CommitDecision)
    its.check(hudi)
    if written_meanwhile:  # by another writer, without a look at our journal
        rows = rows_of(range(8), 20)
        hudi.upsert(its.path, rows, theirs("SIMPLE"))
        its.expected.apply(rows)
    ended = clustering_holder(its.storage).settle()
    assert ended is not None
    assert ended.end is (End.VOID if written_meanwhile else End.COMPLETED)
    if not written_meanwhile:
        its.expected.compact()
    its.check(hudi)
    its.commit(rows_of(range(5, 70, 4), 30))
    its.check(hudi)
    rows = rows_of(range(6), 40)
    hudi.upsert(its.path, rows, theirs("BLOOM"))
    its.expected.apply(rows)
    its.check(hudi)
