"""What every storage does, written once: a test class per backend inherits this one and provides ``storage``."""

from __future__ import annotations

import contextlib
import pathlib
import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from bucketingest.storage import (
    AlreadyExists,
    InvalidLocation,
    Level,
    NotFound,
    SkippingStorage,
    Storage,
    object_names,
    verify_create_if_absent,
)

ODD_NAMES = [
    "x=y z%é",
    "a#b",
    "#1",
    "*",
    "~",
    "{",
    '"',
    "'",
    "<a>",
    "a%20b",
    "a%2Fb",
    "a+b",
    "a?b&c;d",
    "a\\b",
    "a|b^c",
    "[x]",
    "日本",
    "e\u0301",  # e and a combining accent: must not be composed
    "\U0001f600",
    ".hidden",
    "..two",
    "dot.",
    ".fileid_20261121100000000.log.1_0-0-0",
]

REFUSED_PATHS = [
    "",
    "/",
    "/a",
    "a/",
    "a//b",
    "a/../b",
    "..",
    ".",
    "a/.",
    "a/./b",
    "line\nbreak",
    "nul\0",
    "\x7f",
    "\ud800",
]


class StorageBehaviour:
    """Inherit and define a fixture ``storage`` with an empty storage."""

    RACERS = 8

    @pytest.fixture
    def storage(self) -> Storage:
        raise NotImplementedError

    def test_a_listing_may_begin_behind_a_path(self, storage: Storage) -> None:
        paths = ["a-b/c", "a/b", "a/c/d", "a0", "b/2026-01/x", "b/2026-02/y", "b/2026-02/z", "c", "ü/é"]
        for path in paths:
            storage.create(path, b"")
        assert isinstance(storage, SkippingStorage)
        for after in [*paths, "b/2026-02", "b/2026-02/", "0", "zz", "a/"]:
            found = {info.path for info in storage.list_after(after)}
            assert found >= {path for path in paths if path.encode() > after.encode()}
        assert "b/2026-01/x" not in {info.path for info in storage.list_after("b/2026-02/y")}

    def test_an_object_created_can_be_read_back(self, storage: Storage) -> None:
        storage.create("a/b", b"content")
        assert storage.get("a/b") == b"content"

    def test_an_empty_object_is_an_object(self, storage: Storage) -> None:
        storage.create("empty", b"")
        assert storage.get("empty") == b""
        assert storage.head("empty").size == 0
        assert storage.get_range("empty", 0, 10) == b""

    def test_buffers_are_joined_in_order(self, storage: Storage) -> None:
        storage.create("joined", [b"ab", bytearray(b""), memoryview(b"xcdx")[1:3], bytearray(b"ef")])
        assert storage.get("joined") == b"abcdef"

    def test_more_buffers_than_one_system_call_takes_arrive_whole(self, storage: Storage) -> None:
        parts = [bytes([number % 256]) * (number % 7) for number in range(3000)]
        storage.create("many", parts)
        assert storage.get("many") == b"".join(parts)

    def test_a_local_file_is_stored(self, storage: Storage, tmp_path: pathlib.Path) -> None:
        source = tmp_path / "source"
        content = bytes(range(256)) * 5000
        source.write_bytes(content)
        storage.create("from-file", source)
        storage.put("from-file-put", source)
        assert storage.get("from-file") == storage.get("from-file-put") == content

    def test_an_empty_local_file_is_stored(self, storage: Storage, tmp_path: pathlib.Path) -> None:
        (tmp_path / "source").write_bytes(b"")
        storage.create("from-file", tmp_path / "source")
        assert storage.get("from-file") == b""

    def test_a_local_file_that_is_missing_is_named(self, storage: Storage, tmp_path: pathlib.Path) -> None:
        with pytest.raises(InvalidLocation, match="no-such-file"):
            storage.create("from-file", tmp_path / "no-such-file")
        assert not storage.exists("from-file")

    def test_create_refuses_a_taken_name_and_leaves_its_content(self, storage: Storage) -> None:
        storage.create("taken", b"first")
        with pytest.raises(AlreadyExists, match="taken"):
            storage.create("taken", b"second")
        assert storage.get("taken") == b"first"

    def test_create_refuses_a_taken_name_even_with_equal_content(self, storage: Storage) -> None:
        storage.create("taken", b"same")
        with pytest.raises(AlreadyExists):
            storage.create("taken", b"same")

    def test_create_refuses_a_name_taken_by_put(self, storage: Storage) -> None:
        storage.put("taken", b"first")
        with pytest.raises(AlreadyExists):
            storage.create("taken", b"second")

    def test_put_replaces_the_whole_object(self, storage: Storage) -> None:
        storage.create("replaced", b"long first content")
        storage.put("replaced", b"second")
        assert storage.get("replaced") == b"second"
        assert [info.path for info in storage.list()] == ["replaced"]

    def test_a_deleted_name_is_free_again(self, storage: Storage) -> None:
        storage.create("again", b"first")
        storage.delete("again")
        assert not storage.exists("again")
        storage.create("again", b"second")
        assert storage.get("again") == b"second"

    def test_deleting_what_is_absent_succeeds(self, storage: Storage) -> None:
        storage.create("directory/object", b"")
        storage.delete("absent")
        storage.delete("absent/deep/down")
        storage.delete("directory")
        storage.delete("directory/object/below-an-object")
        assert storage.exists("directory/object")

    def test_many_are_deleted_although_some_are_absent(self, storage: Storage) -> None:
        for number in range(20):
            storage.create(f"d{number % 3}/{number}", b"x")
        storage.delete_many(path for number in range(20) for path in (f"absent/{number}", f"d{number % 3}/{number}"))
        storage.delete_many([])
        assert list(storage.list()) == []

    def test_an_absent_object_is_reported_by_its_full_name(self, storage: Storage) -> None:
        for call in (storage.get, storage.head):
            with pytest.raises(NotFound) as caught:
                call("no/such thing")
            assert storage.absolute("no/such thing") in str(caught.value)
        with pytest.raises(NotFound):
            storage.get_range("no/such thing", 0, 1)
        assert not storage.exists("no/such thing")

    def test_a_directory_is_not_an_object(self, storage: Storage) -> None:
        storage.create("directory/object", b"x")
        assert not storage.exists("directory")
        with pytest.raises(NotFound):
            storage.get("directory")
        with pytest.raises(NotFound):
            storage.head("directory")

    @pytest.mark.parametrize(
        ("start", "length", "expected"),
        [(0, 10, b"0123456789"), (3, 4, b"3456"), (9, 1, b"9"), (8, 5, b"89"), (10, 1, b""), (50, 5, b""), (4, 0, b"")],
    )
    def test_a_range_ends_with_the_object(self, storage: Storage, start: int, length: int, expected: bytes) -> None:
        storage.create("digits", b"0123456789")
        assert storage.get_range("digits", start, length) == expected

    def test_a_negative_range_is_refused(self, storage: Storage) -> None:
        storage.create("digits", b"0123456789")
        for start, length in ((-1, 2), (0, -1)):
            with pytest.raises(InvalidLocation, match="negative"):
                storage.get_range("digits", start, length)

    def test_head_tells_size_time_and_a_changing_etag(self, storage: Storage) -> None:
        storage.create("headed", b"12345")
        first = storage.head("headed")
        assert (first.path, first.size) == ("headed", 5)
        assert first.modified.tzinfo is UTC or first.modified.utcoffset() == timedelta(0)
        assert abs(first.modified - datetime.now(tz=UTC)) < timedelta(minutes=5)
        storage.put("headed", b"54321")
        assert storage.head("headed").etag != first.etag

    @pytest.mark.parametrize("name", ODD_NAMES)
    def test_names_are_kept_exactly(self, storage: Storage, name: str) -> None:
        path = f"{name}/{name}/{name}"
        storage.create(path, name.encode())
        assert storage.get(path) == name.encode()
        assert storage.head(path).path == path
        assert [info.path for info in storage.list(name)] == [path]
        assert storage.list_level().directories == [name]
        with pytest.raises(AlreadyExists):
            storage.create(path, b"")
        storage.delete(path)
        assert list(storage.list()) == []

    @pytest.mark.parametrize("path", REFUSED_PATHS, ids=ascii)
    def test_paths_that_some_store_cannot_hold_are_refused_by_all(self, storage: Storage, path: str) -> None:
        calls = (storage.get, storage.head, storage.exists, storage.delete, storage.absolute)
        for call in calls:
            with pytest.raises(InvalidLocation):
                call(path)
        for write in (storage.create, storage.put):
            with pytest.raises(InvalidLocation):
                write(path, b"")
        assert list(storage.list()) == []

    def test_a_listing_is_of_a_directory_and_not_of_a_name_prefix(self, storage: Storage) -> None:
        for path in ("a/b/1", "a/b/c/2", "a/bc", "a/bc2/3", "a/b.x", "ab"):
            storage.create(path, path.encode())
        assert sorted(info.path for info in storage.list("a/b")) == ["a/b/1", "a/b/c/2"]
        assert sorted(info.path for info in storage.list("a/b/")) == ["a/b/1", "a/b/c/2"]
        assert [info.path for info in storage.list("a/bc")] == []
        assert {info.path: info.size for info in storage.list()} == {
            path: len(path) for path in ("a/b/1", "a/b/c/2", "a/bc", "a/bc2/3", "a/b.x", "ab")
        }

    def test_a_level_has_what_lies_directly_in_the_directory(self, storage: Storage) -> None:
        for path in ("a/1", "a/b/2", "a/c/d/3", "e"):
            storage.create(path, b"")
        root, level = storage.list_level(), storage.list_level("a")
        assert (root.directories, [info.path for info in root.objects]) == (["a"], ["e"])
        assert (sorted(level.directories), [info.path for info in level.objects]) == (["a/b", "a/c"], ["a/1"])

    def test_names_are_those_of_the_objects_directly_in_the_directory(self, storage: Storage) -> None:
        for path in ("a/1", "a/2", "a/b/3", "e"):
            storage.create(path, b"")
        assert object_names(storage, "") == ("e",)
        assert sorted(object_names(storage, "a")) == ["1", "2"]
        assert object_names(storage, "absent") == object_names(storage, "e") == ()

    def test_an_absent_directory_is_empty(self, storage: Storage) -> None:
        storage.create("object", b"")
        for prefix in ("absent", "absent/deeper", "object"):
            assert list(storage.list(prefix)) == []
            assert storage.list_level(prefix) == Level()

    def test_more_objects_than_one_page_are_listed(self, storage: Storage) -> None:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: storage.put(f"page/{number}", b""), range(1100)))
        assert {info.path for info in storage.list("page")} == {f"page/{number}" for number in range(1100)}
        assert len(storage.list_level("page").objects) == 1100

    def test_of_racing_creates_exactly_one_wins(self, storage: Storage) -> None:
        for round_number in range(5):
            start = threading.Barrier(self.RACERS)
            wins = list(self._race(storage, f"race/{round_number}", start))
            assert len(wins) == 1
            assert storage.get(f"race/{round_number}") == wins[0]

    def test_a_pickled_copy_reaches_the_same_objects(self, storage: Storage) -> None:
        storage.create("kept", b"content")
        copy: Storage = pickle.loads(pickle.dumps(storage))
        assert copy.url == storage.url
        assert copy.get("kept") == b"content"
        with pytest.raises(AlreadyExists):
            copy.create("kept", b"other")

    def test_create_if_absent_is_verified_and_leaves_nothing(self, storage: Storage) -> None:
        verify_create_if_absent(storage, "probes/here")
        verify_create_if_absent(storage, "")
        assert list(storage.list()) == []

    def test_the_full_name_is_the_root_and_the_path(self, storage: Storage) -> None:
        assert storage.absolute("a/b c=%") == f"{storage.url}/a/b c=%"

    def _race(self, storage: Storage, path: str, start: threading.Barrier) -> Iterator[bytes]:
        def compete(number: int) -> bytes | None:
            content = f"racer {number}".encode() * 1000
            start.wait()
            with contextlib.suppress(AlreadyExists):
                storage.create(path, content)
                return content
            return None

        with ThreadPoolExecutor(self.RACERS) as pool:
            yield from (content for content in pool.map(compete, range(self.RACERS)) if content is not None)
