"""What we write into the archived history: rows, manifests, the version."""

from __future__ import annotations

import io
import json
import uuid
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bucketingest.hudi.errors import InvalidTable, TimelineError
from bucketingest.hudi.history.archived import archived_instants, is_settled
from bucketingest.hudi.history.manifest import (
    VERSION_PATH,
    ManifestEntry,
    load_manifest,
    manifest_path,
    read_manifest,
)
from bucketingest.hudi.history.writer import (
    HistoryRow,
    create_file,
    publish,
    publish_version,
    read_row,
    settle,
    write_history_file,
)
from bucketingest.hudi.naming import HISTORY_DIRECTORY
from bucketingest.hudi.timeline.instant import CLEAN, COMMIT, COMPACTION, DELTA_COMMIT, Instant, State
from bucketingest.hudi.timeline.timeline import Timeline, create_requested, path_of
from bucketingest.storage import ConditionalStorage, Data, Storage, Version, open_storage
from support.storage.passing_storage import PassingStorage
from support.tables.fixtures import unpack_fixture
from support.tables.services.old_timelines import at, done, finish, history_files_of

TIMES = [at(30), at(20), at(10)]


def unchecked() -> None:
    """A process that may go on."""


def row(time: str, metadata: bytes | None = b"m", plan: bytes | None = None, action: str = DELTA_COMMIT) -> HistoryRow:
    return HistoryRow(Instant(time, action, State.COMPLETED, done(time)), metadata, plan)


def archive(storage: Storage, *times: str) -> ManifestEntry:
    entry = write_history_file(storage, [row(time) for time in times])
    publish(storage, entry, (), unchecked)
    return entry


