"""Small history files become larger ones, and what no manifest names any more goes."""

from __future__ import annotations

import io
import uuid
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq

from bucketingest.hudi.history.archived import archived_instants
from bucketingest.hudi.history.levels import delete_obsolete, files_to_merge, merge_level
from bucketingest.hudi.history.manifest import VERSION_PATH, ManifestEntry, load_manifest, manifest_path
from bucketingest.hudi.history.writer import HistoryRow, publish, write_history_file
from bucketingest.hudi.naming import HISTORY_DIRECTORY
from bucketingest.hudi.timeline.instant import COMMIT, DELTA_COMMIT, Instant, State
from bucketingest.storage import Storage, open_storage
from support.storage.crashing_storage import Crash, CrashingStorage
from support.storage.dated_storage import DatedStorage
from support.tables.services.old_timelines import NOW, at, done, history_files_of


def unchecked() -> None:
    """A process that may go on."""


def entries(*names: str, size: int = 1) -> list[ManifestEntry]:
    return [ManifestEntry(f"{name}.parquet", size) for name in names]


def archive(storage: Storage, *times: str, plan: bytes | None = None) -> None:
    action = DELTA_COMMIT if plan is None else COMMIT
    rows = [HistoryRow(Instant(time, action, State.COMPLETED, done(time)), time.encode(), plan) for time in times]
    publish(storage, write_history_file(storage, rows), (), unchecked)


def new() -> Storage:
    return open_storage(f"memory://{uuid.uuid4()}")


LEVEL_0 = [f"{n}0_{n}9_0" for n in range(10, 20)]


def test_ten_files_of_a_level_are_merged_fewer_are_not() -> None:
    assert files_to_merge(entries(*LEVEL_0[:9], "30_40_1")) == ()
    assert files_to_merge(entries("30_40_1", *reversed(LEVEL_0))) == tuple(entries(*LEVEL_0))
    assert files_to_merge(entries(*LEVEL_0, "300_309_0")) == tuple(entries(*LEVEL_0)), "the oldest ten"
    level_1 = [name[:-1] + "1" for name in LEVEL_0]
    assert files_to_merge(entries(*level_1, "300_309_0")) == tuple(entries(*level_1))


def test_the_highest_level_of_one_digit_is_not_merged() -> None:
    assert files_to_merge(entries(*[name[:-1] + "8" for name in LEVEL_0]))
    assert files_to_merge(entries(*[name[:-1] + "9" for name in LEVEL_0])) == ()


def test_files_that_are_too_large_together_are_not_merged() -> None:
    files = entries(*LEVEL_0, size=30)
    assert files_to_merge(files, bytes_max=100) == tuple(files[:3])
    assert files_to_merge(files, bytes_max=59) == ()
    large = [ManifestEntry(files[0].name, 101), *files[1:]]
    assert files_to_merge(large, bytes_max=100) == tuple(files[1:4])


def test_a_merge_keeps_every_row_once() -> None:
    storage = new()
    times = [at(100 - number) for number in range(12)]
    archive(storage, times[0], times[1], plan=b"plan")
    archive(storage, times[0], plan=b"plan")  # what an interrupted archival wrote twice
    for time in times[2:10]:
        archive(storage, time)
    before = archived_instants(storage)
    assert merge_level(storage, unchecked)
    assert archived_instants(storage) == before
    (entry,) = load_manifest(storage).entries
    assert entry.name == f"{times[0]}_{times[9]}_1.parquet"
    table = pq.read_table(io.BytesIO(storage.get(f"{HISTORY_DIRECTORY}/{entry.name}")))
    assert table.num_rows == 10
    assert table["metadata"].to_pylist() == [time.encode() for time in times[:10]]
    assert table["plan"].to_pylist() == [b"plan"] * 2 + [None] * 8
    assert not merge_level(storage, unchecked)


def test_files_of_hudis_with_more_columns_or_in_another_order_are_merged() -> None:
    storage = new()
    for number in range(10):
        archive(storage, at(50 - number))
    name = load_manifest(storage).entries[0].name
    path = f"{HISTORY_DIRECTORY}/{name}"
    table = pq.read_table(io.BytesIO(storage.get(path)))
    sink = io.BytesIO()
    pq.write_table(table.select(table.column_names[::-1]).append_column("more", pa.array(["x"])), sink)
    storage.put(path, sink.getvalue())
    assert merge_level(storage, unchecked)
    assert len(archived_instants(storage)) == 10


def test_a_crash_in_a_merge_loses_nothing_and_a_second_one_ends_it() -> None:
    for dies_at in range(9):
        storage = new()
        for number in range(10):
            archive(storage, at(50 - number))
        before = archived_instants(storage)
        crashing = CrashingStorage(storage, dies_at)
        try:
            merge_level(crashing, unchecked)
        except Crash:
            assert archived_instants(storage) == before
            merge_level(storage, unchecked)
        assert archived_instants(storage) == before
        assert len(load_manifest(storage).entries) == 1
    assert not crashing.dead, "it died at every change"


class Clock:
    now = NOW

    def __call__(self) -> datetime:
        return self.now


def test_only_what_is_old_and_named_by_no_kept_manifest_goes() -> None:
    clock = Clock()
    inner = new()
    storage = DatedStorage(inner, clock)
    orphan = f"{HISTORY_DIRECTORY}/{at(90)}_{at(80)}_0.parquet"
    others = ["_version_.x", "notes.parquet", "manifest_x"]
    for name in others:
        storage.create(f"{HISTORY_DIRECTORY}/{name}", b"")
    storage.create(orphan, b"left by a crash")
    for number in range(10):
        archive(storage, at(50 - number))
    sources = {entry.name for entry in load_manifest(storage).entries}
    merge_level(storage, unchecked)
    clock.now += timedelta(minutes=59)
    assert delete_obsolete(storage, clock.now) == 0, "a reader may still read them"
    clock.now += timedelta(minutes=2)
    assert delete_obsolete(storage, clock.now) == 9
    left = history_files_of(storage)
    assert left == sources | {"_version_", "manifest_9", "manifest_10", "manifest_11", *others} | {
        load_manifest(storage).entries[0].name
    }, "the manifests that are kept still name the merged files"
    for _ in range(3):
        archive(storage, at(20))
    archive(storage, at(10))
    assert delete_obsolete(storage, clock.now) == 3 + 10
    assert not sources & history_files_of(storage)


def test_an_unpublished_manifest_keeps_its_files() -> None:
    clock = Clock()
    storage = DatedStorage(new(), clock)
    for number in range(5):
        archive(storage, at(50 - number))
    storage.put(VERSION_PATH, b"1")
    clock.now += timedelta(hours=2)
    before = history_files_of(storage)
    assert delete_obsolete(storage, clock.now) == 0
    assert history_files_of(storage) == before


def test_a_broken_manifest_stops_the_deletion_of_history_files_only() -> None:
    clock = Clock()
    storage = DatedStorage(new(), clock)
    storage.create(f"{HISTORY_DIRECTORY}/{at(90)}_{at(80)}_0.parquet", b"left by a crash")
    for number in range(5):
        archive(storage, at(50 - number))
    storage.create(manifest_path(6), b"{")
    clock.now += timedelta(hours=2)
    assert delete_obsolete(storage, clock.now) == 3
    assert f"{at(90)}_{at(80)}_0.parquet" in history_files_of(storage)
