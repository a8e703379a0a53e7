"""Clusterings among the other services: the state, the clean, the archive, and the loop of a job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from unittest.mock import patch

import pyarrow as pa
import pytest

from bucketingest.hudi.plans.replaced import replaced_file_groups
from bucketingest.hudi.table.file_view import FileGroup, FileSlice, load_file_view
from bucketingest.hudi.table.table import StateRules
from bucketingest.hudi.timeline.instant import REPLACE_COMMIT
from bucketingest.hudi.timeline.instant_time import format_time, parse_time
from bucketingest.index.state import loading
from bucketingest.index.state.key_columns import keys_of_rows
from bucketingest.services.archive.choose import ArchiveRules
from bucketingest.services.clean.choose import Retention
from bucketingest.services.clean_and_archive import archive_old, archive_plan, clean, held_back
from bucketingest.services.clustering import propose
from bucketingest.services.clustering.execute import ClusteringExecutor
from bucketingest.services.clustering.inline import InlineClustering, MakeBaseFiles
from bucketingest.services.clustering.records import ClusteringJournal
from bucketingest.services.compaction.choose import CompactionTriggers
from bucketingest.services.errors import ClusteringInDoubt
from bucketingest.services.protocol.holder import Guarded
from bucketingest.services.protocol.journal import KEPT_FOR
from bucketingest.services.protocol.records import End
from bucketingest.storage import Storage, StorageUnavailable
from bucketingest.storage.interface import Data
from bucketingest.write.covering.covered_table import CoveredTable
from support.storage.passing_storage import PassingStorage
from support.tables.services.clustered import PAIRS, cluster, clustering_holder, made, planned
from support.tables.services.serving_job import Job
from support.tables.services.snapshot import snapshot
from support.tables.table_runs import offsets
from support.tables.write_plans import WITH_DELETES, definition, row
from unit.services.clustering.conftest import Scattered

SELDOM = CompactionTriggers(log_files=1000, log_ratio=1000.0, log_age=timedelta(days=9))


def view_of(given: Scattered) -> Iterator[FileGroup]:
    return load_file_view(given.storage, given.table.timeline()).groups


def fold(covered: CoveredTable, given: Scattered) -> None:
    timeline = given.table.timeline()
    covered.fold_in(timeline, replaced_file_groups(given.storage, timeline))


def group_of(covered: CoveredTable, key: str) -> str | None:
    known = covered.index.look_up("eu")
    assert known is not None
    number = int(known.find(covered.index.store.hasher.hash(pa.array([key])))[0])
    return None if number < 0 else known.groups[number]


def test_look_ups_find_the_new_group_and_read_no_other(given: Scattered) -> None:
    given.table.attempt().run(offsets(8, 9), [row("k3", at=9, deleted=True)], schema=WITH_DELETES)
    covered = CoveredTable(given.storage, StateRules(report_duplicates=False))
    fold(covered, given)
    cluster(given.storage)
    (new,) = given.groups["eu"]
    read: list[str] = []

    def keys(storage: Storage, files: FileSlice) -> object:
        assert files.base_file is not None
        read.append(files.base_file.name.file_id)
        return keys_of_rows(storage, files)

    with patch.object(loading, "keys_of_rows", keys):
        fold(covered, given)
    assert read == [new], "no other partition is looked at"
    assert [group_of(covered, key) for key in ("k0", "k1", "k2", "k4")] == [new] * 4
    assert group_of(covered, "k3") is None, "it was deleted: its next row is an insert"
    covered.keep()
    again = CoveredTable(given.storage, StateRules(report_duplicates=False))
    fold(again, given)
    assert group_of(again, "k0") == new


def test_a_large_group_beside_merged_ones_is_not_read_again(given: Scattered) -> None:
    attempt = given.table.attempt()
    attempt.run(offsets(8, 9), [row(f"big{number}", at=5) for number in range(3000)])
    covered = CoveredTable(given.storage, StateRules(report_duplicates=False))
    fold(covered, given)
    large = group_of(covered, "big0")
    read: list[str] = []

    def keys(storage: Storage, files: FileSlice) -> object:
        assert files.base_file is not None
        read.append(files.base_file.name.file_id)
        return keys_of_rows(storage, files)

    assert large is not None
    sizes = {group.file_id: group.latest.size for group in view_of(given) if group.latest is not None}
    triggers = replace(PAIRS, target_bytes=2 * sizes[large], small_percent=50)
    assert ("eu", large) not in cluster(given.storage, triggers).replaced
    with patch.object(loading, "keys_of_rows", keys):
        fold(covered, given)
    assert large not in read
    assert group_of(covered, "big0") == large
    assert group_of(covered, "k0") not in {None, large}


def test_replaced_files_stay_as_long_as_readers_may_read_them(given: Scattered) -> None:
    old = given.groups["eu"]
    cluster(given.storage)
    given.table.attempt().run(offsets(8, 9), [row("k0", at=9)])
    given.rows = snapshot(given.storage)
    guarded = Guarded(given.storage, nullcontext, lambda: None)

    def there() -> set[str]:
        return {info.path.rpartition("/")[2][:38] for info in given.storage.list("eu") if ".parquet" in info.path}

    assert clean(guarded, Retention(retain=timedelta(hours=1))).results == ()
    assert old <= there()
    clean(guarded, Retention(retain=timedelta()))
    assert old.isdisjoint(there())
    given.unchanged()


def test_replaced_files_go_whose_newest_log_files_completed_after_the_time_of_the_clustering(given: Scattered) -> None:
    old = given.groups["eu"]
    given.table.attempt().run(offsets(8, 9), [row(f"k{number}", at=9) for number in range(5)])
    given.rows = snapshot(given.storage)
    newest = given.table.timeline().completed_commits[-1]
    done = parse_time(newest.completion_time or "")
    count = round((done - parse_time(newest.request_time)) / timedelta(milliseconds=1))
    used = {format_time(done - timedelta(milliseconds=back)) for back in range(1, count)}
    with patch.object(propose, "claimed", lambda _: used):  # by other pipelines
        cluster(given.storage)
    (clustering,) = (each for each in given.table.timeline().completed_commits if each.action == REPLACE_COMMIT)
    assert clustering.request_time < newest.request_time
    given.unchanged()
    given.table.attempt().run(offsets(9, 10), [row("k0", at=10)])
    given.rows = snapshot(given.storage)
    guarded = Guarded(given.storage, nullcontext, lambda: None)
    assert clean(guarded, Retention(retain=timedelta())).choice.kept == ()
    there = {group.file_id for group in view_of(given)}
    assert old.isdisjoint(there)
    given.unchanged()


def test_the_archive_keeps_an_instant_whose_files_may_still_come(given: Scattered) -> None:
    plan = planned(given.storage)
    assert plan is not None
    number = clustering_holder(given.storage).begin(plan)
    assert plan.instant in held_back(given.storage, datetime.now(UTC)).kept
    clustering_holder(given.storage).settle()
    assert "may still put one" in held_back(given.storage, datetime.now(UTC)).kept[plan.instant]
    assert plan.instant not in held_back(given.storage, datetime.now(UTC) + timedelta(hours=25)).kept, "nothing comes"
    journal = ClusteringJournal(given.storage)
    assert journal.done(number) is End.VOID

    attempt = given.table.attempt()
    attempt.run(offsets(8, 9), [row("k1", at=8)])
    holder, number = made(given.storage)
    attempt.run(offsets(9, 10), [row("k1", at=9)])
    assert holder.commit(number).end is End.VOID
    assert set(held_back(given.storage, datetime.now(UTC)).kept) == {plan.instant}, (
        "whoever recorded its result has nothing more to do"
    )


def test_the_name_of_a_clustering_that_was_closed_is_taken_for_a_day(given: Scattered) -> None:
    """What completes it as it was decided may be on its way: it would take file groups from readers that are in use."""
    attempt = given.table.attempt()
    _, number = made(given.storage)

    class Late(PassingStorage):
        """The request that completes the clustering takes effect later."""

        def create(self, path: str, data: Data) -> None:
            if path.endswith(".replacecommit"):
                raise StorageUnavailable(path)
            super().create(path, data)

    with pytest.raises(ClusteringInDoubt):
        clustering_holder(Late(given.storage)).commit(number)
    attempt.run(offsets(8, 9), [row("k1", at=9)])
    ended = clustering_holder(given.storage).settle()
    assert ended is not None
    assert ended.end is End.VOID
    assert "may be on its way" in held_back(given.storage, datetime.now(UTC)).kept[ended.instant]
    assert ended.instant not in held_back(given.storage, datetime.now(UTC) + timedelta(hours=25)).kept


def test_a_file_that_comes_late_into_a_replaced_group_stays_invisible_for_a_day(given: Scattered) -> None:
    """A task's second attempt may have its base file on the way while the group is merged and cleaned."""
    (late, content) = next(
        (info.path, given.storage.get(info.path))
        for info in given.storage.list("eu")
        if info.path.endswith(".parquet") and info.path.rpartition("/")[2][:38] in given.groups["eu"]
    )
    replacing = cluster(given.storage).instant
    attempt = given.table.attempt()
    for number in range(8, 11):
        attempt.run(offsets(number, number + 1), [row(f"new{number}", region="us", at=9)])
    given.rows = snapshot(given.storage)
    now = datetime.now(UTC)
    table = Guarded(given.storage, nullcontext, lambda: None, lambda: now)
    clean(table, Retention(retain=timedelta()))
    assert not given.storage.exists(late)
    rules = ArchiveRules(keep_min=1, min_age=timedelta())
    archive_old(table, rules)
    assert "on its way" in next(pin.why for pin in archive_plan(table, rules).pins if pin.instant == replacing)
    given.storage.create(late, content)
    given.unchanged()
    clean(table, Retention(retain=timedelta()))
    assert not given.storage.exists(late), "the clean deletes it again"
    now += KEPT_FOR + timedelta(minutes=1)
    archive_old(table, rules)
    assert given.table.timeline().is_archived(replacing)
    given.unchanged()


