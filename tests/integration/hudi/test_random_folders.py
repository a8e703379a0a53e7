"""Random folders that change while a real job ingests them, and whose driver or workers are killed: Hudi and hudi-rs
read from the table what the page about files says, and every record that is no row is one dead letter.
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.spec.model import BucketIngest
from bucketingest.storage import open_storage
from bucketingest.stream.files.log import FilesLog
from bucketingest.write.instants.journal import Journal
from bucketingest.write.instants.position import read_position
from devservers.locations import require
from support.files.driver import Driver
from support.files.random_folders import SCHEMA, File, FolderMaker, Row, same_letters
from support.jobs.stream_runs import Lake
from support.oracle import hudi_rs
from support.oracle.client import HudiOracle

FIRST, _, LAST = os.environ.get("BUCKETINGEST_KILLED_FOLDERS", "0-2").rpartition("-")
FOLDERS = range(int(FIRST or 0), int(LAST))
"""Random folders of a run: so many, or those from one number to another."""
RUNS = 4
ENDS_MAX = 12
"""Runs after the last change until all is read; each may be one that was killed before it."""
CONF = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false"}


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    require("connectors")
    found = Driver(tmp_path_factory.mktemp("driver") / "log")

    yield found
    found.close()


class Judge:
    """What the page says of the micro-batches that the log lists, in dictionaries."""

    def __init__(self, lake: Lake, wanted: BucketIngest) -> None:
        source = wanted.spec.source.files
        assert source is not None
        self.changed, self.max_files = source.changed, source.max_files_per_trigger
        self.storage = open_storage(str(lake.table))
        self.log = FilesLog(self.storage, wanted.pipeline)
        self.journal = Journal(self.storage, wanted.pipeline)
        self.there: dict[str, File] = {}
        self.taken: dict[str, list[str]] = {}
        """Versions of each file that a micro-batch has, in order."""
        self.planned = 0
        self.written = 0
        self.rows: dict[str, Row] = {}
        self.letters: Counter[bytes | None] = Counter()

    def look(self) -> None:
        """After a run, during which no file was changed: take in what it planned and wrote."""
        while (batch := self.log.batch(self.planned)) is not None:
            assert 0 < len(batch.files) <= self.max_files
            assert [file.place for file in batch.files] == sorted(file.place for file in batch.files)
            for file in batch.files:
                versions = self.taken.setdefault(file.path, [])
                assert file.version not in versions
                assert not versions or self.changed == "readAgain"
                versions.append(file.version)
            self.planned += 1
        end = read_position(self.storage, Timeline.load(self.storage), self.journal).end if self.planned else None
        while end is not None and self.written <= end.batch_id:
            batch = self.log.batch(self.written)
            assert batch is not None
            for each in batch.files:
                self._write(self.there.get(each.path), each.version)
            self.written += 1

    def _write(self, file: File | None, version: str) -> None:
        if file is None:
            self.letters[None] += 1
            return
        assert self.changed != "stop" or file.version == version
        self.letters.update(file.letters)
        self.rows.update((row[0], row) for row in file.rows)

    @property
    def stops(self) -> bool:
        """Whether the next run must stop because a file has changed."""
        known = ((self.there[path], versions[-1]) for path, versions in self.taken.items() if path in self.there)
        return self.changed == "stop" and any(file.version != version for file, version in known)

    @property
    def misses(self) -> list[str]:
        """Files of which a micro-batch should have another version."""
        again = self.changed == "readAgain"
        return [
            path
            for path, file in self.there.items()
            if path not in self.taken or (again and file.version != self.taken[path][-1])
        ]


def change(chosen: random.Random, maker: FolderMaker, judge: Judge, folder: Path) -> None:
    """Between two runs: new files, hidden ones, other content, deleted ones."""
    for _ in range(chosen.randrange(1, 7)):
        what = chosen.random()
        if what < 0.75 or not judge.there:
            put(maker.file(), judge, folder)
        elif what < 0.8:
            maker.hidden().put(folder)
        elif what < 0.9:
            old = judge.there[chosen.choice(sorted(judge.there))]
            new = maker.file(old.path)
            new.modified = old.modified + chosen.choice([-1, 1]) * chosen.randrange(1, 100_000)
            put(new, judge, folder)
        else:
            path = chosen.choice(sorted(judge.there))
            del judge.there[path]
            (folder / path).unlink()


def put(file: File, judge: Judge, folder: Path) -> None:
    file.put(folder)
    judge.there[file.path] = file


def appear(files: list[File], folder: Path) -> threading.Thread:
    """New files come while a run reads others. Each is whole when it is seen."""

    def come() -> None:
        for file in files:
            file.put(folder, by_rename=True)

    thread = threading.Thread(target=come)
    thread.start()
    return thread


@pytest.mark.parametrize("seed", FOLDERS)
def test_a_folder_that_changes_and_a_job_that_is_killed(
    seed: int, tmp_path: Path, driver: Driver, hudi: HudiOracle
) -> None:
    chosen = random.Random(f"killed {seed}")
    maker = FolderMaker(seed)
    folder = tmp_path / "in"
    folder.mkdir()
    source: dict[str, object] = {
        "path": str(folder),
        "format": maker.format,
        "schema": SCHEMA,
        "options": maker.options,
    }
    source |= {
        "changed": chosen.choice(["stop", "readAgain", "ignore"]),
        "maxFilesPerTrigger": chosen.choice([1, 3, 100]),
    }
    sql = chosen.choice(["SELECT * FROM source", "SELECT regexp_replace(id, '^$', '') AS id, n, place FROM source"])
    lake = Lake(tmp_path)
    wanted = lake.resource({"files": source}, table={"recordKey": ["id"]}, transform={"sql": sql}, spark={"conf": CONF})
    judge = Judge(lake, wanted)

    def run(kill: str) -> str:
        new = [maker.file() for _ in range(chosen.choice([0, 0, 3]))]
        thread = appear(new, folder)
        is_stopped = judge.stops
        said = driver.run(wanted, kill=kill, after=chosen.random() * 2)
        thread.join()
        judge.there |= {file.path: file for file in new}
        judge.look()
        assert said in {
            "",
            *(["SourceFilesChanged"] if is_stopped else ()),
            *(["killed"] if kill else ()),
            *(["QueryFailed"] if kill == "worker" else ()),
        }
        assert said or not is_stopped
        return said

    for _ in range(RUNS):
        change(chosen, maker, judge, folder)
        run(chosen.choice(["", "", "driver", "worker", "worker"]))
        if judge.stops:
            break
    for _ in range(ENDS_MAX):
        if judge.stops or not (judge.misses or judge.written < judge.planned):
            break
        run("")
    assert judge.stops or not judge.misses
    if not judge.planned or not judge.written:
        return
    for table in (hudi.snapshot(lake.table), hudi_rs.snapshot(lake.table)):
        found = {row["id"]: (row["id"], row["n"], row["place"]) for row in table.to_pylist()}
        assert len(found) == table.num_rows
        assert found == judge.rows
    letters = Counter(letter["value"] for letter in lake.letters())
    assert same_letters(letters, judge.letters), (letters, judge.letters)
