"""Beside a running job: which looks ask the catalog, what a failure leaves, and when the whole is compared again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from bucketingest.catalog.errors import CatalogUnavailable
from bucketingest.catalog.keeper import COMPARE_EVERY, LOOK_EVERY, NOTICE_EVERY, CatalogKeeper
from bucketingest.catalog.keeping import CatalogThreads
from bucketingest.catalog.sync import HudiTarget
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.hudi.timeline.instant_time import parse_time
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.spec.job_report import CatalogReport
from bucketingest.storage import open_storage
from bucketingest.storage.errors import NotFound
from bucketingest.write.open_table import open_table
from support.catalogs.memory import MemoryCatalog
from support.catalogs.tables import rows
from support.tables.local_writer import LocalWriter

SCHEMA = pa.schema(
    [pa.field("id", pa.string(), nullable=False), ("region", pa.string()), ("at", pa.timestamp("us", "UTC"))]
)


class Job:
    """A job whose commits a test makes."""

    def __init__(self, base: Path, *, empty: bool = False) -> None:
        self.now = datetime.now(UTC)
        self.commits = 0
        self.states: list[CatalogReport] = []
        self.opened = 0
        self.catalog = MemoryCatalog()
        of = TableDefinition("made", ("id",), ("region",), "at", buckets=1)
        self.writer = LocalWriter(base, of, SCHEMA)
        open_table(open_storage(str(base)), of, SCHEMA)
        if not empty:
            self.writer.commit(rows(SCHEMA, ("a",)))
        self.storage = open_storage(str(base))
        self.keeper = CatalogKeeper(
            self.storage,
            HudiTarget("memory", self._open, "t", "snapshot"),
            self.states.append,
            lambda: self.commits,
            lambda: self.now,
        )

    def _open(self) -> MemoryCatalog:
        self.opened += 1
        return self.catalog

    def commit(self, *regions: str) -> None:
        self.writer.commit(rows(SCHEMA, regions))
        self.commits += 1

    def partitions(self) -> set[str]:
        return {values[0] for values in self.catalog.partitions_of["t"]}


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def test_the_first_look_compares_all_and_later_ones_ask_only_for_what_is_new(job: Job) -> None:
    job.keeper.step()
    assert (job.partitions(), job.opened) == ({"a"}, 1)
    job.keeper.step()
    job.commit("b")
    job.keeper.step()
    assert (job.partitions(), job.opened) == ({"a", "b"}, 2)
    job.commit("b")
    job.keeper.step()
    assert job.opened == 2, "a commit without a new partition or column is no reason to ask"
    assert [state.behind_since for state in job.states] == [None] * 3


def test_a_commit_is_noticed_at_once_and_the_table_is_looked_at_no_more_often_for_that(tmp_path: Path) -> None:
    """The first one above all: before, the table has nothing to register."""
    job = Job(tmp_path, empty=True)
    job.keeper.step()
    assert (job.keeper._pause, job.opened) == (NOTICE_EVERY, 0)
    job.commit("a")
    job.keeper.step()
    assert (job.partitions(), job.keeper._pause) == ({"a"}, LOOK_EVERY)
    job.keeper.step()
    assert job.keeper._pause == NOTICE_EVERY
    job.commit("b")
    job.keeper.step()
    assert (job.partitions(), job.keeper._pause) == ({"a", "b"}, LOOK_EVERY)


def test_another_writers_first_commit_is_found_though_the_job_has_none(tmp_path: Path) -> None:
    job = Job(tmp_path, empty=True)
    job.keeper.step()
    job.writer.commit(rows(SCHEMA, ("a",)))
    job.keeper.step()
    assert job.opened == 0
    job.now += LOOK_EVERY
    job.keeper.step()
    assert job.partitions() == {"a"}


def test_a_failure_is_reported_with_the_age_of_the_commit_and_tried_again_later(job: Job) -> None:
    job.keeper.step()
    job.commit("b")
    job.commit("c")
    job.catalog.fails_after = len(job.catalog.changes)
    for failures in (1, 2):
        job.keeper.step()
        assert (job.states[-1].failures, job.states[-1].problem) == (failures, "memory: it is away")
    missing = Timeline.load(job.storage).completed_commits[-2]
    assert job.states[-1].behind_since == parse_time(missing.completion_time or "")
    assert job.keeper._pause == LOOK_EVERY * 4
    job.catalog.fails_after = None
    job.keeper.step()
    assert job.states[-1] == CatalogReport(catalog="memory", failures=2)
    assert job.partitions() == {"a", "b", "c"}
    assert job.keeper._pause == LOOK_EVERY


def test_what_was_missed_or_written_by_others_is_found_when_all_is_compared_again(job: Job) -> None:
    job.keeper.step()
    del job.catalog.partitions_of["t"]["a",]
    job.now += COMPARE_EVERY - timedelta(seconds=1)
    job.keeper.step()
    assert job.partitions() == set()
    job.now += timedelta(seconds=1)
    job.keeper.step()
    assert job.partitions() == {"a"}


def test_a_commit_that_is_archived_before_it_was_looked_at_leads_to_a_comparison(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.keeper.step()
    job.commit("b", "c")

    def gone(*_: object) -> set[str]:
        raise NotFound("archived")

    monkeypatch.setattr("bucketingest.catalog.sync.written_partitions", gone)
    job.keeper.step()
    assert job.partitions() == {"a", "b", "c"}


def test_a_stop_takes_the_last_commit_along(job: Job) -> None:
    threads = CatalogThreads(1)
    threads.add("t", [job.keeper])
    threads.start()
    job.commit("z")
    threads.stop(30)
    assert job.partitions() == {"a", "z"}


def test_a_defect_ends_nothing(job: Job) -> None:
    job.catalog.tables = None  # type: ignore[assignment]
    job.keeper.step()
    assert "AttributeError" in (job.states[-1].problem or "")


def test_what_fails_tells_no_secret(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(_: object) -> object:
        raise CatalogUnavailable("https://me:s3cr3t-word@catalog: away, password=s3cr3t-word")

    monkeypatch.setattr(job.catalog, "find", away)
    job.keeper.step()
    assert "away" in (job.states[-1].problem or "")
    assert "s3cr3t-word" not in (job.states[-1].problem or "")


def test_a_clean_waits_until_a_catalog_that_names_files_is_up_to_date_with_what_superseded_them(job: Job) -> None:
    at = 0.0
    target = HudiTarget("memory", job._open, "t", "snapshot", names_files=True)
    keeper = CatalogKeeper(
        job.storage, target, job.states.append, lambda: job.commits, lambda: job.now, forward=lambda: at
    )
    assert job.keeper.lets_clean(at), "this one names none"
    assert not keeper.lets_clean(at)
    at = 1.0
    job.catalog.fails_after = 0
    keeper.step()
    assert not keeper.lets_clean(0.0), "it failed"
    job.catalog.fails_after = None
    keeper.step()
    assert keeper.lets_clean(0.0)
    assert not keeper.lets_clean(1.0), "superseded while it looked"
    at = 2.0
    keeper.step()
    assert keeper.lets_clean(1.0), "there was nothing new since"
    job.commit("other")
    job.catalog.fails_after = 0
    keeper.step()
    assert not keeper.lets_clean(1.0), "what another writer superseded meanwhile is not taken"
    job.catalog.fails_after = None
    keeper.step()
    assert keeper.lets_clean(1.0)


def test_a_partition_in_which_files_changed_is_looked_at_each_time(job: Job) -> None:
    target = HudiTarget("memory", job._open, "t", "snapshot", names_files=True)
    keeper = CatalogKeeper(job.storage, target, job.states.append, lambda: job.commits, lambda: job.now)
    for opened in (1, 2, 3):
        keeper.step()
        assert job.opened == opened
        job.commit("b")
