"""A clustering that others write to meanwhile: nothing of what they wrote is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

import pytest

from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.plans.clean_plan import CleanPlan
from bucketingest.hudi.table.file_view import Group
from bucketingest.hudi.timeline.instant import CLEAN, REPLACE_COMMIT, RESTORE, Instant, State
from bucketingest.hudi.timeline.timeline import create_requested, path_of
from bucketingest.services.clustering.records import ClusteringJournal
from bucketingest.services.errors import ClusteringInDoubt, PlanOutdated
from bucketingest.services.protocol.records import End
from bucketingest.storage import StorageUnavailable
from bucketingest.write.instants.records import CommitDecision
from support.storage.crashing_storage import Crash
from support.storage.passing_storage import PassingStorage
from support.tables.clusterings import request_clustering
from support.tables.other_writers import (
    next_time,
    planned_compaction,
    replace_file_groups,
    request_compaction,
    roll_back_completed,
)
from support.tables.services.clustered import cluster, clustering_holder, made, planned
from support.tables.services.compactions import compact
from support.tables.services.snapshot import snapshot
from support.tables.state.tables import amounts, insert_by_another
from support.tables.table_runs import TestTable, offsets
from support.tables.write_plans import row
from unit.services.clustering.conftest import Scattered


def replacecommits(table: TestTable) -> int:
    return sum(each.action == REPLACE_COMMIT for each in table.timeline().instants)


def test_an_update_of_ours_meanwhile_leaves_the_groups_as_they_are(given: Scattered) -> None:
    holder, number = made(given.storage)
    groups = given.groups
    given.table.attempt().run(offsets(8, 9), [row("k1", amount=9, at=9)])
    ended = holder.commit(number)
    assert (ended.end, ended.new_groups) == (End.VOID, 0)
    assert ended.kept == {("eu", file_id) for file_id in groups["eu"]}
    assert given.groups == groups
    assert amounts(given.table)["k1"] == 9
    assert replacecommits(given.table) == 0
    given.rows = snapshot(given.storage)
    given.unchanged()
    assert cluster(given.storage).end is End.COMPLETED
    given.unchanged()


def test_new_groups_whose_old_ones_are_as_they_were_are_committed(given: Scattered) -> None:
    attempt = given.table.attempt()
    attempt.run(offsets(8, 9), [row("u1", region="us", at=4)])
    given.rows = snapshot(given.storage)
    holder, number = made(given.storage)
    before, plan = given.groups, ClusteringJournal(given.storage).plan(number)
    attempt.run(offsets(9, 10), [row("u1", region="us", amount=9, at=9)])
    assert plan is not None
    files = {path: given.storage.get(path) for path in plan.paths}
    ended = holder.commit(number)
    assert (ended.end, ended.new_groups) == (End.COMPLETED, 1)
    assert ended.kept == {("us", file_id) for file_id in before["us"]}
    assert given.groups["us"] == before["us"]
    assert amounts(given.table)["u1"] == 9
    given.rows = snapshot(given.storage)
    given.unchanged()

    for path, content in files.items():  # as it was between the completed file and its end
        given.storage.put(path, content)
    given.unchanged()


def test_a_new_group_of_another_instant_is_in_nobodys_way(given: Scattered) -> None:
    holder, number = made(given.storage)
    given.table.attempt().run(offsets(8, 9), [row("new", at=9)])
    assert holder.commit(number).end is End.COMPLETED
    given.rows = snapshot(given.storage)
    given.unchanged()


def request_another(given: Scattered) -> None:
    file_id = min(given.groups["eu"])
    request_clustering(given.storage, next_time(given.table), [("eu", file_id)])


def delete_partition(given: Scattered) -> None:
    replace_file_groups(given.table, {"eu": sorted(given.groups["eu"])})


def start_a_write(given: Scattered) -> None:
    create_requested(given.storage, next_time(given.table))


def start_a_restore(given: Scattered) -> None:
    create_requested(given.storage, next_time(given.table), RESTORE)


def restore(given: Scattered) -> None:
    given.storage.delete(path_of(given.table.timeline().completed_commits[-1]))


def archive_the_oldest(given: Scattered) -> None:
    oldest = given.table.timeline().instants[0].request_time
    for info in list(given.storage.list(".hoodie/timeline")):
        if info.path.rpartition("/")[2].startswith(oldest):
            given.storage.delete(info.path)


def take_its_time(given: Scattered) -> None:
    plan = ClusteringJournal(given.storage).plan(1)
    assert plan is not None
    create_requested(given.storage, plan.instant)


def roll_it_back(given: Scattered) -> None:
    plan = ClusteringJournal(given.storage).plan(1)
    assert plan is not None
    roll_back_completed(given.table, plan.instant)


def roll_a_merged_instant_back(given: Scattered) -> None:
    plan = ClusteringJournal(given.storage).plan(1)
    assert plan is not None
    roll_back_completed(given.table, max(plan.merged_instants))


def lose_a_file(given: Scattered) -> None:
    plan = ClusteringJournal(given.storage).plan(1)
    assert plan is not None
    given.storage.delete(plan.paths[0])


@pytest.mark.parametrize(
    "happens",
    [
        request_another,
        delete_partition,
        start_a_write,
        start_a_restore,
        restore,
        archive_the_oldest,
        take_its_time,
        roll_it_back,
        roll_a_merged_instant_back,
        lose_a_file,
    ],
)
def test_what_makes_a_merge_void(given: Scattered, happens: Callable[[Scattered], None]) -> None:
    holder, number = made(given.storage)
    plan = ClusteringJournal(given.storage).plan(number)
    assert plan is not None
    before = replacecommits(given.table)
    happens(given)
    happened = replacecommits(given.table) - before
    ended = holder.commit(number)
    assert (ended.end, ended.replaced) == (End.VOID, frozenset())
    assert replacecommits(given.table) - before == happened
    assert not any(map(given.storage.exists, plan.paths))


def test_a_compaction_meanwhile(given: Scattered) -> None:
    holder, number = made(given.storage)
    assert compact(given.storage) == [End.COMPLETED]
    assert holder.commit(number).end is End.VOID
    given.unchanged()


class Paused(PassingStorage):
    """Something happens before its process creates an object whose path ends so."""

    def __init__(self, inner: PassingStorage | object, suffix: str, happens: Callable[[], object]) -> None:
        super().__init__(inner)  # type: ignore[arg-type]
        self._suffix, self._happens = suffix, happens

    def _change(self, path: str, act: Callable[[], None]) -> None:
        if path.endswith(self._suffix):
            self._suffix = "//"
            self._happens()
        act()


@pytest.mark.parametrize("others", [False, True], ids=["ours alone", "beside another writer"])
@pytest.mark.parametrize("suffix", ["/decision", ".replacecommit.requested", ".replacecommit"])
def test_a_paused_process_cannot_complete_it_after_the_next_start(given: Scattered, suffix: str, others: bool) -> None:
    """It has lost the lease, and goes on after others have written to the old groups."""

    def next_start() -> None:
        if others:
            insert_by_another(given.table, [row("k9", at=9)], file_id=min(given.groups["eu"]))
        clustering_holder(given.storage).settle()
        given.table.attempt().run(offsets(8, 9), [row("k1", amount=9, at=9)])

    paused = Paused(given.storage, suffix, next_start)
    _, number = made(given.storage)
    with suppress(ClusteringInDoubt):
        clustering_holder(paused).commit(number)
    assert amounts(given.table)["k1"] == 9
    assert ("k9" in amounts(given.table)) is others
    given.rows = snapshot(given.storage)
    given.unchanged()


def test_an_undone_merge_stays_undone_whoever_comes_late(given: Scattered) -> None:
    """Another writer without a lock comes between the last look and the completed file."""

    def insert() -> None:
        file_id = min(given.groups["eu"])
        insert_by_another(given.table, [row("k9", amount=4, at=9)], file_id=file_id)

    before = given.groups
    _, number = made(given.storage)
    ended = clustering_holder(Paused(given.storage, ".replacecommit", insert)).commit(number)
    assert ended.end is End.VOID
    assert given.groups == before
    assert "k9" in snapshot(given.storage)
    decided = ClusteringJournal(given.storage).decision(number)
    assert isinstance(decided, CommitDecision)
    (path,) = [path for path in given.table.completed() if path.endswith(".replacecommit")]
    assert given.storage.get(path) != decided.content
    assert clustering_holder(given.storage).settle() is None


class FailsAt(PassingStorage):
    def __init__(self, inner: object, suffix: str) -> None:
        super().__init__(inner)  # type: ignore[arg-type]
        self._suffix = suffix

    def _change(self, path: str, act: Callable[[], None]) -> None:
        if path.endswith(self._suffix):
            raise StorageUnavailable(path)
        act()


def files_of(given: Scattered, groups: Iterable[Group]) -> list[tuple[str, str]]:
    """Partition path and name of each file of the groups."""
    return [
        (partition, info.path.rpartition("/")[2])
        for partition, file_id in groups
        for info in given.storage.list(partition)
        if file_id in info.path
    ]


def delete_files(given: Scattered, old: Iterable[Group]) -> None:
    given.storage.delete_many("/".join(each) for each in files_of(given, old))


def plan_to_delete_files(given: Scattered, old: Iterable[Group]) -> None:
    files: dict[str, tuple[str, ...]] = {}
    for partition, name in files_of(given, old):
        files[partition] = (*files.get(partition, ()), name)
    clean = Instant(next_time(given.table), CLEAN, State.REQUESTED)
    given.storage.create(path_of(clean), CleanPlan(files, None, "").encode(given.storage.absolute))


@pytest.mark.parametrize("cleans", [delete_files, plan_to_delete_files])
def test_a_merge_is_not_undone_once_a_clean_takes_the_old_files(
    given: Scattered, cleans: Callable[[Scattered, Iterable[Group]], None]
) -> None:
    """A compaction that was planned without the table's lock comes to light after the commit; then a clean."""
    given.table.attempt().run(offsets(8, 9), [row("k1", amount=9, at=9)])
    given.rows = snapshot(given.storage)
    _, number = made(given.storage)
    merge = ClusteringJournal(given.storage).plan(number)
    assert merge is not None
    old = merge.replaced
    plan = planned_compaction(given.table)

    def comes_to_light() -> None:
        request_compaction(given.table, *plan)
        raise StorageUnavailable("a test")

    with pytest.raises(StorageUnavailable):
        clustering_holder(Paused(given.storage, "/done", comes_to_light)).commit(number)
    cleans(given, old)
    ended = clustering_holder(given.storage).settle()
    assert ended is not None
    assert ended.end is End.COMPLETED
    delete_files(given, old)
    assert snapshot(given.storage) == given.rows


