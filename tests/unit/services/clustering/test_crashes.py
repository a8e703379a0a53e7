"""A clustering, and a crash at any of its changes: the next start ends it before it writes, and no row is
lost or doubled.
"""

from __future__ import annotations

from contextlib import suppress

from bucketingest.services.protocol.records import End
from support.storage.crashing_storage import Crash, CrashingStorage
from support.tables.services.clustered import cluster, clustering_holder, planned
from support.tables.services.snapshot import snapshot
from unit.services.clustering.conftest import Scattered, scattered


def test_the_groups_of_a_partition_become_one_with_the_same_rows(given: Scattered) -> None:
    before = given.groups
    ended = cluster(given.storage)
    assert (ended.end, ended.new_groups, ended.kept) == (End.COMPLETED, 1, frozenset())
    assert ended.replaced == {("eu", file_id) for file_id in before["eu"]}
    after = given.groups
    assert after["us"] == before["us"], "a single group stays"
    assert len(after["eu"]) == 1
    assert after["eu"].isdisjoint(before["eu"])
    given.unchanged()
    assert planned(given.storage) is None
    given.goes_on()


def test_a_crash_at_any_change_is_ended_by_the_next_start() -> None:
    dies_at, died, ends = 0, True, set()
    while died:
        its = scattered()
        crashing = CrashingStorage(its.storage, dies_at)
        with suppress(Crash):
            cluster(crashing)
        died = crashing.dead
        assert snapshot(its.storage) == its.rows, dies_at
        ended = clustering_holder(its.storage).settle()
        ends.add(None if ended is None else ended.end)
        its.unchanged()
        assert clustering_holder(its.storage).settle() is None
        its.goes_on()
        assert planned(its.storage) is not None
        assert cluster(its.storage).end is End.COMPLETED
        dies_at += 1
    assert dies_at > 9
    assert ends == {None, End.VOID, End.COMPLETED}


def test_a_crash_while_a_crash_is_ended() -> None:
    for first in (3, 5, 8):
        dies_at, died = 0, True
        while died:
            its = scattered()
            with suppress(Crash):
                cluster(CrashingStorage(its.storage, first))
            crashing = CrashingStorage(its.storage, dies_at)
            with suppress(Crash):
                clustering_holder(crashing).settle()
            died = crashing.dead
            clustering_holder(its.storage).settle()
            its.unchanged()
            dies_at += 1
