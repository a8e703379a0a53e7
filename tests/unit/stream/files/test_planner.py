"""Which files a micro-batch takes, whatever their times, and the same ones whoever runs it."""

from __future__ import annotations

import os
import random
import uuid
from pathlib import Path
from typing import Any

import pytest

from bucketingest.storage import Storage, open_storage
from bucketingest.stream.errors import FilesLogLost, SourceFilesChanged
from bucketingest.stream.files import log as log_module
from bucketingest.stream.files.log import FilesLog
from bucketingest.stream.files.planner import FilesPlanner, Listing

DAY = 86_400


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


@pytest.fixture
def table(tmp_path: Path) -> Storage:
    return open_storage(str(tmp_path / "table"), {"durable": "false"})


def put(folder: Path, name: str, at: int, text: str = "") -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text or name)
    os.utime(folder / name, (1_700_000_000 + at,) * 2)


def planner(
    folder: Path,
    table: Storage,
    last: int = -1,
    *,
    once: bool = False,
    ignored: Any = lambda *_: None,
    **listing: object,
) -> FilesPlanner:
    wanted = Listing(open_storage(str(folder)), **{"max_files": 2, "max_bytes": 10**6, **listing})  # type: ignore[arg-type]
    return FilesPlanner(wanted, FilesLog(table, "orders"), last, once=once, ignored=ignored)


def taken(found: FilesPlanner) -> list[list[str]]:
    batches = []
    while (batch := found.next()) is not None:
        batches.append([file.path for file in batch.files])
    return batches


def test_files_come_by_time_and_then_name_however_old_they_are(folder: Path, table: Storage) -> None:
    for name, at in [("z", 0), ("b", 400 * DAY), ("a", 400 * DAY), ("deep/er/c", 200 * DAY), ("ü %20#?", 300 * DAY)]:
        put(folder, name, at)
    found = planner(folder, table)
    assert taken(found) == [["z", "deep/er/c"], ["ü %20#?", "a"], ["b"]]
    put(folder, "late", -1000 * DAY)
    assert taken(found) == [["late"]]
    assert taken(found) == []


def test_a_micro_batch_has_files_of_so_many_bytes_or_one_that_is_larger(folder: Path, table: Storage) -> None:
    for at, size in enumerate([3, 4, 1, 20, 8, 1]):
        put(folder, str(at), at, "x" * size)
    assert taken(planner(folder, table, max_files=100, max_bytes=8)) == [["0", "1", "2"], ["3"], ["4"], ["5"]]


def test_what_writers_keep_for_themselves_is_not_read(folder: Path, table: Storage) -> None:
    for name in (
        "_SUCCESS",
        ".a.crc",
        "_temporary/0/part",
        ".hidden/x",
        "b._COPYING_",
        "_a=b.json",
        ".dt=1/c",
        "_dt=1/c",
        "ok/d",
    ):
        put(folder, name, 0)
    assert taken(planner(folder, table)) == [["_dt=1/c", "ok/d"]]


def test_only_files_behind_a_name_or_of_a_pattern(folder: Path, table: Storage) -> None:
    for name in ("2026-01-01/a.json", "2026-01-02/a.json", "2026-01-02/b.csv", "2026-01-03/c.json"):
        put(folder, name, 0)
    found = planner(folder, table, start_after="2026-01-02/a.json", pattern="*.json")
    assert taken(found) == [["2026-01-03/c.json"]]


def test_a_micro_batch_that_was_planned_is_the_same_for_whoever_runs_it(folder: Path, table: Storage) -> None:
    put(folder, "b", 2)
    put(folder, "c", 3)
    first = planner(folder, table)
    other = planner(folder, table)
    planned = first.next()
    put(folder, "a", 1)
    assert other.next() == planned
    assert planner(folder, table, max_files=100).next() == planned, "also after a start with another limit"
    assert taken(first) == [["a"]]
    assert taken(other) == [["a"]]


