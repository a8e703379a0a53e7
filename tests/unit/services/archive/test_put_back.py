"""What a paused process puts back onto the timeline after it was archived, and the horizon by which it is known."""

from __future__ import annotations

import pytest

from bucketingest.hudi.history.manifest import VERSION_PATH
from bucketingest.hudi.naming import TIMELINE_DIRECTORY
from bucketingest.hudi.timeline.instant import SAVEPOINT
from bucketingest.hudi.timeline.timeline import Timeline, create_inflight
from bucketingest.services.archive.execute import put_back
from bucketingest.services.archive.horizon import HORIZONS, raise_horizon, read_horizon
from support.tables.services.archivals import (
    WRITES,
    paths,
    run,
    table,
    unchecked,
)
from support.tables.services.old_timelines import at, done, finish, finished, timeline_files


def test_a_completed_file_that_a_paused_process_puts_back_is_removed() -> None:
    storage = table()
    run(storage)
    after = paths(storage)
    for name in (f"{WRITES[1]}.deltacommit.requested", f"{WRITES[1]}.deltacommit.inflight", finished(WRITES[1])):
        storage.create(f"{TIMELINE_DIRECTORY}/{name}", b"again")
        result = run(storage)
        assert [instant.request_time for instant in result.removed] == [WRITES[1]]
        assert paths(storage) == after


@pytest.mark.parametrize(
    "name",
    [f"{at(177)}.deltacommit.inflight", f"{WRITES[1]}_{done(at(1))}.deltacommit", f"{at(177)}_{at(1)}.deltacommit"],
)
def test_what_is_not_in_the_history_stays_and_so_does_what_follows_it(name: str) -> None:
    """Readers see committed files of the later one as long as it is on the timeline behind an older one."""
    storage = table()
    run(storage)
    for each in (name, finished(WRITES[3])):
        storage.create(f"{TIMELINE_DIRECTORY}/{each}", b"")
    horizon = read_horizon(storage)
    assert put_back(storage, Timeline.load(storage), horizon) == ()
    storage.create(f"{TIMELINE_DIRECTORY}/{finished(WRITES[0])}", b"")
    assert [i.request_time for i in put_back(storage, Timeline.load(storage), horizon)] == [WRITES[0]]
    assert {name, finished(WRITES[3])} <= timeline_files(storage)


@pytest.mark.parametrize("states", [["requested"], ["requested", "inflight"], ["inflight"]])
def test_a_compaction_that_is_requested_after_the_archival_is_taken_off_whoever_started_it(states: list[str]) -> None:
    """Else it were the first active instant, and readers took what was archived after its time as not committed."""
    storage = table()
    run(storage)
    after = paths(storage)
    for state in states:
        storage.create(f"{TIMELINE_DIRECTORY}/{at(177)}.compaction.{state}", b"plan")
    removed = put_back(storage, Timeline.load(storage), read_horizon(storage))
    assert [instant.request_time for instant in removed] == [at(177)]
    assert paths(storage) == after


def test_a_compaction_that_is_newer_than_the_archive_stays() -> None:
    storage = table()
    run(storage)
    name = f"{TIMELINE_DIRECTORY}/{at(0)}.compaction.requested"
    storage.create(name, b"plan")
    assert put_back(storage, Timeline.load(storage), read_horizon(storage)) == ()
    assert storage.exists(name)


def test_a_savepoint_and_its_commit_stay() -> None:
    storage = table()
    run(storage)
    for name in (finished(WRITES[1]), f"{WRITES[1]}_{done(WRITES[1])}.savepoint", finished(WRITES[2])):
        storage.create(f"{TIMELINE_DIRECTORY}/{name}", b"")
    removed = put_back(storage, Timeline.load(storage), read_horizon(storage))
    assert [instant.request_time for instant in removed] == [WRITES[2]]


def test_a_request_that_comes_back_behind_a_savepoint_does_not_hide_its_instant() -> None:
    """It is archived: pending, its rows would be uncommitted."""
    storage = table()
    path = f"{TIMELINE_DIRECTORY}/{finished(WRITES[2])}"
    content = storage.get(path)
    run(storage)
    storage.create(path, content)
    finish(storage, WRITES[2], SAVEPOINT)
    create_inflight(storage, WRITES[3])
    run(storage)
    assert Timeline.load(storage).pending == ()


def test_nothing_is_removed_while_another_archival_is_between_two_steps() -> None:
    storage = table()
    run(storage)
    storage.create(f"{TIMELINE_DIRECTORY}/{finished(WRITES[1])}", b"")
    storage.delete(VERSION_PATH)
    assert put_back(storage, Timeline.load(storage), read_horizon(storage)) == ()


def test_the_horizon_never_goes_down_and_three_objects_of_it_stay() -> None:
    storage = table()
    for minutes in (90, 80, 70, 60, 50):
        raise_horizon(storage, at(minutes), unchecked)
    raise_horizon(storage, at(999), unchecked)
    assert read_horizon(storage) == at(50)
    names = sorted(info.path.removeprefix(f"{HORIZONS}/") for info in storage.list(HORIZONS))
    assert names == ["000000000003", "000000000004", "000000000005"]


def test_a_horizons_number_that_is_taken_is_followed_by_the_next() -> None:
    storage = table()
    rivals = [at(10), at(9)]

    def rival_is_faster() -> None:
        if rivals:
            raise_horizon(storage, rivals.pop(), unchecked)

    raise_horizon(storage, at(5), rival_is_faster)
    assert read_horizon(storage) == at(5)
