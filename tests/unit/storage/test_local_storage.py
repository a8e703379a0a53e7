"""Local files: the common behaviour, and what only a file system has: names on disk, durability, crashes."""

from __future__ import annotations

import errno
import multiprocessing
import os
import pathlib
from collections.abc import Iterator

import pytest

from bucketingest.storage import (
    AccessDenied,
    AlreadyExists,
    ConditionalStorage,
    InvalidLocation,
    Storage,
    StorageUnavailable,
    open_storage,
)
from bucketingest.storage.limits import TRANSFER_TIMEOUT
from bucketingest.storage.local import files as local_files
from support.storage.races import create_in_process
from support.storage.storage_behaviour import ODD_NAMES, StorageBehaviour


class TestDurable(StorageBehaviour):
    @pytest.fixture
    def storage(self, tmp_path: pathlib.Path) -> Storage:
        return open_storage(str(tmp_path / "a root=%20"))


class TestWithoutUnnamedFiles(StorageBehaviour):
    """For file systems that cannot hold a file without a name (NFS), and for macOS."""

    @pytest.fixture
    def storage(self, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Storage]:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
        yield open_storage(f"file://{tmp_path}/root", {"durable": "false"})
        assert [path for path in tmp_path.rglob("*") if path.name.startswith(local_files.STAGED_PREFIX)] == []


def names_in(directory: pathlib.Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "root"


@pytest.fixture
def storage(root: pathlib.Path) -> Storage:
    return open_storage(str(root))


@pytest.mark.parametrize("name", ODD_NAMES)
def test_the_name_on_disk_is_exactly_the_path(storage: Storage, root: pathlib.Path, name: str) -> None:
    storage.create(f"{name}/{name}", b"x")
    assert names_in(root) == [name]
    assert names_in(root / name) == [name]
    assert storage.absolute(f"{name}/{name}") == f"{root}/{name}/{name}"


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_every_way_of_writing_a_local_root_means_the_same(root: pathlib.Path, prefix: str) -> None:
    storage = open_storage(f"{prefix}{root}/")
    assert storage.url == str(root)
    storage.create("a", b"x")
    assert (root / "a").read_bytes() == b"x"


def test_a_root_is_not_url_decoded(tmp_path: pathlib.Path) -> None:
    open_storage(f"file://{tmp_path}/a%20b").create("c", b"")
    assert names_in(tmp_path) == ["a%20b"]


def test_nothing_but_the_object_is_on_disk_after_writes(storage: Storage, root: pathlib.Path) -> None:
    storage.create("d/created", b"x")
    storage.put("d/created", b"y")
    with pytest.raises(AlreadyExists):
        storage.create("d/created", b"z")
    assert names_in(root / "d") == ["created"]


@pytest.mark.parametrize("unnamed", [True, False])
@pytest.mark.parametrize("method", ["create", "put"])
def test_a_full_disk_leaves_the_old_state_and_says_so(
    storage: Storage, root: pathlib.Path, monkeypatch: pytest.MonkeyPatch, method: str, unnamed: bool
) -> None:
    storage.create("d/old", b"old")
    if not unnamed:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "writev", full)
    path = "d/old" if method == "put" else "d/new"
    with pytest.raises(StorageUnavailable, match=r"d/(old|new).*No space left"):
        getattr(storage, method)(path, b"new")
    assert names_in(root / "d") == ["old"]
    assert storage.get("d/old") == b"old"


