from __future__ import annotations

import os
import pathlib
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bucketingest.index.errors import StateDamaged
from bucketingest.index.state.runs import local_runs
from bucketingest.index.state.runs.local_runs import LocalRuns
from support.tables.state.runs import TABLE_ID, make_run


class Stored:
    """Durable runs, and which of them were fetched."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fetched: list[str] = []
        folder.mkdir()

    def make(self, key: str) -> str:
        return make_run(self.folder, {"p": {"f": [key]}}).digest

    def fetch(self, digest: str, target: pathlib.Path) -> None:
        self.fetched.append(digest)
        target.write_bytes((self.folder / digest).read_bytes())


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    return Stored(tmp_path / "stored")


@pytest.fixture
def new_process(tmp_path: Path) -> Callable[[], LocalRuns]:
    return lambda: LocalRuns(tmp_path / "local", TABLE_ID, bytes_max=1_000_000)


def test_a_run_is_fetched_once_for_all_processes(stored: Stored, new_process: Callable[[], LocalRuns]) -> None:
    digest = stored.make("k")
    one = new_process()
    assert one.get(digest, stored.fetch) is one.get(digest, stored.fetch)
    assert len(new_process().get(digest, stored.fetch)) == 1
    assert stored.fetched == [digest]


def test_a_run_that_this_process_made_is_not_fetched(
    stored: Stored, new_process: Callable[[], LocalRuns], tmp_path: Path
) -> None:
    digest = stored.make("k")
    runs = new_process()
    (tmp_path / "local").mkdir()
    (stored.folder / digest).rename(tmp_path / "local" / digest)
    assert len(runs.get(digest, stored.fetch)) == 1
    assert stored.fetched == []


def test_a_run_that_is_damaged_here_is_fetched_again(
    stored: Stored, new_process: Callable[[], LocalRuns], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    digest = stored.make("k")
    new_process().get(digest, stored.fetch)
    local = tmp_path / "local" / digest
    local.write_bytes(local.read_bytes()[:-1] + b"\0")
    assert len(new_process().get(digest, stored.fetch)) == 1
    assert stored.fetched == [digest, digest]
    assert "damaged" in caplog.text


def test_a_run_that_is_damaged_where_it_is_fetched_is_told_and_not_kept(
    stored: Stored, new_process: Callable[[], LocalRuns], tmp_path: Path
) -> None:
    digest = stored.make("k")
    (stored.folder / digest).write_bytes(b"short")
    with pytest.raises(StateDamaged, match="this has 5"):
        new_process().get(digest, stored.fetch)
    assert [path.name for path in (tmp_path / "local").iterdir()] == [f"{digest}.lock"]


def test_runs_that_the_plan_does_not_name_take_no_more_than_those_that_it_names(
    stored: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_runs, "_SPARE_BYTES", 0)
    digests = [stored.make(key) for key in "abcd"]
    runs = LocalRuns(tmp_path / "local", TABLE_ID, bytes_max=10**9)
    for age, digest in enumerate(digests):
        runs.get(digest, stored.fetch)
        os.utime(tmp_path / "local" / digest, (age, age))
    assert runs.keep_only(frozenset(digests[:1])) == digests[1:3]


def test_runs_that_were_not_used_for_long_are_deleted_when_there_are_too_many_bytes(
    stored: Stored, tmp_path: Path
) -> None:
    digests = [stored.make(key) for key in "abcd"]
    size = (stored.folder / digests[0]).stat().st_size
    runs = LocalRuns(tmp_path / "local", TABLE_ID, bytes_max=2 * size)
    for age, digest in enumerate(digests):
        runs.get(digest, stored.fetch)
        os.utime(tmp_path / "local" / digest, (age, age))
    left_over = tmp_path / "local" / ".fetch-x"
    left_over.write_bytes(b"")
    os.utime(left_over, (time.time() - 4000,) * 2)
    assert runs.keep_only(frozenset(digests[:1])) == digests[1:3]
    assert {path.name for path in (tmp_path / "local").iterdir() if path.suffix != ".lock"} == {digests[0], digests[3]}
    runs.get(digests[1], stored.fetch)
    assert stored.fetched == [*digests, digests[1]]
