"""Markers: one empty file per data file, where Hudi's rollback looks."""

from pathlib import Path

from bucketingest.hudi.rollback.markers import create_marker, delete_markers, marked_files, marker_path
from bucketingest.storage.factory import open_storage

T = "20261121081713004"


def test_a_marker_says_partition_file_and_create() -> None:
    assert marker_path(T, "us/5", ".f.log.1_0-0-0") == f".hoodie/.temp/{T}/us/5/.f.log.1_0-0-0.marker.CREATE"
    assert marker_path(T, "", "f.parquet") == f".hoodie/.temp/{T}/f.parquet.marker.CREATE"


def test_marked_files_are_listed_until_the_markers_go() -> None:
    storage = open_storage("memory://markers")
    create_marker(storage, T, "us", "a")
    create_marker(storage, T, "us", "a")
    create_marker(storage, T, "", "b")
    create_marker(storage, "20261121081714512", "us", "other")
    storage.create(f".hoodie/.temp/{T}/MARKERS.type", b"TIMELINE_SERVER_BASED")
    assert marked_files(storage, T) == {"us/a", "b"}
    delete_markers(storage, T)
    assert marked_files(storage, T) == frozenset()
    assert [info.path for info in storage.list(".hoodie/.temp")] == [marker_path("20261121081714512", "us", "other")]


def test_markers_of_known_files_go_without_a_listing() -> None:
    storage = open_storage("memory://markers-known")
    for partition, name in (("us/5", "a"), ("", "b"), ("us", "other")):
        create_marker(storage, T, partition, name)
    delete_markers(storage, T, ["us/5/a", "b", "us/never-written"])
    assert marked_files(storage, T) == {"us/other"}


def test_on_a_file_system_the_directories_of_markers_go_with_the_last_one(tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path))
    for name in ("a", "b"):
        create_marker(storage, T, "us/5", name)
    create_marker(storage, "20261121081714512", "us", "other")
    delete_markers(storage, T, ["us/5/a"])
    assert marked_files(storage, T) == {"us/5/b"}
    delete_markers(storage, T, ["us/5/b"])
    delete_markers(storage, T)
    assert [path.name for path in (tmp_path / ".hoodie" / ".temp").iterdir()] == ["20261121081714512"]


def test_more_markers_than_one_request_takes_all_go() -> None:
    storage = open_storage("memory://markers-many")
    for number in range(1001):
        create_marker(storage, T, "us", str(number))
    delete_markers(storage, T)
    assert marked_files(storage, T) == frozenset()
