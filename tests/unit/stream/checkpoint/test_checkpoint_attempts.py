"""Directories of former starts: which is the newest, and when old ones are deleted."""

from __future__ import annotations

import os
from pathlib import Path

from bucketingest.storage import open_storage
from bucketingest.stream.checkpoint.attempts import KEPT, SWEPT_AT_ONCE, former_directories, sweep


def make(root: Path, name: str, age: int) -> None:
    for path in ("metadata", "offsets/3", "sources/0/7.compact", "sources/0/.7.compact.crc"):
        file = root / name / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}")
        os.utime(file, (1_700_000_000 - age,) * 2)


def test_the_newest_is_what_was_made_last_for_attempts_may_be_counted_from_1_again(tmp_path: Path) -> None:
    make(tmp_path, "attempt-00000009-1", age=50)
    make(tmp_path, "attempt-00000001-1", age=40)
    make(tmp_path, "attempt-00000001-2", age=40)
    make(tmp_path, "attempt-00000010-1", age=30)
    (tmp_path / "attempt-00000010-1" / "metadata").unlink()
    (tmp_path / "other").mkdir()

    assert former_directories(open_storage(str(tmp_path))) == [
        "attempt-00000001-2",
        "attempt-00000001-1",
        "attempt-00000009-1",
        "attempt-00000010-1",
    ]


def test_the_root_comes_last(tmp_path: Path) -> None:
    make(tmp_path, "attempt-00000001-1", age=1)
    make(tmp_path, "", age=0)

    assert former_directories(open_storage(str(tmp_path))) == ["attempt-00000001-1", ""]


def test_old_directories_are_deleted_and_the_root_and_other_files_stay(tmp_path: Path) -> None:
    make(tmp_path, "", age=0)
    (tmp_path / "notes").mkdir()
    for number in range(1, KEPT + 4):
        make(tmp_path, f"attempt-{number:08d}-1", age=100 - number)
    root = open_storage(str(tmp_path))

    sweep(root, former_directories(root))

    kept = {f"attempt-{number:08d}-1" for number in range(4, KEPT + 4)}
    assert {path.name for path in tmp_path.iterdir()} == kept | {"metadata", "offsets", "sources", "notes"}


def test_a_start_deletes_no_more_than_a_few_the_oldest_first(tmp_path: Path) -> None:
    for number in range(1, KEPT + SWEPT_AT_ONCE + 3):
        make(tmp_path, f"attempt-{number:08d}-1", age=100 - number)
    root = open_storage(str(tmp_path))

    sweep(root, former_directories(root))

    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"attempt-{number:08d}-1" for number in range(SWEPT_AT_ONCE + 1, KEPT + SWEPT_AT_ONCE + 3)
    ]


def test_what_cannot_be_deleted_stays_and_does_no_harm(tmp_path: Path) -> None:
    for number in range(1, KEPT + 2):
        make(tmp_path, f"attempt-{number:08d}-1", age=100 - number)
    root = open_storage(str(tmp_path))
    former = former_directories(root)
    oldest = tmp_path / former[-1] / "offsets"
    (oldest / "3").unlink()
    (oldest / "3").mkdir()
    (oldest / "3" / "written by a driver that should be dead").touch()

    sweep(root, former)
    sweep(root, [*former, "attempt-that-is-gone"])

    assert (tmp_path / former[0] / "metadata").exists()
