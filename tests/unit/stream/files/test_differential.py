"""Random folders that change while they are ingested, with crashes, against a plain model of the page about files: the
same rows by key, each from the file and record that counts, and the same dead letters.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from bucketingest.decode.files.formats import is_splittable, reader_of
from bucketingest.decode.files.reader import FileReader
from bucketingest.spec.fields.source import FilesSource
from bucketingest.storage import open_storage
from bucketingest.stream.errors import SourceFilesChanged
from bucketingest.stream.files import log as log_module
from bucketingest.stream.files.log import FileBatch, FilesLog
from bucketingest.stream.files.opening import FileChanged, as_they_are
from bucketingest.stream.files.planner import FilesPlanner, Listing
from bucketingest.stream.files.reading import TaskFiles
from support.files.random_folders import COLUMNS, SCHEMA, File, FolderMaker, Row, same_letters

FIRST, _, LAST = os.environ.get("BUCKETINGEST_FOLDERS", "0-40").rpartition("-")
FOLDERS = range(int(FIRST or 0), int(LAST))
"""Random folders of a run: so many, or those from one number to another."""
STEPS = 25


class Model:
    """What the page says, in dictionaries."""

    def __init__(self, changed: str, max_files: int, max_bytes: int) -> None:
        self.changed, self.max_files, self.max_bytes = changed, max_files, max_bytes
        self.there: dict[str, File] = {}
        self.taken: dict[str, tuple[int, int]] = {}
        self.waiting: list[tuple[int, str, tuple[int, int]]] = []
        self.rows: dict[str, Row] = {}
        self.letters: Counter[bytes | None] = Counter()
        self.planned: list[tuple[int, str, tuple[int, int]]] | None = None

    def put(self, file: File, folder: Path) -> None:
        file.put(folder)
        self.there[file.path] = file

    def crash(self) -> None:
        self.waiting = []

    def stops(self) -> bool:
        """Plan a micro-batch; whether a changed file stops it."""
        if self.planned is not None:
            return False
        if not self.waiting:
            found = []
            for path, file in self.there.items():
                version = len(file.content), file.modified
                if path not in self.taken or (self.taken[path] != version and self.changed == "readAgain"):
                    found.append((file.modified, path, version))
                elif self.taken[path] != version and self.changed == "stop":
                    return True
            self.waiting = sorted(found)
        count = min(1, len(self.waiting))
        while count < min(self.max_files, len(self.waiting)):
            if sum(version[0] for _, _, version in self.waiting[: count + 1]) > self.max_bytes:
                break
            count += 1
        self.planned, self.waiting = self.waiting[:count], self.waiting[count:]
        return False

    def reads_another_version(self) -> bool:
        """Whether a file of the micro-batch has changed since it was listed."""
        files = [(self.there.get(path), version) for _, path, version in self.planned or ()]
        files = [each for each in files if each[0] is None or not each[0].has_refused_name]  # read in no version
        return any(file is not None and (len(file.content), file.modified) != version for file, version in files)

    def write(self) -> None:
        for _, path, version in self.planned or ():
            file = self.there.get(path)
            self.taken[path] = version
            if file is None:
                self.letters[None] += 1
                continue
            self.letters.update(file.letters)
            self.rows.update((row[0], row) for row in file.rows)
        self.planned = None


class Ingested:
    """What our code makes of the folder: the parts of the job that need no Spark."""

    def __init__(self, folder: Path, table: Path, source: FilesSource, slots: int) -> None:
        self.folder, self.source, self.slots = folder, source, slots
        self.log = FilesLog(open_storage(str(table), {"durable": "false"}), "orders")
        self.reader = FileReader(COLUMNS, reader_of(source, COLUMNS))
        self.last = -1
        self.rows: dict[str, Row] = {}
        self.letters: Counter[bytes | None] = Counter()
        self.planner = self._planner()

    def _planner(self) -> FilesPlanner:
        most = self.source.max_files_per_trigger, self.source.max_bytes_per_trigger
        listing = Listing(open_storage(str(self.folder)), *most, self.source.changed)
        return FilesPlanner(listing, self.log, self.last)

    def crash(self) -> None:
        self.planner = self._planner()

    def write(self, batch: FileBatch) -> None:
        try:
            self._read(batch)
        except FileChanged:
            if self.source.changed == "stop":
                raise
            self._read(as_they_are(batch))
        self.last = batch.number

    def _read(self, batch: FileBatch) -> None:
        files = TaskFiles.of(batch, self.reader, self.slots, is_splittable=is_splittable(self.source))
        tasks = [[piece] for task in files.tasks for piece in task]
        bad = dict(each for task in range(len(tasks)) for each in replace(files, tasks=tasks).bad_files(task))
        files = replace(files, tasks=tasks, set_aside=bad)
        parts = [part for task in range(len(tasks)) for _, part in files.parts(task)]
        letters = [each for task in range(len(tasks)) for each in files.letters(task)]
        rows = [row for part in parts for row in part.rows.to_pylist()]
        self.rows.update((row["id"], (row["id"], row["n"], row["place"])) for row in rows)
        self.letters.update(value for each in letters for value in each["value"].to_pylist())


@pytest.mark.parametrize("seed", FOLDERS)
def test_a_random_folder_is_ingested_as_the_page_says(  # noqa: C901, PLR0915 - one story, told in order
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "_FOLD_BATCHES", 4)
    monkeypatch.setattr("bucketingest.stream.files.reading._FILE_COST", 40)
    monkeypatch.setattr("bucketingest.stream.files.reading._PIECE_BYTES_MIN", 40)
    monkeypatch.setattr("bucketingest.decode.files.lines._BLOCK_BYTES", 64)
    chosen = random.Random(f"steps {seed}")
    maker = FolderMaker(seed)
    folder = tmp_path / "in"
    folder.mkdir()
    changed, max_files = chosen.choice(["stop", "readAgain", "ignore"]), chosen.choice([1, 2, 5, 100])
    fields = {"path": str(folder), "format": maker.format, "schema": SCHEMA, "options": maker.options}
    source = FilesSource.model_validate({**fields, "changed": changed, "maxFilesPerTrigger": max_files})
    max_bytes = chosen.choice([400, source.max_bytes_per_trigger])  # smaller than the spec allows
    source = source.model_copy(update={"max_bytes_per_trigger": max_bytes})
    model = Model(changed, max_files, max_bytes)
    ours = Ingested(folder, tmp_path / "table", source, chosen.choice([1, 3, 8]))

    def micro_batch(*, crashes: bool = False) -> bool:
        """Whether there may be more."""
        if model.stops():
            with pytest.raises(SourceFilesChanged):
                ours.planner.next()
            return False
        batch = ours.planner.next()
        planned = [path for _, path, _ in model.planned or ()]
        assert [file.path for file in batch.files] == planned if batch else not planned
        if batch is None:
            model.planned = None
            return False
        if crashes:
            model.crash()
            ours.crash()
            return True
        if changed == "stop" and model.reads_another_version():
            with pytest.raises(FileChanged):
                ours.write(batch)
            model.crash()  # the job has ended; the next start plans the same
            ours.crash()
            return False
        model.write()
        ours.write(batch)
        return True

    for _ in range(STEPS):
        what = chosen.random()
        if what < 0.5:
            model.put(maker.file(), folder)
        elif what < 0.55:
            maker.hidden().put(folder)
        elif what < 0.6 and model.there:
            old = model.there[chosen.choice(sorted(model.there))]
            new = maker.file(old.path)
            new.modified = old.modified + chosen.choice([-1, 1]) * chosen.randrange(1, 100_000)
            model.put(new, folder)
        elif what < 0.63 and model.there:
            path = chosen.choice(sorted(model.there))
            del model.there[path]
            (folder / path).unlink()
        elif not micro_batch(crashes=chosen.random() < 0.2) and changed == "stop":
            break
    while micro_batch():
        pass

    assert ours.rows == model.rows
    assert same_letters(ours.letters, model.letters), (ours.letters, model.letters)