@pytest.mark.parametrize("seed", range(30))
def test_every_file_is_taken_once_over_any_starts(
    folder: Path, table: Storage, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start knows only which micro-batch is the last in the table; that may be any earlier one."""
    monkeypatch.setattr(log_module, "_FOLD_BATCHES", 3)
    chosen = random.Random(seed)
    batches: list[list[str]] = []
    names: set[str] = set()
    found = planner(folder, table)
    for _ in range(30):
        what = chosen.random()
        if what < 0.5:
            name = f"{chosen.randrange(100)}"
            if name not in names:
                put(folder, name, chosen.randrange(100))
                names.add(name)
        elif what < 0.8:
            batch = found.next()
            if batch is not None:
                assert batch.number == len(batches)
                batches.append([file.path for file in batch.files])
        else:
            del batches[chosen.randint(max(0, len(batches) - 2), len(batches)) :]
            found = planner(folder, table, len(batches) - 1)
    batches += taken(found)
    assert sorted(name for batch in batches for name in batch) == sorted(names)


def test_a_changed_file_stops_or_is_read_again_or_stays(folder: Path, table: Storage) -> None:
    put(folder, "a", 1)
    put(folder, "b", 2)
    assert taken(planner(folder, table)) == [["a", "b"]]
    put(folder, "a", 1, "longer than it was")
    put(folder, "c", 3)

    with pytest.raises(SourceFilesChanged, match=r"1 files were changed after they were read: a\. Their rows"):
        planner(folder, table, 0).next()
    told: list[object] = []
    ignoring = planner(folder, table, 0, changed="ignore", ignored=lambda count, first: told.append((count, first)))
    assert taken(ignoring) == [["c"]]
    assert told == [(1, ["a"])] * 2
    put(folder, "a", 1)
    assert taken(ignoring) == []
    assert told[2:] == [(0, [])]
    put(folder, "a", 1, "longer than it was")
    assert taken(planner(folder, table, 1, changed="readAgain")) == [["a"]]
    assert taken(planner(folder, table, 2)) == []
    put(folder, "a", 1, "changed again")
    assert taken(planner(folder, table, 2, changed="readAgain")) == [["a"]]


def test_with_once_what_comes_later_is_for_the_next_run(folder: Path, table: Storage) -> None:
    for name in "abc":
        put(folder, name, 0)
    found = planner(folder, table, once=True)
    assert found.next() is not None
    put(folder, "d", 0)
    assert taken(found) == [["c"]]


def test_a_log_that_does_not_say_what_was_taken_is_refused(folder: Path, table: Storage) -> None:
    put(folder, "a", 0)
    taken(planner(folder, table))
    with pytest.raises(
        FilesLogLost, match=r"orders/files/batch/000000000001 is not there, so nothing says which files"
    ):
        planner(folder, table, 1)


def test_old_micro_batches_are_folded_and_deleted_and_starts_read_few_objects(
    folder: Path, table: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "_FOLD_BATCHES", 10)
    monkeypatch.setattr(log_module, "KEPT_BATCHES", 30)
    for number in range(100):
        put(folder, f"{number:03}", number)
    found = planner(folder, table, max_files=1)
    assert len(taken(found)) == 100
    assert len(list(table.list())) < 60
    assert taken(planner(folder, table, 99)) == []
    assert taken(planner(folder, table, 75, max_files=1))[:1] == [["076"]], "a rolled-back table continues where it is"
    with pytest.raises(FilesLogLost):
        planner(folder, table, 20)


def test_another_directory_has_other_files(folder: Path, table: Storage, tmp_path: Path) -> None:
    put(folder, "a", 0)
    put(tmp_path / "other", "a", 0)
    assert taken(planner(folder, table)) == [["a"]]
    assert taken(planner(tmp_path / "other", table, 0)) == [["a"]]


def test_an_object_without_a_byte_is_a_mark_of_a_directory_and_no_file(table: Storage) -> None:
    """Consoles of object stores make such ones. The store's client leaves out the slash that their keys end with."""
    store = open_storage(f"memory://{uuid.uuid4().hex}/in")
    for name, content in [("deep", b""), ("deep/a.json", b"{}"), ("b.json", b"{}")]:
        store.put(name, content)
    (files,) = taken(FilesPlanner(Listing(store, 10, 10**6), FilesLog(table, "orders"), -1))
    assert sorted(files) == ["b.json", "deep/a.json"]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [("*.{csv,csv.gz}", "a.csv b.csv.gz"), ("[^a]*.{csv,}*", "b.csv.gz c.txt"), ("?.csv", "a.csv"), ("{a", "{a")],
)
def test_a_pattern_chooses_names_as_those_of_hadoop_do(folder: Path, table: Storage, pattern: str, names: str) -> None:
    for name in ("a.csv", "b.csv.gz", "c.txt", "{a"):
        put(folder, name, 0)
    assert taken(planner(folder, table, max_files=9, pattern=pattern)) == [names.split()]
