"""Rows are placed alike by every task of a plan, and its open file groups are spread over the write tasks."""

from __future__ import annotations

import pathlib
import tempfile
import uuid
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from bucketingest.hudi.table.table import InsertMode, TableDefinition
from bucketingest.index.assignment.open_groups import InsertRules, WriteProfile
from bucketingest.index.assignment.plan import AssignmentPlan
from bucketingest.index.assignment.planned_file_ids import PlannedFileIds
from bucketingest.index.errors import StateDamaged
from bucketingest.index.placing import INSERTS, UPDATES, Place, StatePlacing
from bucketingest.index.row_rules import row_rules
from bucketingest.index.state.store import StateStore
from bucketingest.index.task_routing import PartitionNumbers
from bucketingest.storage import NotFound, Storage, open_storage
from support.tables.state.runs import HASHER, TABLE_ID, make_run

KNOWN = "11111111-2222-4333-8444-555555555555-0"
RULES = row_rules(TableDefinition("t", ("id",), ("region",)))
TASKS = 4


@pytest.fixture
def storage() -> Storage:
    return open_storage(f"memory://{uuid.uuid4()}")


@pytest.fixture(autouse=True)
def disk(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def planned(storage: Storage, disk: pathlib.Path, *, mode: InsertMode = "base", **changes: Any) -> PlannedFileIds:
    """A plan that knows the keys a and b of partition eu."""
    run = make_run(disk, {"eu": {KNOWN: ["a", "b"]}})
    StateStore(storage, HASHER, TABLE_ID).put_run(run.digest, disk / run.digest)
    standard: dict[str, Any] = {"instant": "1", "sequence": 1, "runs": (run.digest,), "generations": {"eu": 0}}
    plan = AssignmentPlan.of(
        WriteProfile({}, 0), InsertRules(mode, 1 << 20, TASKS), table="t", seed=HASHER.seed, **(standard | changes)
    )
    return PlannedFileIds(plan, TABLE_ID)


def places(storage: Storage, ids: PlannedFileIds, keys: Sequence[str | None], region: str = "eu") -> list[Place]:
    rows = pa.record_batch({"id": pa.array(keys, pa.string()), "region": [region] * len(keys)})
    placing = StatePlacing(ids.assigner(storage), PartitionNumbers.of(["eu"]), TASKS)
    kept = pa.array([number for number, key in enumerate(keys) if key is not None]).to_numpy()
    columns, partitions = RULES.record_key.columns(rows), RULES.partition_path.paths(rows)
    placed = placing.place(columns, partitions, None if len(kept) == len(keys) else kept)
    assert len(placed.groups) == len(kept)
    return placed.places(pa.array(range(len(kept))).to_numpy())


def test_known_keys_are_updates_of_their_file_group_and_others_inserts(storage: Storage, disk: pathlib.Path) -> None:
    found = places(storage, planned(storage, disk), ["a", "x", "b"])
    assert [(each.file_id == KNOWN, each.bucket) for each in found] == [
        (True, UPDATES),
        (False, INSERTS),
        (True, UPDATES),
    ]
    (elsewhere,) = places(storage, planned(storage, disk), ["a"], region="us")
    assert elsewhere.bucket == INSERTS


def test_a_key_has_one_place_whatever_else_is_in_the_chunk(storage: Storage, disk: pathlib.Path) -> None:
    ids, keys = planned(storage, disk), [f"k{number}" for number in range(50)]
    together = places(storage, ids, keys)
    assert [places(storage, ids, [key])[0] for key in keys] == together
    assert places(storage, ids, [None, *keys[::-1]])[::-1] == together


@pytest.mark.parametrize("mode", ["base", "log"])
def test_the_open_file_groups_of_a_partition_have_a_task_each(
    storage: Storage, disk: pathlib.Path, mode: InsertMode
) -> None:
    found = places(storage, planned(storage, disk, mode=mode), [f"k{number}" for number in range(200)])
    tasks = {each.file_id: each.task for each in found}
    assert len(tasks) == TASKS
    assert set(tasks.values()) == set(range(TASKS))


def test_new_keys_in_log_files_are_written_as_updates(storage: Storage, disk: pathlib.Path) -> None:
    found = places(storage, planned(storage, disk, mode="log"), ["a", "x", "b"])
    assert {each.bucket for each in found} == {UPDATES}


def test_another_generation_of_the_partition_knows_nothing(storage: Storage, disk: pathlib.Path) -> None:
    (found,) = places(storage, planned(storage, disk, generations={"eu": 1}), ["a"])
    assert found.bucket == INSERTS


def test_without_its_runs_a_plan_cannot_be_repeated(storage: Storage, disk: pathlib.Path) -> None:
    ids = planned(storage, disk)
    path = f".hoodie/.bucketingest/state/run/{ids.plan.runs[0]}"
    storage.put(path, storage.get(path)[:-1] + b"x")
    with pytest.raises(StateDamaged):
        ids.assigner(storage)
    storage.delete(path)
    with pytest.raises(NotFound):
        ids.assigner(storage)


def test_equal_plans_have_one_fingerprint(storage: Storage, disk: pathlib.Path) -> None:
    assert planned(storage, disk).fingerprint == planned(storage, disk).fingerprint
    assert planned(storage, disk).fingerprint != planned(storage, disk, instant="2").fingerprint
