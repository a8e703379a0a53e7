from __future__ import annotations

import hashlib
import struct
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bucketingest.index.errors import StateDamaged, StateError, StateForeign, StateTooNew
from bucketingest.index.state import store as state_store
from bucketingest.index.state.coverage import CoveredSlice, PartitionState
from bucketingest.index.state.envelope import sealed, unsealed
from bucketingest.index.state.manifest import Manifest
from bucketingest.index.state.runs.run_file import Run, RunWriter
from bucketingest.index.state.store import STATE_DIRECTORY, StateStore, forget_state
from bucketingest.storage import NotFound, open_storage
from bucketingest.storage.interface import Storage
from support.storage.dated_storage import DatedStorage
from support.tables.state.runs import entries

FORMAT = f"{STATE_DIRECTORY}/format"
MANIFEST = (
    Manifest(("aa", "bb"), view="20260101000000000", next_generation=3)
    .with_partition("p/é", PartitionState(3, {"f": CoveredSlice("1", 2, 2**64 - 1), "g": CoveredSlice("", 1, 0)}))
    .with_partition("q", PartitionState(4))
)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def storage() -> Storage:
    return open_storage(f"memory://{uuid.uuid4()}/table")


def put_run(store: StateStore, folder: Path, number: int) -> str:
    with RunWriter(folder, store.table_id) as writer:
        writer.start_slice("p", 0, ["f"])
        writer.add(entries((number, 0, 0)))
        digest, file = writer.finish()
    store.put_run(digest, file)
    return digest


def run_path(digest: str) -> str:
    return f"{STATE_DIRECTORY}/run/{digest}"


def test_a_table_gets_a_seed_once_and_every_process_uses_it(storage: Storage) -> None:
    first, second = StateStore.open(storage), StateStore.open(storage, new_seed=bytes(32))
    assert first.hasher.seed == second.hasher.seed
    assert first.table_id == second.table_id
    other = StateStore.open(open_storage(f"memory://{uuid.uuid4()}/table"))
    assert other.hasher.seed != first.hasher.seed
    assert other.table_id != first.table_id


def test_of_two_processes_that_begin_a_state_one_decides_its_seed(storage: Storage) -> None:
    class Slow(DatedStorage):
        """Another process begins the state after this one has looked."""

        def get(self, path: str) -> bytes:
            try:
                return super().get(path)
            except NotFound:
                StateStore.open(storage, new_seed=b"o" * 32)
                raise

    assert StateStore.open(Slow(storage, lambda: NOON)).hasher.seed == b"o" * 32


def test_a_manifest_comes_back_as_it_was(storage: Storage) -> None:
    store = StateStore.open(storage)
    assert store.newest_manifest() == Manifest()
    store.put_manifest("20260101000000000", Manifest())
    store.put_manifest("20260102000000000", MANIFEST)
    assert store.newest_manifest() == MANIFEST
    assert MANIFEST.generations == {"p/é": 3, "q": 4}
    assert MANIFEST.without("q").generations == {"p/é": 3}


def test_no_generation_is_used_twice() -> None:
    forgotten = MANIFEST.without("q")
    assert forgotten.next_generation == 5
    assert MANIFEST.with_partition("p/é", PartitionState(3)).next_generation == 5


def test_the_first_manifest_of_an_instant_stays(storage: Storage) -> None:
    store = StateStore.open(storage)
    store.put_manifest("1", MANIFEST)
    store.put_manifest("1", Manifest())
    assert store.newest_manifest() == MANIFEST


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data[:80] + bytes([data[80] ^ 4]) + data[81:],
        lambda data: b"x" * len(data),
    ],
    ids=["empty", "cut short", "a flipped bit", "other bytes"],
)
def test_a_damaged_manifest_is_left_out_with_a_warning(
    storage: Storage, spoil: object, caplog: pytest.LogCaptureFixture
) -> None:
    store = StateStore.open(storage)
    store.put_manifest("1", MANIFEST)
    store.put_manifest("2", Manifest())
    path = f"{STATE_DIRECTORY}/manifest/2"
    storage.put(path, spoil(storage.get(path)))  # type: ignore[operator]
    assert store.newest_manifest() == MANIFEST
    assert caplog.records[0].getMessage() == "state manifest left out"
    assert store.sweep(datetime.now(UTC) + timedelta(days=1)) == []


