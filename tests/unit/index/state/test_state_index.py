"""Whatever happens to the stored state, a partition that is covered again knows the same keys."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from bucketingest.hudi.naming import OWN_DIRECTORY
from bucketingest.index.errors import DuplicateKeys
from bucketingest.index.state.runs.local_runs import LocalRuns
from bucketingest.index.state.runs.look_up import UNKNOWN
from bucketingest.index.state.state_index import StateIndex
from bucketingest.index.state.store import STATE_DIRECTORY, StateStore, forget_state
from bucketingest.storage import open_storage
from bucketingest.storage.interface import Storage
from support.tables.partition_files import PartitionFiles, avro, deletes, parquet

SEED = bytes(range(32))


class Table:
    """A table of one partition, and processes that index it; each has a local disk of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.storage: Storage = open_storage(str(folder / "table"))
        self.files = PartitionFiles(folder / "table")

    def index(self, *, disk: str | None = None) -> StateIndex:
        store = StateStore.open(self.storage, new_seed=SEED)
        local = self.folder / (disk or str(uuid.uuid4()))
        return StateIndex.open(store, LocalRuns(local, store.table_id, bytes_max=10**9))

    def objects(self, directory: str) -> list[str]:
        return sorted(info.path for info in self.storage.list(f"{STATE_DIRECTORY}/{directory}"))


def known(index: StateIndex, *keys: str) -> list[str | None]:
    look_up = index.look_up("p")
    assert look_up is not None
    found = look_up.find(index.store.hasher.hash(pa.array(keys, pa.string())))
    return [None if number == UNKNOWN else look_up.groups[number] for number in found.tolist()]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = Table(tmp_path)
    table.files.base("f1", 1, ["a", "b"])
    table.files.log("f2", 2, avro("c"), deletes("z"))
    return table


def test_a_partition_is_loaded_once_and_then_pure(table: Table) -> None:
    index = table.index()
    assert index.look_up("p") is None
    assert index.cover("p", table.files.groups).entries == 3
    assert known(index, *"abcz") == ["f1", "f1", "f2", None]
    assert index.cover("p", table.files.groups).runs == ()
    index.publish("3", "3")
    again = table.index()
    assert again.manifest == index.manifest
    assert again.cover("p", table.files.groups).runs == ()
    assert known(again, *"abcz") == ["f1", "f1", "f2", None]


def test_a_partition_without_files_is_loaded_with_nothing(table: Table) -> None:
    index = table.index()
    index.cover("p", {})
    assert known(index, "a") == [None]


def test_new_files_are_loaded_and_no_others(table: Table) -> None:
    index = table.index()
    index.cover("p", table.files.groups, deleted_keys=True)
    table.files.log("f2", 4, parquet("d"))
    table.files.base("f3", 5, ["e"])
    assert index.cover("p", table.files.groups, deleted_keys=True).entries == 4
    assert known(index, *"abcdez") == ["f1", "f1", "f2", "f2", "f3", "f2"]
    assert len({index.manifest.partitions["p"].generation, index.manifest.next_generation - 1}) == 1


def test_a_new_file_with_a_known_key_is_refused_and_the_state_stays(table: Table) -> None:
    index = table.index()
    index.cover("p", table.files.groups)
    before = index.manifest
    table.files.base("f3", 5, ["a"])
    with pytest.raises(DuplicateKeys, match="'a' in f1 and f3"):
        index.cover("p", table.files.groups)
    assert index.manifest == before
    assert index.cover("p", table.files.groups, report_duplicates=True).duplicates == 1
    assert known(index, "a") == ["f3"]


def test_keys_vanish_with_their_group_and_with_an_old_base_file(table: Table) -> None:
    index = table.index()
    index.cover("p", table.files.groups)
    del table.files.slices["f2"]
    index.cover("p", table.files.groups)
    assert known(index, *"abc") == ["f1", "f1", None]
    table.files.base("f1", 7, ["b"])
    index.cover("p", table.files.groups)
    assert known(index, *"abc") == [None, "f1", None]
    index.publish("8", "8")
    assert known(table.index(), *"abc") == [None, "f1", None]


def test_keys_of_a_few_rewritten_or_gone_groups_vanish_and_the_others_are_not_read_again(table: Table) -> None:
    index = table.index()
    for number in range(6):
        table.files.base(f"g{number}", 10, [f"k{number}", f"m{number}"])
        index.cover("p", table.files.groups)
    generation = index.manifest.partitions["p"].generation
    table.files.base("g1", 20, ["k1", "n1"])
    del table.files.slices["g2"]
    table.files.base("h", 20, ["m2"])
    assert index.cover("p", table.files.groups).entries == 3
    assert index.manifest.partitions["p"].generation == generation
    assert index.manifest.partitions["p"].covered.keys() == table.files.slices.keys()
    keys = [*"abc", "k0", "k1", "m1", "n1", "k2", "m2", "k5"]
    expected = ["f1", "f1", "f2", "g0", "g1", None, "g1", None, "h", "g5"]
    assert known(index, *keys) == expected
    index.merge()
    assert known(index, *keys) == expected
    table.files.log("g5", 30, parquet("m1", "k2"))
    index.cover("p", table.files.groups)
    assert known(index, "m1", "k2") == ["g5", "g5"]
    index.publish("30", "")
    assert known(table.index(), *keys, "m1") == [*expected[:5], "g5", "g1", "g5", "h", "g5", "g5"]


