"""Keys come from all files of a partition's groups, in bounded memory, and duplicates are named."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bucketingest.hudi.errors import CorruptLog, InvalidTable
from bucketingest.hudi.table.file_view import load_file_view
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.index.errors import DuplicateKeys, HashCollision
from bucketingest.index.state import hashing
from bucketingest.index.state.hashing import KeyHasher, KeyHashes
from bucketingest.index.state.loading import Loaded, Loader
from bucketingest.index.state.runs.look_up import UNKNOWN, PartitionLookUp
from bucketingest.index.state.runs.run_file import Run
from bucketingest.storage import open_storage
from support.tables.fixtures import unpack_fixture
from support.tables.partition_files import PartitionFiles, avro, deletes, parquet
from support.tables.state.runs import HASHER, TABLE_ID, hashed


class Partition(PartitionFiles):
    """Files, and runs made of them."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        (root / "runs").mkdir()

    def load(self, *, hasher: KeyHasher = HASHER, piece: int = 1 << 21, **options: Any) -> Loaded:
        loader = Loader(open_storage(str(self.root)), hasher, TABLE_ID, self.root / "runs", piece)
        loaded = loader.load("p", 4, self.slices, **options)
        assert {path.name for path in (self.root / "runs").iterdir()} >= {digest for digest, _ in loaded.runs}
        return loaded


def look_up_in(loaded: Loaded) -> PartitionLookUp:
    runs = [Run.open(file, TABLE_ID, digest=digest) for digest, file in loaded.runs]
    assert {run.slices["p"].generation for run in runs} <= {4}
    return PartitionLookUp.of([run.slices["p"] for run in runs])


def groups(loaded: Loaded, *keys: str) -> list[str | None]:
    look_up = look_up_in(loaded)
    return [None if found == UNKNOWN else look_up.groups[found] for found in look_up.find(hashed(keys)).tolist()]


@pytest.fixture
def partition(tmp_path: Path) -> Partition:
    return Partition(tmp_path / "table")


@pytest.mark.parametrize("piece", [1, 2, 1000])
def test_keys_come_from_base_files_and_both_kinds_of_log_blocks(partition: Partition, piece: int) -> None:
    partition.base("f1", 1, ["a", "é", "c", "d"])
    partition.log("f1", 2, parquet("a", "e"), avro("f"))
    partition.log("f2", 3, avro("g", "x" * 5000), deletes("g", "z"))
    loaded = partition.load(piece=piece)
    assert groups(loaded, *"aécdefgz", "x" * 5000, "y") == [*["f1"] * 6, "f2", None, "f2", None]
    assert (loaded.entries, loaded.duplicates) == (8, 0)
    one = {digest for digest, _ in loaded.runs}
    assert one == {digest for digest, _ in partition.load(piece=1000).runs}


def test_only_the_file_groups_that_are_wanted_are_loaded(partition: Partition) -> None:
    partition.base("f1", 1, ["a"])
    partition.base("f2", 1, ["b"])
    assert groups(partition.load(file_ids=["f2"]), "a", "b") == [None, "f2"]
    assert partition.load(file_ids=[]).runs == ()


def test_a_partition_without_rows_has_no_run(partition: Partition) -> None:
    partition.base("f1", 1, [])
    assert partition.load() == Loaded((), 0, 0, ())


def test_keys_in_delete_blocks_belong_to_their_group_if_asked_and_never_count_as_duplicates(
    partition: Partition,
) -> None:
    partition.base("f1", 1, ["a", "b"])
    partition.log("f2", 2, deletes("a", "c"))
    partition.log("f3", 3, deletes("c"))
    assert groups(partition.load(), "a", "b", "c") == ["f1", "f1", None]
    assert groups(partition.load(deleted_keys=True), "a", "b", "c") == ["f1", "f1", "f3"]


def test_a_deleted_key_stays_in_the_known_file_group_that_has_its_row(partition: Partition) -> None:
    partition.base("f1", 1, ["a"])
    known = look_up_in(partition.load())
    partition.log("f2", 2, deletes("a", "c"))
    assert groups(partition.load(file_ids=["f2"], known=known, deleted_keys=True), "a", "c") == [None, "f2"]


def test_only_given_files_of_a_file_group_are_read(partition: Partition) -> None:
    partition.base("f1", 1, ["a"])
    partition.log("f1", 2, parquet("b"), deletes("c"))
    part = {"f1": replace(partition.slices["f1"], base_file=None)}
    loaded = partition.load(file_ids=["f1"], parts=part, deleted_keys=True)
    assert groups(loaded, "a", "b", "c") == [None, "f1", "f1"]


@pytest.mark.parametrize("piece", [1, 1000])
def test_keys_in_two_file_groups_are_named_and_refused(partition: Partition, piece: int) -> None:
    partition.base("old", 1, ["a", "b", "c"])
    partition.log("new", 2, parquet("b", "c", "d"))
    with pytest.raises(DuplicateKeys, match="'p' has 2 record keys in two file groups each") as raised:
        partition.load(piece=piece)
    assert sorted(raised.value.sample) == [("b", "old", "new"), ("c", "old", "new")]
    loaded = partition.load(piece=piece, report_duplicates=True)
    assert groups(loaded, *"abcd") == ["old", "new", "new", "new"]
    assert (loaded.duplicates, sorted(loaded.sample)) == (2, [("b", "old", "new"), ("c", "old", "new")])