@pytest.mark.parametrize("method", ["create", "put"])
def test_a_write_in_which_the_process_was_paused_for_long_changes_nothing(
    storage: Storage, root: pathlib.Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    storage.create("d/old", b"old")
    times = iter((0.0, TRANSFER_TIMEOUT.total_seconds() + 1))
    monkeypatch.setattr(local_files, "forward_seconds", lambda: next(times))
    with pytest.raises(StorageUnavailable, match="took longer than 0:10:00"):
        getattr(storage, method)("d/old" if method == "put" else "d/new", b"new")
    assert names_in(root / "d") == ["old"]
    assert storage.get("d/old") == b"old"


@pytest.mark.parametrize("method", ["create", "put"])
def test_a_read_only_disk_is_access_denied_and_says_so(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def read_only(*_: object, **__: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "open", read_only)
    with pytest.raises(AccessDenied, match=r"d/new.*Read-only file system"):
        getattr(storage, method)("d/new", b"new")


def test_partial_writes_are_continued(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.writev
    monkeypatch.setattr(os, "writev", lambda fd, buffers: real(fd, [memoryview(buffers[0])[:3]]))
    storage.create("short", [b"0123456789", b"ab", b"cdefg"])
    assert storage.get("short") == b"0123456789abcdefg"


@pytest.mark.parametrize("method", ["create", "put"])
def test_content_is_flushed_before_its_name_appears_and_the_directories_after(
    storage: Storage, root: pathlib.Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    events: list[tuple[str, bool]] = []
    real = os.fsync
    target = root / "new" / "deeper" / "object"

    def recorded(descriptor: int) -> None:
        what = pathlib.Path(f"/proc/self/fd/{descriptor}")
        events.append((what.readlink().name if what.is_dir() else "content", target.exists()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", recorded)
    getattr(storage, method)("new/deeper/object", b"x")
    content = events.index(("content", False))
    assert events[-1] == ("deeper", True)
    assert {("root", False), ("new", False)} <= set(events[:content])  # where the new directories' names are


def test_an_empty_object_is_a_name_flushed_with_its_directory_only(
    storage: Storage, root: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.create("markers/first", b"")
    flushed: list[pathlib.Path] = []
    opened = pathlib.Path("/proc/self/fd")
    monkeypatch.setattr(os, "fsync", lambda descriptor: flushed.append((opened / str(descriptor)).readlink()))

    storage.create("markers/second", [b"", b""])
    assert flushed == [root / "markers"]
    with pytest.raises(AlreadyExists):
        storage.create("markers/second", b"")
    assert storage.get("markers/second") == b""
    assert {path.name for path in (root / "markers").iterdir()} == {"first", "second"}


def test_a_deletion_is_flushed_once_per_directory(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in ("a/1", "a/2", "b/1"):
        storage.create(path, b"")
    flushed: list[str] = []
    monkeypatch.setattr(local_files, "flush_directory", lambda path: flushed.append(pathlib.Path(path).name))
    storage.delete_many(["a/1", "a/2", "b/1", "b/absent"])
    assert sorted(flushed) == ["a", "b"]


def test_scratch_storages_flush_nothing(root: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = open_storage(str(root), {"durable": "false"})
    monkeypatch.setattr(os, "fsync", lambda _: pytest.fail("flushed"))
    storage.create("a/b", b"x")
    storage.put("a/b", b"x")
    storage.delete("a/b")


def test_of_processes_that_race_exactly_one_wins(root: pathlib.Path, storage: Storage) -> None:
    context = multiprocessing.get_context("spawn")
    barrier, wins = context.Barrier(8), context.Queue()
    processes = [
        context.Process(target=create_in_process, args=(str(root), number, barrier, wins)) for number in range(8)
    ]
    for process in processes:
        process.start()
    winner = wins.get(timeout=60)
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 8
    assert wins.empty()
    assert storage.get("race/object") == f"process {winner}".encode()


def test_unfinished_writes_of_a_killed_process_are_not_objects(storage: Storage, root: pathlib.Path) -> None:
    storage.create("d/object", b"x")
    (root / "d" / f"{local_files.STAGED_PREFIX}0123").write_bytes(b"half")
    assert [info.path for info in storage.list()] == ["d/object"]
    with pytest.raises(InvalidLocation, match="unfinished"):
        storage.create(f"d/{local_files.STAGED_PREFIX}4567", b"")


def test_a_file_that_vanishes_while_listing_is_left_out(storage: Storage, root: pathlib.Path) -> None:
    storage.create("d/object", b"x")
    (root / "d" / "dangling").symlink_to("nowhere")
    assert [info.path for info in storage.list()] == ["d/object"]


@pytest.mark.parametrize("target", [".", "link", "..", "../..", "../e"])
def test_a_link_that_leads_in_a_circle_is_named(storage: Storage, root: pathlib.Path, target: str) -> None:
    storage.create("d/object", b"x")
    storage.create("e/object", b"x")
    (root / "e" / "other").symlink_to("../d")
    (root / "d" / "link").symlink_to(target)
    (root / "d" / "second").symlink_to(target)
    with pytest.raises(InvalidLocation, match=r"d/(link|second): .*remove the link|e/other: .*remove the link"):
        list(storage.list())


def test_a_link_to_a_directory_beside_is_listed(storage: Storage, root: pathlib.Path) -> None:
    storage.create("d/object", b"x")
    (root / "link").symlink_to("d")
    assert sorted(info.path for info in storage.list()) == ["d/object", "link/object"]


def test_an_object_cannot_be_a_directory_too(storage: Storage) -> None:
    storage.create("a", b"x")
    with pytest.raises(InvalidLocation, match="a/b"):
        storage.create("a/b", b"x")


def test_a_name_too_long_for_the_disk_is_refused(storage: Storage) -> None:
    with pytest.raises(InvalidLocation, match="too long"):
        storage.create("n" * 300, b"x")


def test_unknown_options_are_refused(root: pathlib.Path) -> None:
    with pytest.raises(InvalidLocation, match="endpoint"):
        open_storage(str(root), {"endpoint": "http://127.0.0.1"})


def test_a_file_system_does_not_pretend_to_compare_and_swap(storage: Storage) -> None:
    assert not isinstance(storage, ConditionalStorage)


@pytest.mark.parametrize("years", [-100_000, 100_000])
def test_a_file_whose_time_no_calendar_has_is_listed(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, years: int
) -> None:
    """Some disks hold such times, as a broken clock or archive has them."""
    storage.put("a", b"x")
    real = os.stat

    def odd(path: str) -> os.stat_result:
        return os.stat_result(real(path), {"st_mtime_ns": years * 365 * 86_400 * 10**9})

    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", odd)
        found = storage.head("a")
    assert found.modified.year == (9999 if years > 0 else 1)
