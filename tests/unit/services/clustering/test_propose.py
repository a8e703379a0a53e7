"""The time of a merge, which is not on the timeline while its files are made."""

from __future__ import annotations

import pytest

from bucketingest.hudi.timeline.instant import DELTA_COMMIT, Instant, State
from bucketingest.hudi.timeline.instant_time import next_instant_time, parse_time
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.services.clustering.propose import free_times, newest_clustering
from bucketingest.services.compaction.propose import quiet_time
from bucketingest.services.protocol.records import End
from support.tables.services.clustered import cluster, made, planned
from support.tables.table_runs import offsets
from support.tables.write_plans import row
from unit.services.clustering.conftest import Scattered


def at(milliseconds: int) -> str:
    return f"202611241200{milliseconds:05d}"


@pytest.mark.parametrize(
    ("first", "used", "completed", "before", "expected"),
    [
        (None, [], [], None, None),
        (at(100), [at(100), at(500)], [at(500)], None, (at(499), at(500))),
        (at(100), [at(100), at(499), at(498), at(500)], [at(500)], None, (at(497), at(500))),
        (at(100), [at(100), at(499), at(498), at(500)], [at(500), at(498)], None, None),
        (at(100), [at(100), at(499), at(500)], [at(499)], None, None),
        (at(100), [at(100), at(497), at(500)], [at(497)], None, (at(499), at(500))),
        (at(100), [at(100), at(101)], [at(101)], None, None),
        (at(100), [at(100), at(101), at(102)], [at(101)], None, None),
        (at(100), [at(100), at(500)], [at(500)], at(498), (at(499), at(500))),
        (at(100), [at(100), at(500)], [at(500)], at(499), None),
        (at(100), [at(100), at(9000)], [at(9000)], None, (at(8999), at(9000))),
    ],
    ids=[
        "no instants",
        "just before the newest",
        "an unused one",
        "none before another commit",
        "none before the commit before an open instant",
        "before an open instant",
        "none after the first active instant, before which all count as archived",
        "none between",
        "after the merge before",
        "none after it",
        "after a pause",
    ],
)
def test_the_time(
    first: str | None, used: list[str], completed: list[str], before: str | None, expected: tuple[str, str] | None
) -> None:
    found = free_times(first, used, completed, before)
    assert found == expected
    if found is not None:
        assert next_instant_time(parse_time(at(0)), used) > found[1], "also with a clock that is behind"


@pytest.mark.parametrize("gap", range(1, 6))
def test_no_compaction_has_its_time(gap: int) -> None:
    """While an instant is open, both take a time before it. A process that was cut off may put a new group late."""
    done, begun = at(500), at(500 + gap)
    open_one = Instant(begun, DELTA_COMMIT, State.INFLIGHT)
    timeline = Timeline((Instant(at(400), DELTA_COMMIT, State.COMPLETED, done), open_one))
    found = free_times(timeline.first_active, timeline.times, {done}, None)
    compaction = quiet_time(timeline, timeline.times, {begun}, parse_time(at(9000)))
    assert (found is not None, compaction is not None) == (gap > 1, gap > 2)
    assert found is None or found[0] != compaction


def test_no_two_merges_share_a_time(given: Scattered) -> None:
    assert newest_clustering(given.storage) is None
    first = cluster(given.storage).instant
    given.table.attempt().run(offsets(8, 9), [row("new", at=9)])
    plan = planned(given.storage)
    assert plan is not None
    assert plan.instant > first == newest_clustering(given.storage)


def test_a_merge_is_complete_before_every_commit_that_came_while_its_files_were_made(given: Scattered) -> None:
    """Incremental reads that end with such a commit leave the old groups out: they must have the new ones."""
    planned_after = {each.completion_time or "" for each in given.table.timeline().completed_commits}
    merges, number = made(given.storage)
    given.table.attempt().run(offsets(8, 9), [row("new", region="us", at=9)])
    ended = merges.commit(number)
    assert ended.end is End.COMPLETED
    completed = {each.request_time: each.completion_time or "" for each in given.table.timeline().completed_commits}
    merged = completed.pop(ended.instant)
    assert not [time for time in completed.values() if ended.instant <= time < merged]
    assert all(time > merged for time in completed.values() if time not in planned_after)
    assert merged == max(planned_after), "a range that has a commit of merged rows has the merge too"
