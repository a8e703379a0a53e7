"""Random folders that change while a real job ingests them, and whose driver or workers are killed: Hudi and hudi-rs
read from the table what the page about files says, and every record that is no row is one dead letter.
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
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

FIRST, _, LAST = os.environ.get("BUCKETINGEST_KILLED_FOLDERS", "0-3").rpartition("-")
FOLDERS = range(int(FIRST or 0), int(LAST))
"""Random folders of a run: so many, or those from one number to another."""
KILLS = ["driver", "worker", "worker", ""] if "BUCKETINGEST_KILLED_FOLDERS" in os.environ else ["driver", "worker"]
"""What is killed in the runs of a folder; a driver takes 20 s of CPU to start."""
BESIDE = 6
"""Folders that one driver ingests beside each other, and whose jobs are killed together."""
FILES_MAX = 50
"""Objects that a run writes into a table before it is killed, at most on average."""
ENDS_MAX = 12
"""Runs after the last change until all is read; each may be one that was killed before it."""
CONF = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false"}


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
    """One of: a new file, a hidden one, other content, a deleted one."""
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


class Killed:
    """One folder, its job and its judge."""

    def __init__(self, seed: int, tmp_path: Path) -> None:
        chosen = self.chosen = random.Random(f"killed {seed}")
        maker = self.maker = FolderMaker(seed)
        self.folder = tmp_path / "in"
        self.folder.mkdir(parents=True)
        source = {
            "path": str(self.folder),
            "format": maker.format,
            "schema": SCHEMA,
            "options": maker.options,
            "changed": chosen.choice(["stop", "readAgain", "ignore"]),
            "maxFilesPerTrigger": chosen.choice([1, 3, 100]),
        }
        on_arrow = "SELECT * FROM source"
        sql = chosen.choice([on_arrow, "SELECT regexp_replace(id, '^$', '') AS id, n, place FROM source"])
        self.lake = Lake(tmp_path)
        table, transform = {"recordKey": ["id"]}, {"sql": sql}
        self.resource = self.lake.resource({"files": source}, table=table, transform=transform, spark={"conf": CONF})
        self.judge = Judge(self.lake, self.resource)
        self.appears: list[File] = []

    @property
    def written(self) -> int:
        """Objects of the table, which say how far a run is, on a machine of any speed."""
        return sum(len(names) for _, _, names in os.walk(self.lake.table))

    def change(self) -> None:
        """Between two runs: new files, hidden ones, other content, deleted ones; some are to appear in the next."""
        if self.judge.stops:
            return
        for _ in range(self.chosen.randrange(1, 7)):
            change(self.chosen, self.maker, self.judge, self.folder)
        self.appears = [self.maker.file() for _ in range(self.chosen.choice([0, 0, 3]))]

    def appear(self) -> None:
        """New files come while a run reads others. Each is whole when it is seen."""
        for file in self.appears:
            file.put(self.folder, by_rename=True)

    def look(self, said: str, kill: str, before: str) -> None:
        """After a run. `before`: what was killed in the one before it: a worker that had nothing left to do is missed
        by the next run's first task, which is not tried again on one machine.
        """
        is_stopped = self.judge.stops
        self.judge.there |= {file.path: file for file in self.appears}
        self.appears = []
        self.judge.look()
        may = {"", *(["SourceFilesChanged"] if is_stopped else ())}
        may |= {"killed"} if kill == "driver" else set()
        may |= {"QueryFailed"} if "worker" in (kill, before) else set()
        assert said in may
        assert said or not is_stopped

    @property
    def is_read(self) -> bool:
        """Whether a further run would do nothing."""
        return self.judge.stops or not (self.judge.misses or self.judge.written < self.judge.planned)

    def judge_table(self, hudi: HudiOracle) -> None:
        """Both readers, and the dead letters."""
        assert self.judge.stops or not self.judge.misses
        if not self.judge.written:
            return
        for table in (hudi.snapshot(self.lake.table), hudi_rs.snapshot(self.lake.table)):
            found = {row["id"]: (row["id"], row["n"], row["place"]) for row in table.to_pylist()}
            assert len(found) == table.num_rows
            assert found == self.judge.rows
        letters = Counter(letter["value"] for letter in self.lake.letters())
        assert same_letters(letters, self.judge.letters), (letters, self.judge.letters)


@pytest.mark.parametrize("first", FOLDERS[::BESIDE])
def test_folders_that_change_and_jobs_that_are_killed(first: int, tmp_path: Path, hudi: HudiOracle) -> None:
    require("connectors")
    seeds = range(first, min(first + BESIDE, FOLDERS.stop))
    folders = [Killed(seed, tmp_path / str(seed)) for seed in seeds]
    chosen = random.Random(f"kills {first}")
    driver = Driver(tmp_path / "driver.log")
    kills = chosen.sample(KILLS, len(KILLS))

    before = ""

    def run(running: list[Killed], kill: str) -> None:
        nonlocal before
        thread = threading.Thread(target=lambda: list(map(Killed.appear, running)))
        thread.start()
        until = sum(each.written for each in running) + chosen.randrange(FILES_MAX * len(running))
        said = driver.run(
            [each.resource for each in running], kill=kill, when=lambda: sum(each.written for each in running) > until
        )
        thread.join()
        for each, answer in zip(running, said, strict=True):
            each.look(answer, kill, before)
        before = kill

    try:
        for kill in kills:
            for each in folders:
                each.change()
            run(folders, kill)
        for _ in range(ENDS_MAX):
            if not (unread := [each for each in folders if not each.is_read]):
                break
            run(unread, "")
    finally:
        driver.close()
    for each in folders:
        each.judge_table(hudi)
