"""Markers, where Hudi's rollback looks: lists with a line for each data file, or an empty file for each."""

from pathlib import Path

import pytest

from bucketingest.hudi.rollback.markers import (
    create_marker,
    delete_markers,
    mark_files,
    marked_files,
    marker_path,
    start_marker_lists,
)
from bucketingest.storage import Storage
from bucketingest.storage.factory import open_storage
from support.storage.crashing_storage import Crash, CrashingStorage
from support.storage.flaky_storage import FlakyStorage

T = "20261121081713004"
OTHER = "20261121081714512"


def markers(storage: Storage, instant: str = T) -> dict[str, bytes]:
    return {info.path: storage.get(info.path) for info in storage.list(f".hoodie/.temp/{instant}")}


def test_a_direct_marker_says_partition_file_and_create() -> None:
    assert marker_path(T, "us/5", ".f.log.1_0-0-0") == f".hoodie/.temp/{T}/us/5/.f.log.1_0-0-0.marker.CREATE"
    assert marker_path(T, "", "f.parquet") == f".hoodie/.temp/{T}/f.parquet.marker.CREATE"


def test_a_list_has_a_line_for_each_file_and_is_there_once() -> None:
    storage = open_storage("memory://marker-lists")
    start_marker_lists(storage, T)
    for _ in range(2):
        mark_files(storage, T, ["us/5/.f.log.1_0-0-0", "g.parquet"])
    ((name, content),) = [each for each in markers(storage).items() if not each[0].endswith(".type")]
    number = name.removeprefix(f".hoodie/.temp/{T}/MARKERS")
    assert 0 <= int(number) < 2**31, "a Java int, or Hudi's timeline server fails"
    assert content == b"us/5/.f.log.1_0-0-0.marker.CREATE\ng.parquet.marker.CREATE\n"
    assert markers(storage)[f".hoodie/.temp/{T}/MARKERS.type"] == b"TIMELINE_SERVER_BASED"


def test_marked_files_are_found_until_the_markers_go() -> None:
    storage = open_storage("memory://markers")
    create_marker(storage, T, "us", "a")
    create_marker(storage, T, "us", "a")
    create_marker(storage, T, "", "b")
    create_marker(storage, T, "MARKERS1", "in a partition")
    create_marker(storage, OTHER, "us", "other")
    mark_files(storage, T, ["us/c", "d"])
    mark_files(storage, T, ["e\u2028f/g"])
    storage.create(f".hoodie/.temp/{T}/MARKERS.type", b"TIMELINE_SERVER_BASED")
    assert marked_files(storage, T) == {"us/a", "b", "us/c", "d", "e\u2028f/g", "MARKERS1/in a partition"}
    delete_markers(storage, T)
    assert marked_files(storage, T) == frozenset()
    assert [info.path for info in storage.list(".hoodie/.temp")] == [marker_path(OTHER, "us", "other")]


def test_a_list_whose_number_another_list_has_gets_another_number() -> None:
    storage, other = open_storage("memory://marker-numbers"), open_storage("memory://marker-numbers-other")
    mark_files(other, T, ["us/a"])
    (name,) = markers(other)
    storage.create(name, b"us/b.marker.CREATE\n")
    for _ in range(2):
        mark_files(storage, T, ["us/a"])
    assert marked_files(storage, T) == {"us/a", "us/b"}
    assert len(markers(storage)) == 2


def test_lines_that_name_no_file_of_the_table_are_left_out() -> None:
    storage = open_storage("memory://marker-lines")
    lines = b"us/a.marker.CREATE\n\nus/b\n../c.marker.CREATE\n/d.marker.CREATE\n\xff/e.marker.APPEND\n.marker.MERGE"
    storage.create(f".hoodie/.temp/{T}/MARKERS0", lines)
    assert marked_files(storage, T) == {"us/a", "\ufffd/e"}


def test_direct_markers_of_an_older_version_are_in_a_list_before_hudi_looks_for_lists() -> None:
    storage = open_storage("memory://markers-older")
    create_marker(storage, T, "us", "a")
    create_marker(storage, T, "", "b")
    with pytest.raises(Crash):  # after the list, before the type
        start_marker_lists(CrashingStorage(storage, 0, after_effect=True), T)
    assert marked_files(storage, T) == {"us/a", "b"}
    assert f".hoodie/.temp/{T}/MARKERS.type" not in markers(storage)
    start_marker_lists(storage, T)
    lists = [content for path, content in markers(storage).items() if path.rpartition("/")[2].startswith("MARKERS")]
    assert sorted(lists) == [b"TIMELINE_SERVER_BASED", b"b.marker.CREATE\nus/a.marker.CREATE\n"]


def test_what_says_how_to_read_markers_is_deleted_last(tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path))
    start_marker_lists(storage, T)
    mark_files(storage, T, ["us/a"])
    mark_files(storage, T, ["us/b"])
    changed: list[str] = []

    def watch(path: str) -> bool:
        changed.append(path)
        return False

    delete_markers(FlakyStorage(storage, watch), T)
    assert len(changed) == 3
    assert changed[-1].endswith("/MARKERS.type")


def test_on_a_file_system_the_directories_of_markers_go_with_them(tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path))
    for name in ("a", "b"):
        create_marker(storage, T, "us/5", name)
    mark_files(storage, T, ["us/c"])
    create_marker(storage, OTHER, "us", "other")
    delete_markers(storage, T)
    assert [path.name for path in (tmp_path / ".hoodie" / ".temp").iterdir()] == [OTHER]


def test_more_markers_than_one_request_takes_all_go() -> None:
    storage = open_storage("memory://markers-many")
    for number in range(1001):
        create_marker(storage, T, "us", str(number))
    delete_markers(storage, T)
    assert markers(storage) == {}
