"""The timeline: what is read from a listing, what counts as committed, and the steps of an instant."""

from pathlib import Path

import pytest

from bucketingest.hudi.errors import InstantExists, TimelineError
from bucketingest.hudi.timeline.instant import Instant, State
from bucketingest.hudi.timeline.timeline import Timeline, complete, create_inflight, create_requested
from bucketingest.storage.factory import open_storage
from bucketingest.storage.interface import Storage
from support.tables.fixtures import unpack_fixture

T1, T2, T3, T4 = (f"2026112108171{n}000" for n in range(1, 5))


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(str(tmp_path / "table"))


def test_the_timeline_of_a_table_of_hudis_is_read(tmp_path: Path) -> None:
    timeline = Timeline.load(open_storage(str(unpack_fixture("java_v9_avro", tmp_path))))
    assert [(i.request_time, i.action, i.completion_time) for i in timeline.completed] == [
        ("20261121081713004", "deltacommit", "20261121081714302"),
        ("20261121081714512", "deltacommit", "20261121081715521"),
        ("20261121081715721", "deltacommit", "20261121081716853"),
    ]
    assert timeline.pending == ()
    assert timeline.newest_time == "20261121081716853"
    assert timeline.first_active == "20261121081713004"


def test_table_services_parse_and_a_compaction_is_one_completed_instant(tmp_path: Path) -> None:
    timeline = Timeline.load(open_storage(str(unpack_fixture("py_then_java_archived", tmp_path))))
    assert [i.action for i in timeline.instants] == [
        "commit",
        "deltacommit",
        "commit",
        "deltacommit",
        "clean",
        "commit",
    ]
    assert timeline.pending == ()
    assert timeline.completion_time("20261121092001693") == "20261121092004127"
    assert timeline.completion_time("20261121092006754") is None, "a clean writes no data"


def test_a_table_without_a_timeline_has_an_empty_one(storage: Storage) -> None:
    timeline = Timeline.load(storage)
    assert timeline.instants == ()
    assert timeline.newest_time is None
    assert not timeline.is_committed(T1)


def test_what_is_older_than_the_first_active_write_counts_as_committed() -> None:
    timeline = Timeline.of_file_names([f"{T1}.rollback.requested", f"{T2}_{T3}.deltacommit"])
    assert timeline.first_active == T2, "a rollback writes no data"
    assert timeline.is_committed(T1)
    assert timeline.is_archived(T1)
    assert timeline.is_committed(T2)
    assert not timeline.is_archived(T2)
    assert not timeline.is_committed(T3), "a completion time is not a request time"


def test_a_pending_write_bounds_the_archive_too() -> None:
    timeline = Timeline.of_file_names([f"{T1}.deltacommit.requested", f"{T2}_{T3}.deltacommit"])
    assert timeline.first_active == T1
    assert not timeline.is_committed(T1)


def test_a_savepointed_commit_does_not_bound_the_archive() -> None:
    timeline = Timeline.of_file_names([f"{T1}_{T2}.deltacommit", f"{T1}_{T4}.savepoint", f"{T3}_{T4}.deltacommit"])
    assert timeline.first_active == T3
    assert timeline.is_committed(T2), "archival may have left a hole behind the savepoint"


def test_commits_are_ordered_by_completion() -> None:
    timeline = Timeline.of_file_names([f"{T1}_{T4}.deltacommit", f"{T2}_{T3}.deltacommit"])
    assert [i.request_time for i in timeline.completed_commits] == [T2, T1]


def test_an_instant_goes_from_requested_over_inflight_to_completed(storage: Storage) -> None:
    create_requested(storage, T1)
    assert Timeline.load(storage).find(T1) == Instant(T1, "deltacommit", State.REQUESTED)
    create_inflight(storage, T1, content=b"mine")
    assert Timeline.load(storage).find(T1) == Instant(T1, "deltacommit", State.INFLIGHT)
    complete(storage, T1, T2, b"metadata")
    timeline = Timeline.load(storage)
    assert timeline.instants == (Instant(T1, "deltacommit", State.COMPLETED, T2),)
    assert timeline.times == {T1, T2}


def test_a_requested_instant_cannot_be_requested_again(storage: Storage) -> None:
    create_requested(storage, T1)
    with pytest.raises(InstantExists, match=T1):
        create_requested(storage, T1)


def test_inflight_and_completed_may_be_repeated_with_the_same_content_only(storage: Storage) -> None:
    create_inflight(storage, T1, content=b"mine")
    create_inflight(storage, T1, content=b"mine")
    complete(storage, T1, T2, b"metadata")
    complete(storage, T1, T2, b"metadata")
    with pytest.raises(InstantExists, match="inflight"):
        create_inflight(storage, T1, content=b"foreign")
    with pytest.raises(InstantExists, match=f"{T1}_{T2}"):
        complete(storage, T1, T2, b"foreign")


def test_a_completion_not_after_the_request_is_refused(storage: Storage) -> None:
    with pytest.raises(TimelineError, match="not after"):
        complete(storage, T2, T2, b"")
    assert Timeline.load(storage).instants == ()


@pytest.mark.parametrize(("action", "counts"), [("rollback", T2), ("clean", T3)])
def test_of_two_completed_files_of_an_instant_the_first_counts_but_a_clean_may_have_deleted_again(
    action: str, counts: str
) -> None:
    names = [f"{T1}.{action}.inflight", f"{T1}_{T2}.{action}", f"{T1}_{T3}.{action}"]
    (instant,) = Timeline.of_file_names(names).instants
    assert instant.completion_time == counts
