"""File groups and slices, as they come from a listing and the timeline."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from bucketingest.hudi.naming import BaseFileName, LogFileName
from bucketingest.hudi.table.file_view import FileView, build_file_view, list_data, load_file_view
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.storage.factory import open_storage
from bucketingest.storage.interface import ObjectInfo
from support.tables.fixtures import unpack_fixture

T = [f"202611210817{n}0000" for n in range(10, 30)]
FILE_ID = "00000001-0000-0000-0000-000000000000-0"


def info(path: str, size: int = 1) -> ObjectInfo:
    return ObjectInfo(path, size, datetime(2026, 11, 21, tzinfo=UTC), None)


def log(instant: str, version: int = 1) -> str:
    return f"us/{LogFileName(FILE_ID, instant, version)}"


def base(instant: str) -> str:
    return f"us/{BaseFileName(FILE_ID, instant)}"


def slices_of(view: FileView) -> list[tuple[str, str | None, list[str]]]:
    return [
        (s.base_instant, s.base_file.path if s.base_file else None, [f.path for f in s.log_files])
        for s in view.partitions["us"][FILE_ID].slices
    ]


@pytest.mark.parametrize("fixture", ["java_v8_parquet", "java_v9_avro"])
def test_the_file_groups_of_a_table_of_hudis(fixture: str, tmp_path: Path) -> None:
    storage = open_storage(str(unpack_fixture(fixture, tmp_path)))
    view = load_file_view(storage, Timeline.load(storage))
    assert {path: [file_id[:8] for file_id in groups] for path, groups in view.partitions.items()} == {
        "eu": ["00000000", "00000001", "00000002"],
        "us": ["00000000", "00000001", "00000003"],
    }
    assert view.marked_partitions == {"eu", "us"}
    assert view.unmarked_partitions == ()
    assert view.uncommitted == ()
    for group in view.groups:
        assert len(group.slices) == 1
        assert group.latest is not None
        assert group.latest.base_file is not None
        assert group.latest.base_instant == group.latest.base_file.instant
    logs = {g.file_id[:8]: len(g.latest.log_files) for g in view.partitions["eu"].values() if g.latest}
    assert logs == {"00000000": 2, "00000001": 0, "00000002": 2}


def test_a_compacted_table_of_hudis_has_a_slice_for_each_compaction(tmp_path: Path) -> None:
    storage = open_storage(str(unpack_fixture("py_then_java_archived", tmp_path)))
    view = load_file_view(storage, Timeline.load(storage))
    group = next(g for g in view.partitions["us"].values() if g.file_id.startswith("00000001"))
    assert [(s.base_instant, len(s.log_files)) for s in group.slices] == [
        ("20261121092001693", 1),
        ("20261121092005361", 1),
        ("20261121092007483", 0),
    ]


def test_the_metadata_directory_is_not_listed(tmp_path: Path) -> None:
    storage = open_storage(str(unpack_fixture("java_v9_avro", tmp_path)))
    assert not [i.path for i in list_data(storage) if i.path.startswith(".hoodie/")]
    assert {i.path.split("/")[0] for i in list_data(storage, ["us"])} == {"us"}


def test_log_files_before_any_base_file_are_a_slice_of_their_own() -> None:
    timeline = Timeline.of_file_names([f"{T[0]}_{T[1]}.deltacommit", f"{T[2]}_{T[3]}.deltacommit"])
    view = build_file_view([info(log(T[2])), info(log(T[0], 2)), info(log(T[0], 1))], timeline)
    assert slices_of(view) == [(T[0], None, [log(T[0], 1), log(T[0], 2), log(T[2])])]


def test_a_log_file_belongs_to_the_newest_base_not_after_its_completion() -> None:
    # Requested before the compaction at T[2], completed after it: the compaction did not read it.
    names = [f"{T[0]}_{T[5]}.deltacommit", f"{T[1]}_{T[1]}1.deltacommit", f"{T[2]}_{T[4]}.commit"]
    view = build_file_view([info(log(T[0])), info(log(T[1])), info(base(T[2]))], Timeline.of_file_names(names))
    assert slices_of(view) == [(T[1], None, [log(T[1])]), (T[2], base(T[2]), [log(T[0])])]


def test_log_files_merge_in_the_order_of_their_requests() -> None:
    names = [f"{T[0]}_{T[5]}.deltacommit", f"{T[1]}_{T[3]}.deltacommit"]
    view = build_file_view([info(log(T[1])), info(log(T[0], 10)), info(log(T[0], 9))], Timeline.of_file_names(names))
    assert slices_of(view) == [(T[0], None, [log(T[0], 9), log(T[0], 10), log(T[1])])]


@pytest.mark.parametrize(("completed", "owner"), [(T[2], 1), (T[4], 2), (None, 2)])
def test_a_log_file_of_an_archived_instant_belongs_where_its_completion_puts_it(
    completed: str | None, owner: int
) -> None:
    """T[0] and the compactions at T[1] and T[3] are archived; Hudi takes one that the history lacks for the newest."""
    files = [info(log(T[0])), info(base(T[1])), info(base(T[3]))]
    archived = {T[1]: T[1] + "1", T[3]: T[3] + "1"} | ({T[0]: completed} if completed else {})
    view = build_file_view(files, Timeline.of_file_names([f"{T[6]}_{T[7]}.deltacommit"]), archived)
    assert [len(logs) for _, _, logs in slices_of(view)] == [int(owner == 1), int(owner == 2)]


def test_completion_times_of_archived_instants_are_read_from_the_history(tmp_path: Path) -> None:
    storage = open_storage(str(unpack_fixture("py_then_java_archived", tmp_path)))
    requested, older, newer = "20261121091956669", "20261121092000000", "20261121092001000"
    storage.create(log(requested), b"")  # completed 20261121092000758
    storage.create(base(older), b"")
    storage.create(base(newer), b"")
    view = load_file_view(storage, Timeline.load(storage))
    assert slices_of(view) == [(older, base(older), [log(requested)]), (newer, base(newer), [])]


def test_files_of_pending_and_unknown_instants_are_kept_apart() -> None:
    names = [f"{T[0]}_{T[1]}.deltacommit", f"{T[2]}.deltacommit.inflight"]
    files = [info(log(T[0]), 5), info(log(T[2])), info(base(T[4]))]
    view = build_file_view(files, Timeline.of_file_names(names))
    assert slices_of(view) == [(T[0], None, [log(T[0])])]
    assert {file.path for file in view.uncommitted} == {log(T[2]), base(T[4])}
    latest = view.partitions["us"][FILE_ID].latest
    assert latest is not None
    assert latest.size == 5


def test_files_of_archived_instants_are_committed() -> None:
    view = build_file_view([info(log(T[0]))], Timeline.of_file_names([f"{T[1]}_{T[2]}.deltacommit"]))
    assert slices_of(view) == [(T[0], None, [log(T[0])])]


def test_a_group_with_nothing_committed_has_no_slice() -> None:
    view = build_file_view([info(log(T[2]))], Timeline.of_file_names([f"{T[0]}_{T[1]}.deltacommit"]))
    group = view.partitions["us"][FILE_ID]
    assert group.latest is None
    assert group.slices == ()


def test_a_partition_without_its_mark_is_reported_because_readers_skip_it() -> None:
    timeline = Timeline.of_file_names([f"{T[0]}_{T[1]}.deltacommit"])
    assert build_file_view([info(log(T[0]))], timeline).unmarked_partitions == ("us",)
    marked = [info(log(T[0])), info("us/.hoodie_partition_metadata")]
    assert build_file_view(marked, timeline).unmarked_partitions == ()
