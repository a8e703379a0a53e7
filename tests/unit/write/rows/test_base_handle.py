"""A new file group's rows as a base file: one row for each key, whatever the memory, with what Hudi's indexes need."""

from __future__ import annotations

import io
import random
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bucketingest.hudi.base.base_file import BaseFileWriter
from bucketingest.hudi.base.bloom_filter import FOOTER_KEY
from bucketingest.hudi.naming import join
from bucketingest.index.assignment.open_groups import InsertRules, WriteProfile
from bucketingest.index.assignment.plan import AssignmentPlan
from bucketingest.index.assignment.planned_file_ids import PlannedFileIds
from bucketingest.storage import open_storage
from bucketingest.write import spilled_rows
from bucketingest.write.errors import ConflictingAttempt
from bucketingest.write.plan import WritePlan
from bucketingest.write.rows import base_handle, shuffle
from bucketingest.write.rows.merging import surviving_rows
from bucketingest.write.rows.write_status import WriteStatus
from support.tables.write_plans import INSTANT, WITH_DELETES, row, write, write_plan


def plan(**changes: Any) -> WritePlan:
    """A plan whose state knows no key."""
    new = AssignmentPlan.of(
        WriteProfile({}, 0), InsertRules("base", 1 << 20, 1), table="t", instant=INSTANT, sequence=1, seed=bytes(32)
    )
    return write_plan(file_ids=PlannedFileIds(new, bytes(16)), schema=WITH_DELETES, **({"tasks": 1} | changes))


def written(statuses: Sequence[WriteStatus], of: WritePlan) -> list[dict[str, Any]]:
    (status,) = [each for each in statuses if each.file_id]
    content = open_storage(of.table_url).get(join(status.partition_path, status.file_name))
    rows: list[dict[str, Any]] = pq.read_table(io.BytesIO(content)).to_pylist()
    return rows


def upsert(key: str, at: int, amount: int = 0) -> dict[str, Any]:
    return row(key, at=at, amount=amount, deleted=False)


@pytest.mark.parametrize("memory", [64 * 1024**2, 2048], ids=["ample", "scarce"])
def test_a_key_is_there_once_with_its_winner(memory: int, tmp_path: Path) -> None:
    rows = [upsert("a", 2, 1), upsert("b", 1, 2), upsert("a", 1, 3), upsert("b", 1, 4), upsert("c", 1, 5)]
    given = plan(memory_bytes=memory)
    statuses = write([each for each in rows for _ in range(30)], given)

    found = written(statuses, given)
    assert {each["id"]: each["amount"] for each in found} == {"a": 1, "b": 4, "c": 5}
    assert len(found) == 3
    (status,) = statuses
    assert (status.rows_received, status.upserts, status.superseded, status.blocks) == (150, 3, 147, 1)


@pytest.mark.parametrize("seed", range(5))
def test_winners_are_the_same_whichever_part_of_the_keys_is_compared_at_a_time(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    rows = [
        row(f"k{chance.randrange(150)}", at=chance.randrange(9), amount=number, deleted=chance.random() < 0.2)
        for number in range(400)
    ]
    compared: list[int] = []

    def counted(keys: pa.Array, ordering: pa.Array | None) -> object:
        compared.append(len(keys))
        return surviving_rows(keys, ordering)

    monkeypatch.setattr(base_handle, "surviving_rows", counted)
    found = []
    for part_rows in (1000, 50):
        monkeypatch.setattr(base_handle, "_PART_ROWS", part_rows)
        given = plan(memory_bytes=chance.choice((2048, 64 * 1024**2)))
        statuses = write(rows, given)
        found.append((written(statuses, given), [(each.upserts, each.dropped) for each in statuses]))
    assert len(found[0][0]) > 50
    assert [each["amount"] for each in found[0][0]] == [each["amount"] for each in found[1][0]]
    assert found[0][1] == found[1][1]
    assert compared[0] == sum(compared[1:]) == 400
    assert max(compared[1:]) < 120


@pytest.mark.parametrize(("batch_bytes", "writes"), [(1, 40), (10**9, 1)])
def test_small_messages_are_written_together_in_their_order(
    batch_bytes: int, writes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shuffle, "MESSAGE_BYTES", 1)
    monkeypatch.setattr(spilled_rows, "BATCH_BYTES", batch_bytes)
    calls: list[int] = []

    class Counted(BaseFileWriter):
        def write(self, rows: pa.Table) -> None:
            calls.append(rows.num_rows)
            super().write(rows)

    monkeypatch.setattr(base_handle, "BaseFileWriter", Counted)
    given = plan()
    found = written(write([upsert(f"k{number}", 1) for number in range(40)], given), given)
    assert [each["id"] for each in found] == [f"k{number}" for number in range(40)]
    assert [each["_hoodie_commit_seqno"].rpartition("_")[2] for each in found] == [str(row) for row in range(40)]
    assert (len(calls), sum(calls)) == (writes, 40)


def test_a_delete_that_wins_is_dropped_and_counted() -> None:
    given = plan()
    rows = [upsert("a", 1), row("a", at=2, deleted=True), row("b", at=3, deleted=True), upsert("b", 4, 7)]
    statuses = write(rows, given)
    assert [each["id"] for each in written(statuses, given)] == ["b"]
    assert [(each.upserts, each.dropped, each.deletes) for each in statuses] == [(1, 1, 0)]


def test_deletes_alone_make_neither_file_nor_marker() -> None:
    given = plan()
    (status,) = write([row("a", at=2, deleted=True)], given)
    assert (status.file_id, status.dropped, status.superseded) == ("", 1, 0)
    assert list(open_storage(given.table_url).list("")) == []


def test_the_meta_columns_and_the_footer_are_hudis() -> None:
    given = plan()
    statuses = write([upsert("a", 1), upsert("b", 1)], given)
    first = written(statuses, given)[0]
    (status,) = statuses
    assert status.file_name == f"{status.file_id}_0-0-0_{INSTANT}.parquet"
    assert first["_hoodie_commit_time"] == INSTANT
    assert first["_hoodie_commit_seqno"] == f"{INSTANT}_0_0"
    assert (first["_hoodie_record_key"], first["_hoodie_partition_path"]) == ("a", "eu")
    assert first["_hoodie_file_name"] == status.file_name
    content = open_storage(given.table_url).get(join("eu", status.file_name))
    footer = pq.read_metadata(io.BytesIO(content)).metadata
    assert (footer[b"hoodie_min_record_key"], footer[b"hoodie_max_record_key"]) == (b"a", b"b")
    assert FOOTER_KEY.encode() in footer
    stat = status.to_write_stat()
    assert (stat.prev_commit, stat.num_inserts, stat.num_update_writes) == ("null", 2, 0)


def test_a_twin_adopts_equal_rows_in_another_order_and_refuses_others() -> None:
    given = plan()
    rows = [upsert("a", 1), upsert("b", 1)]
    write(rows, given)
    (again,) = write(rows[::-1], given)
    assert again.adopted
    with pytest.raises(ConflictingAttempt):
        write([upsert("a", 1, 9), upsert("b", 1)], given)


def test_every_attempt_gives_a_new_key_the_same_file_group() -> None:
    one, other = (write([upsert("a", 1)], plan(table_url=f"memory://{uuid.uuid4()}")) for _ in range(2))
    assert one[0].file_id == other[0].file_id