def test_files_that_a_paused_process_puts_late_are_swept(given: Scattered) -> None:
    plan = planned(given.storage)
    assert plan is not None
    clustering_holder(given.storage).begin(plan)
    clustering_holder(given.storage).settle()
    given.storage.create(plan.paths[0], b"late")
    clustering_holder(given.storage).sweep()
    assert not given.storage.exists(plan.paths[0])
    given.storage.create(plan.paths[0], b"later still")
    clustering_holder(given.storage).start()
    assert not given.storage.exists(plan.paths[0]), "each start looks, too"
    days_later = datetime.now(UTC) + timedelta(days=2)
    clustering_holder(given.storage, lambda: days_later).sweep()
    assert ClusteringJournal(given.storage).numbers() == [1], "the newest ones stay, so that no number comes twice"
    attempt = given.table.attempt()
    for number in range(8, 11):
        attempt.run(offsets(number, number + 1), [row("k1", at=number)])
        again = planned(given.storage)
        assert again is not None
        clustering_holder(given.storage).begin(again)
        clustering_holder(given.storage).settle()
    clustering_holder(given.storage, lambda: days_later).sweep()
    assert ClusteringJournal(given.storage).numbers() == [2, 3, 4]


def test_the_base_files_of_a_clustering_that_was_committed_are_not_swept(given: Scattered) -> None:
    cluster(given.storage)
    clustering_holder(given.storage).sweep()
    given.unchanged()