def test_a_removed_key_stays_removed_when_only_newer_runs_are_merged(table: Table) -> None:
    index = table.index()
    table.files.base("g1", 10, ["gone"])
    table.files.base("g2", 10, [f"k{number}" for number in range(100)])
    index.cover("p", table.files.groups)
    del table.files.slices["g1"]
    index.cover("p", table.files.groups)
    table.files.base("g3", 10, ["x"])
    index.cover("p", table.files.groups)
    assert len(index.manifest.runs) == 3
    assert index.merge() == 2
    assert known(index, "gone", "x", "k7") == [None, "g3", "g2"]


def test_a_key_that_a_newer_group_has_stays_when_its_older_group_goes(table: Table) -> None:
    index = table.index()
    for number in range(4):
        table.files.base(f"g{number}", 10, [f"k{number}"])
    index.cover("p", table.files.groups)
    table.files.base("new", 12, ["a"])
    index.cover("p", table.files.groups, report_duplicates=True)
    table.files.base("f1", 14, ["b"])
    assert index.cover("p", table.files.groups).duplicates == 0
    assert known(index, *"ab") == ["new", "f1"]


def test_runs_are_merged_when_there_are_many_and_older_manifests_keep_theirs(table: Table) -> None:
    index = table.index()
    for number in range(6):
        table.files.base(f"g{number}", 10 + number, [f"k{number}"])
        index.cover("p", table.files.groups)
        index.publish(str(10 + number), "")
    keys = ["a", *(f"k{number}" for number in range(6))]
    expected = ["f1", *(f"g{number}" for number in range(6))]
    before = known(index, *keys)
    old = table.index()
    assert index.merge() == 6
    assert (before, known(index, *keys), len(index.manifest.runs)) == (expected, expected, 1)
    assert index.merge() == 0
    index.publish("20", "")
    assert known(table.index(), *keys) == known(old, *keys) == expected


def flip(storage: Storage, path: str, chance: random.Random) -> None:
    data = bytearray(storage.get(path))
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    storage.put(path, bytes(data))


FAULTS: dict[str, Callable[[Storage, str, random.Random], None]] = {
    "deleted": lambda storage, path, _: storage.delete(path),
    "flipped": flip,
    "cut short": lambda storage, path, chance: storage.put(path, storage.get(path)[: chance.randrange(50)]),
    "another's": lambda storage, path, _: storage.put(path, storage.get(path).replace(b"bkstate", b"another")),
}


@pytest.mark.parametrize("directory", ["manifest", "run"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("seed", range(4))
def test_a_state_with_a_fault_knows_the_same_keys_after_it_is_covered(
    table: Table, directory: str, fault: str, seed: int
) -> None:
    chance = random.Random(seed)
    index = table.index()
    for number in range(3):
        table.files.log(f"g{number % 2}", 10 + number, parquet(f"k{number}"))
        index.cover("p", table.files.groups)
        index.publish(str(10 + number), "")
    if chance.random() < 0.5:
        table.files.base("f1", 20, ["b"])
    FAULTS[fault](table.storage, chance.choice(table.objects(directory)), chance)
    if chance.random() < 0.3:
        forget_state(table.storage)
    fresh = Table(table.folder)
    again = fresh.index()
    again.cover("p", table.files.groups)
    gone = table.files.slices["f1"].base_instant.endswith("20")
    assert known(again, *"abc", "k0", "k1", "k2", "x") == [None if gone else "f1", "f1", "f2", "g0", "g1", "g0", None]
    again.publish("30", "")
    assert known(table.index(), *"bc", "k2") == ["f1", "f2", "g0"]


def test_a_run_on_local_disk_with_a_flipped_bit_is_fetched_again(table: Table) -> None:
    index = table.index(disk="disk")
    index.cover("p", table.files.groups)
    index.publish("3", "3")
    (digest,) = index.manifest.runs
    flip(open_storage(str(table.folder)), f"disk/{digest}", random.Random(1))
    again = table.index(disk="disk")
    assert again.manifest.runs == (digest,)
    assert known(again, *"abc") == ["f1", "f1", "f2"]


def test_generations_of_a_forgotten_state_are_not_used_again(table: Table) -> None:
    index = table.index()
    index.cover("p", table.files.groups)
    index.publish("3", "3")
    (run,) = table.objects("run")
    kept = table.storage.get(run)
    table.storage.delete(run)
    again = table.index()
    assert again.look_up("p") is None
    again.cover("p", {})
    table.storage.create(run, kept)
    assert known(again, *"abc") == [None, None, None]
    assert again.manifest.partitions["p"].generation > index.manifest.partitions["p"].generation
    assert not any(path.startswith(f"{OWN_DIRECTORY}/state/manifest/4") for path in table.objects("manifest"))
