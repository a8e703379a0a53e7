"""The file ids of keys depend on the plan, the state and the key, and on nothing else."""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.hudi.naming import BaseFileName, LogFileName
from bucketingest.hudi.table.table import InsertMode
from bucketingest.index.assignment.file_id_assigner import FileIdAssigner
from bucketingest.index.assignment.open_groups import InsertRules, OpenGroup, PartitionProfile, WriteProfile
from bucketingest.index.assignment.plan import AssignmentPlan, digest_of, new_file_id
from bucketingest.index.errors import PartitionsNotLoaded, StateDamaged, StateForeign
from bucketingest.index.state.envelope import sealed
from bucketingest.index.state.runs.look_up import PartitionLookUp
from bucketingest.index.state.runs.run_file import Run
from support.tables.state.runs import HASHER, TABLE_ID, make_run

KNOWN = {"p": {"f1": ["a", "b"], "f2": ["c"]}, "q": {"f1": ["a"]}}
Rows = list[tuple[str, str]]
"""Partition path and record key."""


def plan_of(
    partitions: Mapping[str, PartitionProfile], *, mode: InsertMode = "log", tasks: int = 8, insert_bytes: int = 4000
) -> AssignmentPlan:
    return AssignmentPlan.of(
        WriteProfile(partitions, insert_bytes),
        InsertRules(mode, 1000, tasks),
        table="t",
        instant="20260101000000000",
        sequence=1,
        seed=HASHER.seed,
        runs=("aa",),
        generations={"p": 0, "q": 0},
    )


PLAN = plan_of({"p": PartitionProfile(3, {"f1": 100, "f2": 800, "f3": 900}), "q": PartitionProfile(1)})


def assigner(plan: AssignmentPlan, runs: list[Run]) -> FileIdAssigner:
    def look_up(path: str) -> PartitionLookUp | None:
        slices = [run.slices[path] for run in runs if path in run.slices]
        return PartitionLookUp.of(slices) if slices else None

    return FileIdAssigner(plan, look_up)


def assign(
    plan: AssignmentPlan, runs: list[Run], rows: Rows, *, dictionary: bool = False
) -> list[tuple[str, str, bool]]:
    paths = pa.array([path for path, _ in rows], pa.string())
    found = assigner(plan, runs).assign(
        paths.dictionary_encode() if dictionary else paths, pa.array([key for _, key in rows], pa.string())
    )
    assert len(set(found.groups)) == len(found.groups)
    assert set(found.numbers.tolist()) == set(range(len(found.groups)))
    return [(*found.groups[number], bool(new)) for number, new in zip(found.numbers, found.inserts, strict=True)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    return [make_run(tmp_path_factory.mktemp("runs"), KNOWN)]


def test_known_keys_go_to_their_group_and_new_ones_to_an_open_one(runs: list[Run]) -> None:
    rows = [("p", "a"), ("p", "x"), ("q", "a"), ("p", "c"), ("q", "b"), ("r", "a"), ("p", "x")]
    found = assign(PLAN, runs, rows)
    assert [found[row] for row in (0, 2, 3)] == [("p", "f1", False), ("q", "f1", False), ("p", "f2", False)]
    assert found[1] == found[6]
    for row in (1, 4, 5):
        path, file_id, new = found[row]
        assert new
        assert path == rows[row][0]
        assert file_id in {each.file_id for each in PLAN.open_in(path)}
    assert "f3" not in {file_id for _, file_id, _ in assign(PLAN, runs, [("p", f"k{n}") for n in range(1000)])}


def test_updates_and_inserts_of_one_group_have_one_number(runs: list[Run]) -> None:
    rows = [("p", "c"), *(("p", f"new-{number}") for number in range(200))]
    found = assign(PLAN, runs, rows)
    assert ("p", "f2", True) in found
    assert found[0] == ("p", "f2", False)


def test_new_keys_are_spread_as_the_ranges_say(runs: list[Run]) -> None:
    plan = plan_of({"p": PartitionProfile(1, {"a": 750, "b": 500})}, tasks=2, insert_bytes=130)
    found = assign(plan, runs, [("p", f"n{number}") for number in range(9000)])
    counts = {file_id: sum(each[1] == file_id for each in found) for file_id in ("a", "b")}
    assert counts["a"] + counts["b"] == 9000
    assert counts["a"] == pytest.approx(3000, abs=250)


def test_a_hash_where_a_range_begins_belongs_to_it(runs: list[Run]) -> None:
    edge = int(HASHER.hash(pa.array(["x"])).hashes[0])
    plan = replace(PLAN, open={"p": (OpenGroup("below", 0), OpenGroup("from", edge))})
    assert assign(plan, runs, [("p", "x")]) == [("p", "from", True)]


def test_no_rows_have_no_groups(runs: list[Run]) -> None:
    assert assign(PLAN, runs, []) == []


rows_of_a_batch = st.lists(
    st.tuples(
        st.sampled_from(["p", "q", "r", "é/x"]), st.sampled_from("abcdefgh") | st.text(st.characters(codec="utf-8"))
    ),
    max_size=60,
)


@given(rows_of_a_batch, st.randoms(use_true_random=False), st.integers(1, 7), st.booleans())
def test_any_split_over_tasks_in_any_order_gives_the_same_file_ids(
    runs: list[Run], rows: Rows, chance: random.Random, tasks: int, dictionary: bool
) -> None:
    whole = dict(zip(rows, assign(PLAN, runs, rows), strict=True))
    parts: list[Rows] = [[] for _ in range(tasks)]
    for row in rows:
        chance.choice(parts).append(row)
    for part in parts:
        chance.shuffle(part)
        found = assign(PLAN, runs, part, dictionary=dictionary)
        assert found == [whole[row] for row in part]


partitions_of_a_table = st.dictionaries(
    st.text(max_size=3),
    st.builds(
        PartitionProfile,
        st.integers(0, 1000),
        st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.integers(0, 1200), max_size=8),
    ),
    max_size=8,
)