@pytest.fixture(params=["memory", "files"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """One that compares and swaps, and one that cannot."""
    return open_storage(f"memory://{uuid.uuid4()}" if request.param == "memory" else str(tmp_path))


def test_our_reader_finds_what_was_archived(storage: Storage) -> None:
    archive(storage, *TIMES[:2])
    archive(storage, TIMES[2])
    assert [(i.request_time, i.completion_time) for i in archived_instants(storage)] == [(t, done(t)) for t in TIMES]
    assert storage.get(VERSION_PATH) == b"2"
    assert is_settled(storage)
    assert history_files_of(storage) == {
        "_version_", "manifest_1", "manifest_2", f"{TIMES[0]}_{TIMES[1]}_0.parquet", f"{TIMES[2]}_{TIMES[2]}_0.parquet",
    }  # fmt: skip


def test_a_history_file_has_the_columns_and_the_codec_of_hudis(storage: Storage, tmp_path: Path) -> None:
    hudis = unpack_fixture("py_then_java_archived", tmp_path / "hudis") / HISTORY_DIRECTORY
    theirs = pq.ParquetFile(next(hudis.glob("*_0.parquet")))
    entry = archive(storage, *TIMES)
    data = storage.get(f"{HISTORY_DIRECTORY}/{entry.name}")
    ours = pq.ParquetFile(io.BytesIO(data))
    assert ours.schema_arrow.equals(theirs.schema_arrow)
    described = [
        [
            (c.name, c.physical_type, str(c.logical_type), c.max_definition_level)
            for c in map(file.schema.column, range(6))
        ]
        for file in (ours, theirs)
    ]
    assert described[0] == described[1]
    codecs = {file.metadata.row_group(0).column(3).compression for file in (ours, theirs)}
    assert codecs == {"GZIP"}
    assert entry.size == len(data)
    assert ours.read().column("version").to_pylist() == [1, 1, 1]


def test_a_manifest_goes_on_from_hudis(tmp_path: Path) -> None:
    storage = open_storage(str(unpack_fixture("py_then_java_archived", tmp_path)))
    theirs = read_manifest(storage, 3)
    entry = archive(storage, *TIMES)
    written = json.loads(storage.get(manifest_path(4)))
    assert written["files"][-1] == {"fileName": entry.name, "fileLen": entry.size}
    assert read_manifest(storage, 4) == (*theirs, entry)
    assert len(archived_instants(storage)) == 16
    assert not (tmp_path / "py_then_java_archived" / HISTORY_DIRECTORY / "._version_.crc").exists(), (
        "Hadoop would refuse the version file"
    )


def test_a_row_has_the_bytes_of_the_completed_file_and_of_the_plan(storage: Storage) -> None:
    for time, action, plan in ((TIMES[0], DELTA_COMMIT, None), (TIMES[1], COMMIT, b"plan"), (TIMES[2], CLEAN, b"plan")):
        finish(storage, time, action)
        found = Timeline.load(storage).find(time, action)
        assert found is not None
        pending = COMPACTION if action == COMMIT else action
        read = read_row(storage, found, Instant(time, pending, State.REQUESTED))
        assert read.metadata == storage.get(path_of(found))
        assert (read.plan is None) == (plan is None)
        assert (read.plan or b"").startswith(plan or b"")


def test_empty_files_are_null_as_in_hudis_rows(storage: Storage) -> None:
    requested = create_requested(storage, TIMES[0], "replacecommit")
    storage.create(f".hoodie/timeline/{TIMES[0]}_{done(TIMES[0])}.replacecommit", b"")
    found = Timeline.load(storage).find(TIMES[0], "replacecommit")
    assert found is not None
    assert read_row(storage, found, requested) == HistoryRow(found, None, None)


def test_a_file_that_a_crash_left_is_taken_if_it_is_equal(storage: Storage) -> None:
    first = write_history_file(storage, [row(time) for time in TIMES])
    assert write_history_file(storage, [row(time) for time in TIMES]) == first
    other = write_history_file(storage, [row(time, b"other") for time in TIMES])
    assert other.name == f"{TIMES[0]}_{int(TIMES[2]) + 1}_0.parquet"
    publish(storage, other, (), unchecked)
    assert len(archived_instants(storage)) == 3


def test_names_do_not_count_up_for_ever(storage: Storage) -> None:
    for number in range(8):
        create_file(storage, (TIMES[0], TIMES[0]), 0, f"{number}".encode())
    with pytest.raises(TimelineError, match=r"_0\.parquet"):
        create_file(storage, (TIMES[0], TIMES[0]), 0, b"9")


def test_an_unpublished_manifest_is_continued(storage: Storage) -> None:
    archive(storage, TIMES[0])
    archive(storage, TIMES[1])
    storage.put(VERSION_PATH, b"1")  # the archival died before it
    entry = archive(storage, TIMES[2])
    assert storage.get(VERSION_PATH) == b"3"
    assert len(archived_instants(storage)) == 3
    assert read_manifest(storage, 3)[-1] == entry


def test_an_unpublished_manifest_without_its_files_is_passed_over(storage: Storage) -> None:
    archive(storage, TIMES[0])
    for number, content in ((2, b'{"files": [{"fileName": "absent.parquet", "fileLen": 1}]}'), (3, b'{"fil')):
        storage.create(manifest_path(number), content)
        manifest = load_manifest(storage)
        assert (manifest.number, manifest.highest, len(manifest.entries)) == (1, number, 1)
        settle(storage, unchecked)
        assert storage.get(VERSION_PATH) == b"1"
    archive(storage, TIMES[1])
    assert storage.get(VERSION_PATH) == b"4"
    assert [instant.request_time for instant in archived_instants(storage)] == TIMES[:2]


def test_a_manifest_that_counts_but_is_damaged_is_reported(storage: Storage) -> None:
    archive(storage, TIMES[0])
    storage.put(manifest_path(1), b"{}")
    with pytest.raises(InvalidTable, match="manifest_1"):
        archive(storage, TIMES[1])


def test_what_was_left_unpublished_is_published(storage: Storage) -> None:
    archive(storage, TIMES[0])
    archive(storage, TIMES[1])
    storage.put(VERSION_PATH, b"1")
    settle(storage, unchecked)
    assert storage.get(VERSION_PATH) == b"2"
    storage.delete(VERSION_PATH)
    settle(storage, unchecked)
    assert storage.get(VERSION_PATH) == b"2"


def test_a_manifest_taken_by_another_is_followed_by_the_next_number(storage: Storage) -> None:
    archive(storage, TIMES[0])
    entry, rival = write_history_file(storage, [row(TIMES[1])]), write_history_file(storage, [row(TIMES[2])])
    calls: list[None] = []

    def rival_is_faster() -> None:
        calls.append(None)
        if len(calls) == 1:
            publish(storage, rival, (), unchecked)

    publish(storage, entry, (), rival_is_faster)
    assert storage.get(VERSION_PATH) == b"3"
    assert [instant.request_time for instant in archived_instants(storage)] == TIMES


def test_rivals_that_are_always_faster_end_it(storage: Storage) -> None:
    entry = write_history_file(storage, [row(TIMES[0])])

    def rival_is_faster() -> None:
        storage.create(manifest_path(load_manifest(storage).highest + 1), b'{"files": []}')

    with pytest.raises(TimelineError, match="lock"):
        publish(storage, entry, (), rival_is_faster)


def test_a_file_that_another_archiver_deleted_is_never_named() -> None:
    storage = open_storage(f"memory://{uuid.uuid4()}")
    with pytest.raises(TimelineError, match="lock"):
        publish(storage, ManifestEntry("1_2_0.parquet", 1), (), unchecked)
    assert history_files_of(storage) == set()


def test_the_version_never_goes_down_whoever_was_paused(storage: Storage) -> None:
    archive(storage, TIMES[0])
    archive(storage, TIMES[1])
    publish_version(storage, 1)
    assert storage.get(VERSION_PATH) == b"2"


def test_a_swap_that_lost_looks_again() -> None:
    memory = open_storage(f"memory://{uuid.uuid4()}")
    assert isinstance(memory, ConditionalStorage)
    inner: ConditionalStorage = memory

    rivals = [b"2", b"9"]

    class Rival(PassingStorage):
        """Another process writes the version between our look and our swap."""

        def get_versioned(self, path: str) -> tuple[bytes, Version]:
            read = inner.get_versioned(path)
            if rivals:
                inner.put(path, rivals.pop(0))
            return read

        def replace(self, path: str, data: Data, version: Version) -> Version:
            return inner.replace(path, data, version)

    inner.create(VERSION_PATH, b"1")
    publish_version(Rival(inner), 5)
    assert inner.get(VERSION_PATH) == b"9"