def test_of_many_duplicates_ten_are_named(partition: Partition) -> None:
    keys = [f"key-{number}" for number in range(1500)]
    partition.base("old", 1, keys)
    partition.base("new", 2, keys)
    with pytest.raises(DuplicateKeys) as raised:
        partition.load(piece=100)
    assert (raised.value.count, len(raised.value.sample)) == (1500, 10)


def test_keys_that_are_known_in_another_group_are_duplicates(partition: Partition) -> None:
    partition.base("f1", 1, ["a", "b"])
    known = look_up_in(partition.load())
    partition.log("f1", 2, parquet("a", "c"))
    partition.log("f2", 3, parquet("b", "e"))
    assert partition.load(file_ids=["f1"], known=known).duplicates == 0
    with pytest.raises(DuplicateKeys) as raised:
        partition.load(file_ids=["f2"], known=known)
    assert raised.value.sample == (("b", "f1", "f2"),)
    del partition.slices["f1"]
    assert partition.load(file_ids=["f2"], known=known).duplicates == 0


def test_two_keys_with_one_hash_in_two_groups_are_told(partition: Partition, monkeypatch: pytest.MonkeyPatch) -> None:
    def constant(_: KeyHasher, keys: pa.Array) -> KeyHashes:
        return KeyHashes(np.full(len(keys), 7, np.uint64), np.full(len(keys), 7, np.uint32))

    monkeypatch.setattr(hashing.KeyHasher, "hash", constant)
    partition.base("f1", 1, ["a"])
    partition.base("f2", 1, ["b"])
    with pytest.raises(HashCollision, match="keys 'a' in f1 and 'b' in f2 have the same hash"):
        partition.load()


def test_a_file_that_is_no_base_file_or_no_log_or_has_rows_without_key_is_named(partition: Partition) -> None:
    partition.base("f1", 1, ["a", None])
    with pytest.raises(InvalidTable, match=r"f1_0-0-0_00000000000000001\.parquet: a row has no record key"):
        partition.load()
    (partition.root / partition.slices["f1"].base_file.path).write_bytes(b"PAR1")  # type: ignore[union-attr]
    with pytest.raises(InvalidTable, match="cannot be read as Parquet"):
        partition.load()
    pq.write_table(pa.table({"id": ["a"]}), partition.root / partition.slices["f1"].base_file.path)  # type: ignore[union-attr]
    with pytest.raises(InvalidTable, match="no column _hoodie_record_key"):
        partition.load()
    del partition.slices["f1"]
    partition.log("f2", 1, parquet("a", None))
    with pytest.raises(CorruptLog, match="a row has no record key"):
        partition.load()
    assert list((partition.root / "runs").iterdir()) == []


@pytest.mark.parametrize("seed", range(5))
def test_random_partitions_are_loaded_as_a_dictionary_says(partition: Partition, seed: int) -> None:
    chance = random.Random(seed)
    names = [f"key-{number}" for number in range(400)]
    chance.shuffle(names)
    expected: dict[str, str] = {}
    for number in range(12):
        own = [names.pop() for _ in range(chance.randrange(30))]
        file_id = f"f{number}"
        expected |= dict.fromkeys(own, file_id)
        cut = chance.randrange(len(own) + 1)
        if chance.random() < 0.7:
            partition.base(file_id, chance.randrange(9), own[:cut])
        for instant in range(10, 10 + chance.randrange(1, 3)):
            block = parquet if chance.random() < 0.5 else avro
            partition.log(file_id, instant, block(*own), block(*own[cut:]))
    loaded = partition.load(piece=chance.randrange(1, 60))
    assert groups(loaded, *expected, *names) == [*expected.values(), *[None] * len(names)]
    assert loaded.entries == len(expected)


@pytest.mark.parametrize("name", ["java_v9_avro", "java_v9_parquet", "java_v8_avro"])
def test_keys_of_a_table_that_hudi_wrote_are_in_the_groups_that_have_them(tmp_path: Path, name: str) -> None:
    storage = open_storage(str(unpack_fixture(name, tmp_path)))
    view = load_file_view(storage, Timeline.load(storage))
    loader = Loader(storage, HASHER, TABLE_ID, tmp_path)
    found = 0
    for path, partition_groups in view.partitions.items():
        slices = {file_id: each.latest for file_id, each in partition_groups.items() if each.latest}
        loaded = loader.load(path, 4, slices)
        for file_id, each in slices.items():
            assert each.base_file is not None
            keys = pq.read_table(storage.absolute(each.base_file.path), partitioning=None)["_hoodie_record_key"]
            runs = [Run.open(file, TABLE_ID, digest=digest) for digest, file in loaded.runs]
            look_up = PartitionLookUp.of([run.slices[path] for run in runs])
            assert {look_up.groups[number] for number in look_up.find(hashed(keys.to_pylist()))} == {file_id}
            found += len(keys)
    assert found == 12