@pytest.mark.parametrize(
    ("suffix", "doubt"), [("/decision", False), (".replacecommit.requested", True), (".replacecommit", True)]
)
def test_a_failure_after_the_decision_ends_the_job(given: Scattered, suffix: str, doubt: bool) -> None:
    _, number = made(given.storage)
    with pytest.raises(ClusteringInDoubt if doubt else StorageUnavailable):
        clustering_holder(FailsAt(given.storage, suffix)).commit(number)
    ended = clustering_holder(given.storage).settle()
    assert ended is not None
    assert ended.end is (End.COMPLETED if doubt else End.VOID)
    given.unchanged()
    given.goes_on()


def test_a_second_merge_waits_for_the_first(given: Scattered) -> None:
    plan = planned(given.storage)
    assert plan is not None
    clustering_holder(given.storage).begin(plan)
    with pytest.raises(PlanOutdated, match="has not ended"):
        clustering_holder(given.storage).begin(plan)


def test_a_lost_lease_decides_nothing(given: Scattered) -> None:
    _, number = made(given.storage)

    def lost() -> None:
        raise Crash

    holder = clustering_holder(given.storage, utc_now)
    holder._check_lease = lost
    with pytest.raises(Crash):
        holder.commit(number)
    assert ClusteringJournal(given.storage).decision(number) is None
