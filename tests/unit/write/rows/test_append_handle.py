"""What a file group's object holds after one micro-batch: rows, deletes and meta columns, read back from its bytes."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.hudi.bucket_rules.counts import BucketCounts
from bucketingest.hudi.log.format import BlockType
from bucketingest.hudi.naming import LogFileName, deterministic_file_id
from bucketingest.hudi.table.layout_warnings import BlockChoice
from bucketingest.index.bucket_index import FileIds
from bucketingest.write.plan import DELETE_COLUMN, WritePlan
from support.tables.write_plans import INSTANT, SCHEMA, WITH_DELETES, batch, definition, row, rows_in, write, write_plan
from support.tables.write_plans import written_files as files

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
BLOCKS: list[BlockChoice] = ["parquet", "avro", "by size"]


def stored(given: dict[str, Any]) -> dict[str, Any]:
    """The row as it is read back."""
    at = None if given["at"] is None else EPOCH + dt.timedelta(microseconds=given["at"])
    return {name: value for name, value in given.items() if name != DELETE_COLUMN} | {"at": at}


def by_key(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda each: (each["region"], each["id"]))


@pytest.fixture(params=BLOCKS)
def plan(request: pytest.FixtureRequest) -> WritePlan:
    return write_plan(schema=WITH_DELETES, log_block=request.param)


def test_rows_are_read_back_as_they_came(plan: WritePlan) -> None:
    rows = [row(f"k{n}", region=("eu", "us")[n % 2], amount=n, at=n) for n in range(20)]
    statuses = write(rows, plan)
    assert by_key(rows_in(statuses, plan)) == by_key([stored(each) for each in rows])
    assert sum(status.upserts for status in statuses) == 20
    kinds = {content.block.type for file in files(statuses, plan) for content in file.blocks}
    assert kinds == {BlockType.PARQUET if plan.log_block == "parquet" else BlockType.AVRO_DATA}


def test_by_size_few_rows_are_avro_and_many_are_parquet() -> None:
    for count, kind in ((20, BlockType.AVRO_DATA), (2000, BlockType.PARQUET)):
        plan = write_plan(definition(buckets=1), log_block="by size")
        rows = [row(f"k{n}", amount=n, at=n) for n in range(count)]
        (file,) = files(write(rows, plan), plan)
        assert [content.block.type for content in file.blocks] == [kind]
        assert len(file.stored_rows) == count


def test_meta_columns_say_instant_number_key_partition_and_file(plan: WritePlan) -> None:
    rows = [row(f"k{n}", region=("eu", "us")[n % 2]) for n in range(20)]
    statuses = write(rows, plan)
    numbers = []
    for file, status in zip(files(statuses, plan), statuses, strict=True):
        for found in file.stored_rows:
            numbers.append(found["_hoodie_commit_seqno"])
            assert found["_hoodie_commit_seqno"].startswith(f"{INSTANT}_{status.task}_")
            assert found["_hoodie_commit_time"] == INSTANT
            assert found["_hoodie_record_key"] == found["id"]
            assert found["_hoodie_partition_path"] == found["region"] == status.partition_path
            assert found["_hoodie_file_name"] == status.file_id == deterministic_file_id(status.bucket)
    assert len(set(numbers)) == 20


def test_a_file_is_named_after_its_file_group_instant_and_micro_batch() -> None:
    foreign = "00000000-a21b-4b6d-a4ef-90dafdb1c65e-0"
    table = definition(buckets=1)
    plan = write_plan(table, sequence=3, file_ids=FileIds(BucketCounts(1), {("eu", 0): foreign}))
    statuses = write([row("k"), row("k", region="us")], plan)
    assert sorted(status.file_name for status in statuses if status.file_id) == [
        f".{deterministic_file_id(0)}_{INSTANT}.log.3_0-0-0",
        f".{foreign}_{INSTANT}.log.3_0-0-0",
    ]
    (found,) = files([status for status in statuses if status.partition_path == "eu"], plan)[0].stored_rows
    assert found["_hoodie_file_name"] == foreign


def test_deletes_become_a_delete_block_with_their_ordering(plan: WritePlan) -> None:
    rows = [row("a", at=7, deleted=True), row("b", at=8, deleted=False), row("c", at=9, deleted=None)]
    one_bucket = replace(plan, rules=write_plan(definition(buckets=1)).rules, file_ids=FileIds(BucketCounts(1), {}))
    statuses = [status for status in write(rows, one_bucket) if status.file_id]
    (file,) = files(statuses, one_bucket)
    assert file.rows == [stored(rows[1]), stored(rows[2])]
    assert [(d.record_key, d.partition_path, d.ordering, d.wrapper) for d in file.deletes] == [
        ("a", "eu", 7, "LongWrapper")
    ]
    assert [content.block.type for content in file.blocks][-1] is BlockType.DELETE
    assert (statuses[0].upserts, statuses[0].deletes, statuses[0].rows_received, statuses[0].blocks) == (2, 1, 3, 2)


def test_a_file_of_deletes_only_has_no_data_block(plan: WritePlan) -> None:
    (file,) = files(write([row("a", deleted=True)], plan), plan)
    assert [content.block.type for content in file.blocks] == [BlockType.DELETE]


def test_deletes_of_a_table_without_ordering_are_by_commit_time() -> None:
    plan = write_plan(definition(ordering_field=None), schema=WITH_DELETES)
    (file,) = files(write([row("a", at=7, deleted=True)], plan), plan)
    assert [(found.ordering, found.wrapper) for found in file.deletes] == [(0, "IntWrapper")]


@pytest.mark.parametrize(
    ("earlier", "later", "deleted"),
    [
        (row("k", at=1, deleted=True), row("k", at=2, deleted=False), False),
        (row("k", at=1, deleted=False), row("k", at=2, deleted=True), True),
        (row("k", at=2, deleted=True), row("k", at=1, deleted=False), True),
        (row("k", at=1, deleted=True), row("k", at=1, deleted=False), False),
        (row("k", at=1, deleted=False), row("k", at=1, deleted=True), True),
    ],
)
def test_of_a_row_and_its_delete_only_the_one_that_wins_is_written(
    plan: WritePlan, earlier: dict[str, Any], later: dict[str, Any], deleted: bool
) -> None:
    (status,) = [found for found in write([earlier, later], plan) if found.file_id]
    assert (status.deletes, status.upserts, status.superseded) == ((1, 0, 1) if deleted else (0, 1, 1))


@pytest.mark.parametrize("log_block", BLOCKS)
def test_a_small_budget_makes_several_blocks_of_one_file(log_block: BlockChoice) -> None:
    plan = write_plan(definition(buckets=1), schema=WITH_DELETES, log_block=log_block, memory_bytes=1000)
    rows = [row(f"k{n}", amount=n, at=n, deleted=n % 10 == 0) for n in range(300)]
    statuses = write([batch(rows[start : start + 10], WITH_DELETES) for start in range(0, 300, 10)], plan)
    (status,) = [found for found in statuses if found.file_id]
    (file,) = files(statuses, plan)
    assert status.blocks == len(file.blocks) > 10
    assert by_key(file.rows) == by_key([stored(each) for each in rows if not each[DELETE_COLUMN]])
    assert sorted(found.record_key for found in file.deletes) == sorted(f"k{n}" for n in range(0, 300, 10))
    numbers = [found["_hoodie_commit_seqno"] for found in file.stored_rows]
    assert len(set(numbers)) == len(numbers) == 270


ROWS = st.lists(
    st.builds(
        row,
        st.sampled_from(["a", "b", "c", "d"]),
        region=st.sampled_from(["eu", "us"]),
        amount=st.integers(0, 99),
        at=st.integers(0, 3),
        deleted=st.booleans(),
    ),
    min_size=1,
    max_size=30,
)


@given(rows=ROWS, tiny=st.booleans(), log_block=st.sampled_from(BLOCKS))
def test_reading_block_after_block_gives_the_winner_of_each_key(
    rows: list[dict[str, Any]], tiny: bool, log_block: BlockChoice
) -> None:
    plan = write_plan(schema=WITH_DELETES, log_block=log_block, memory_bytes=200 if tiny else 2**26)
    statuses = write(rows, plan)
    assert merged(plan, statuses) == expected(rows)
    assert sum(status.rows_received for status in statuses) == len(rows)
    assert all(status.superseded >= 0 for status in statuses)


def expected(rows: list[dict[str, Any]]) -> dict[tuple[str, str], tuple[int, int | None]]:
    """Per partition and key: the greatest ordering value, of equals the later row; a delete has no amount."""
    winners: dict[tuple[str, str], tuple[int, int | None]] = {}
    for each in rows:
        place = (each["region"], each["id"])
        if place not in winners or each["at"] >= winners[place][0]:
            winners[place] = (each["at"], None if each[DELETE_COLUMN] else each["amount"])
    return winners


def merged(plan: WritePlan, statuses: Any) -> dict[tuple[str, str], tuple[int, int | None]]:
    """What a reader makes of the files: block after block, a greater or equal ordering value replaces."""
    state: dict[tuple[str, str], tuple[int, int | None]] = {}
    for file in files(statuses, plan):
        for content in file.blocks:
            found = [] if content.rows is None else content.rows.to_pylist()
            changes = [((r["region"], r["id"]), micros(r["at"]), r["amount"]) for r in found]
            changes += [((d.partition_path, d.record_key), int(d.ordering or 0), None) for d in content.deletes]
            for place, at, amount in changes:
                if place not in state or at >= state[place][0]:
                    state[place] = (at, amount)
    return state


def micros(moment: dt.datetime) -> int:
    return (moment - EPOCH) // dt.timedelta(microseconds=1)


def test_composite_keys_are_stored_in_hudis_form() -> None:
    table = definition(record_key=("id", "amount"))
    plan = write_plan(table, schema=pa.schema(list(SCHEMA)))
    (file,) = files(write([row("k", amount=5)], plan), plan)
    assert [found["_hoodie_record_key"] for found in file.stored_rows] == ["id:k,amount:5"]
    assert LogFileName.parse(file.path.rpartition("/")[2]).instant == INSTANT