@pytest.fixture
def job(given: Scattered) -> Job:
    job = Job()
    job.table, job.attempt, job.rows = given.table, given.table.attempt(), given.rows
    return job


def clustering(job: Job) -> InlineClustering:
    return InlineClustering(job.table.storage, clustering_holder(job.table.storage), PAIRS, lambda: job.now)


def test_a_job_merges_small_groups_between_micro_batches(given: Scattered, job: Job) -> None:
    before = sum(map(len, given.groups.values()))
    services = job.services(SELDOM, clustering=clustering(job))
    job.pass_time(services, looks=2)
    assert len(given.groups["eu"]) == 1
    given.unchanged()
    last = job.reports[-1]
    assert (last.clusterings, last.merged_groups, last.failures) == (1, before - 1, 0)
    assert last.small_groups is not None
    assert (last.small_groups.groups, last.small_groups.most) == (2, 1)
    given.goes_on()


def test_a_compaction_that_is_due_comes_first(given: Scattered, job: Job) -> None:
    services = job.services(clustering=clustering(job))
    job.pass_time(services, looks=4)
    assert job.compactions == 1
    assert len(given.groups["eu"]) == 1
    given.unchanged()


def test_groups_that_are_written_to_while_they_are_merged_rest(given: Scattered, job: Job) -> None:
    """An update in the micro-batch that runs beside the clustering."""
    services = job.services(SELDOM, clustering=clustering(job))
    numbers = iter(range(8, 20))

    def update(request: object) -> None:
        if isinstance(request, MakeBaseFiles):
            number = next(numbers)
            job.attempt.run(offsets(number, number + 1), [row("k1", amount=number, at=number)])

    job.meanwhile = update
    job.pass_time(services, looks=4)
    started = [each for each in job.requests if isinstance(each, MakeBaseFiles)]
    assert len(started) == 1, "not tried again at each look"
    given.rows = snapshot(given.storage)
    given.unchanged()
    job.meanwhile = lambda _: None
    job.now += timedelta(minutes=15).total_seconds()
    job.pass_time(services, looks=1)
    assert len(given.groups["eu"]) == 1
    given.unchanged()


def test_a_clustering_is_committed_between_two_instants_though_one_is_open_nearly_always(
    given: Scattered, job: Job
) -> None:
    given.table.definition = definition(state=StateRules(inserts="log"))
    job.attempt = given.table.attempt(commit_interval=timedelta(hours=1))
    before = given.groups["eu"]
    job.attempt.run(offsets(8, 9), [row("u1", region="us", at=8)])
    services = job.services(SELDOM, clustering=clustering(job))
    job.pass_time(services, looks=3)
    assert sum(isinstance(each, MakeBaseFiles) for each in job.requests) == 1, "its work is not thrown away"
    assert given.groups["eu"] == before
    job.attempt.coordinator.commit_open()
    assert services.is_due(), "before the next instant"
    services.step()
    assert len(given.groups["eu"]) == 1
    assert job.reports[-1].clusterings == 1
    assert set(snapshot(given.storage)) == {*given.rows, "u1"}


def test_a_clustering_whose_process_died_is_void_at_the_next_look(given: Scattered, job: Job) -> None:
    plan = planned(given.storage)
    assert plan is not None
    number = clustering_holder(given.storage).begin(plan)
    ClusteringExecutor(given.storage, number).run()
    services = job.services(SELDOM, clustering=clustering(job))
    job.pass_time(services, looks=1)
    assert ClusteringJournal(given.storage).done(number) is End.VOID
    assert not any(map(given.storage.exists, plan.paths))
    job.attempt.run(offsets(8, 9), [row("k1", at=8)])
    given.rows = snapshot(given.storage)
    job.now += timedelta(minutes=15).total_seconds()
    job.pass_time(services, looks=1)
    assert len(given.groups["eu"]) == 1