@given(partitions_of_a_table, st.randoms(use_true_random=False), st.sampled_from(["base", "log"]), st.integers(0, 9000))
def test_any_listing_order_gives_the_same_plan_and_the_stored_plan_is_the_same(
    partitions: dict[str, PartitionProfile], chance: random.Random, mode: InsertMode, insert_bytes: int
) -> None:
    def listed(items: dict[str, PartitionProfile]) -> dict[str, PartitionProfile]:
        shuffled = [
            (
                path,
                PartitionProfile(each.recent_rows, dict(chance.sample(sorted(each.groups.items()), len(each.groups)))),
            )
            for path, each in items.items()
        ]
        chance.shuffle(shuffled)
        return dict(shuffled)

    first = plan_of(partitions, mode=mode, insert_bytes=insert_bytes)
    second = plan_of(listed(partitions), mode=mode, insert_bytes=insert_bytes)
    data = first.encode(TABLE_ID)
    assert second.encode(TABLE_ID) == data
    read = AssignmentPlan.decode(data, TABLE_ID, source="plan")
    assert read == first
    for path in [*partitions, "elsewhere"]:
        assert read.open_in(path) == second.open_in(path)
        firsts = [each.first for each in read.open_in(path)]
        assert firsts[0] == 0
        assert firsts == sorted(firsts)


def test_a_state_that_was_lost_and_loaded_otherwise_gives_the_same_file_ids(runs: list[Run], tmp_path: Path) -> None:
    again = [
        make_run(tmp_path, {"p": {"f2": ["c"]}}),
        make_run(tmp_path, {"q": {"f1": ["a"]}, "p": {"f0": [], "f1": ["b", "a"]}}),
    ]
    rows = [(path, key) for path in ("p", "q", "r") for key in "abcdefghijk"]
    assert assign(PLAN, again, rows) == assign(PLAN, runs, rows)


def test_new_file_ids_differ_in_everything_and_have_hudis_form() -> None:
    several = {
        new_file_id(table, instant, sequence, path, number)
        for table in ("t", "t1")
        for instant in ("1", "11")
        for sequence in (1, 11)
        for path in ("", "1", "11", "p/é")
        for number in (0, 1, 11)
    }
    assert len(several) == 96
    for file_id in several:
        assert str(uuid.UUID(file_id[:36])) == file_id[:36]
        assert BaseFileName.parse(str(BaseFileName(file_id, "20260101000000000"))).file_id == file_id
        assert LogFileName.parse(str(LogFileName(file_id, "20260101000000000", 1))).file_id == file_id


def test_rows_of_a_partition_that_is_not_loaded_have_no_place() -> None:
    plan = replace(PLAN, unloaded=frozenset({"b", "c"}))
    assigner = FileIdAssigner(plan, lambda _: None)
    with pytest.raises(PartitionsNotLoaded, match=r'\["b"\]'):
        assigner.assign(pa.array(["a", "b"]), pa.array(["k", "k"]))
    assert assigner.assign(pa.array(["a"]), pa.array(["k"])).inserts.all()


def test_an_older_release_does_not_repeat_a_plan_with_such_partitions() -> None:
    plan = replace(PLAN, unloaded=frozenset({"b", "c"}))
    assert AssignmentPlan.decode(plan.encode(TABLE_ID), TABLE_ID, source="plan-1") == plan
    versions = [int.from_bytes(each.encode(TABLE_ID)[8:12], "little") for each in (PLAN, plan)]
    assert versions == [1, 2]


def test_a_damaged_plan_or_another_tables_is_told() -> None:
    data = PLAN.encode(TABLE_ID)
    assert digest_of(data) != digest_of(data[:-1])
    with pytest.raises(StateDamaged, match="plan-1: its content"):
        AssignmentPlan.decode(data[:70] + bytes([data[70] ^ 1]) + data[71:], TABLE_ID, source="plan-1")
    with pytest.raises(StateForeign):
        AssignmentPlan.decode(data, bytes(16), source="plan-1")
    with pytest.raises(StateDamaged, match="not an assignment plan"):
        AssignmentPlan.decode(sealed("plan", {"open": []}, TABLE_ID), TABLE_ID, source="plan-1")