def test_a_manifest_of_another_table_is_left_out(storage: Storage) -> None:
    store = StateStore.open(storage)
    storage.put(f"{STATE_DIRECTORY}/manifest/1", sealed("manifest", MANIFEST.as_json(), bytes(16)))
    assert store.newest_manifest() == Manifest()
    with pytest.raises(StateForeign, match=r"manifest/1: it belongs to table 0+, not to table"):
        unsealed("manifest", storage.get(f"{STATE_DIRECTORY}/manifest/1"), store.table_id, source="manifest/1")


@pytest.mark.parametrize("content", [[], {}, {"runs": 1, "partitions": {"p": 3}}, {"partitions": []}])
def test_an_object_with_other_content_is_no_manifest(storage: Storage, content: object) -> None:
    store = StateStore.open(storage)
    storage.put(f"{STATE_DIRECTORY}/manifest/1", sealed("manifest", content, store.table_id))
    assert store.newest_manifest() == Manifest()


def test_what_is_wrong_with_a_format_is_told(storage: Storage) -> None:
    StateStore.open(storage)
    data = storage.get(FORMAT)
    newer = data[:8] + struct.pack("<I", 3) + data[12:-32]
    wrong: list[tuple[bytes, type[StateError], str]] = [
        (data[:-1], StateDamaged, "SHA-256"),
        (b"", StateDamaged, "less than any format"),
        (newer + hashlib.sha256(newer).digest(), StateTooNew, "version 3"),
        (sealed("manifest", {}, bytes(16)), StateDamaged, "is a manifest, not a format"),
        (sealed("format", {"seed": "", "identity": "name"}, bytes(16)), StateDamaged, "identified by 'name'"),
        (sealed("format", {"seed": "00", "identity": "partition+key"}, bytes(16)), StateDamaged, "a seed has 32 bytes"),
    ]
    for spoiled, kind, message in wrong:
        storage.put(FORMAT, spoiled)
        with pytest.raises(kind, match=message):
            StateStore.open(storage)
    forget_state(storage)
    assert list(storage.list(STATE_DIRECTORY)) == []
    StateStore.open(storage)


@pytest.mark.parametrize("part", [7, 32, 1 << 20])
def test_a_run_is_stored_once_and_comes_back_byte_by_byte(
    storage: Storage, tmp_path: Path, part: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(state_store, "_DOWNLOAD_BYTES", part)
    store = StateStore.open(storage)
    digest = put_run(store, tmp_path, 1)
    assert put_run(store, tmp_path, 1) == digest
    assert not caplog.records
    store.get_run(digest, tmp_path / "copy")
    assert len(Run.open(tmp_path / "copy", store.table_id, digest=digest)) == 1
    with pytest.raises(NotFound):
        store.get_run("00", tmp_path / "none")


@pytest.mark.parametrize("size", [None, 40, 31, 0])
def test_a_damaged_run_is_replaced_when_it_is_stored_again(storage: Storage, tmp_path: Path, size: int | None) -> None:
    store = StateStore.open(storage)
    digest = put_run(store, tmp_path, 1)
    whole = storage.get(run_path(digest))
    storage.put(run_path(digest), whole[:-40] + b"x" + whole[-39:] if size is None else whole[:size])
    put_run(store, tmp_path, 1)
    assert storage.get(run_path(digest)) == whole


def test_a_sweep_deletes_what_no_manifest_and_no_plan_names_after_an_hour(storage: Storage, tmp_path: Path) -> None:
    now = [NOON]
    store = StateStore.open(DatedStorage(storage, lambda: now[0]))
    old, planned, newer, newest = (put_run(store, tmp_path, number) for number in range(4))
    for instant, runs in (("1", [old]), ("2", [newer]), ("3", [newest, newer])):
        store.put_manifest(instant, Manifest(tuple(runs)))
    now[0] += timedelta(hours=1)
    late = put_run(store, tmp_path, 9)
    assert store.sweep(now[0]) == [f"{STATE_DIRECTORY}/manifest/1"]
    now[0] += timedelta(seconds=1)
    assert store.sweep(now[0], keep_runs=[planned]) == [run_path(old)]
    left = {info.path for info in storage.list(f"{STATE_DIRECTORY}/run")}
    assert left == {run_path(digest) for digest in (planned, newer, newest, late)}
