"""Tables that the write path wrote, judged by Hudi's reader and writer, by hudi-rs, and by the rows that went in."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest

from bucketingest.hudi.log.format import BlockType
from bucketingest.hudi.log.reader import read_log
from bucketingest.hudi.table.table import TableDefinition
from support.oracle import hudi_rs
from support.oracle.client import HudiOracle
from support.oracle.compare import assert_same_rows
from support.oracle.expected import ExpectedTable, MergeRules
from support.oracle.writer import HudiWriter
from support.tables.local_writer import LocalWriter

pytestmark = pytest.mark.hudi

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("region", pa.string()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("value", pa.string()),
        ("gone", pa.bool_()),
    ]
)
KEY = ["region", "id"]
REGIONS = ["eu", "us", "asia pacific"]
BUCKETS = 4
BY_EVENT_TIME = MergeRules(key=["id"], partition_by=["region"], ordering="at", deleted="gone")
BY_COMMIT_TIME = MergeRules(key=["id"], partition_by=["region"], deleted="gone")


def definition(rules: MergeRules = BY_EVENT_TIME, *, version: int = 9, name: str = "judged") -> TableDefinition:
    return TableDefinition(
        name=name,
        record_key=tuple(rules.key),
        partition_fields=tuple(rules.partition_by),
        ordering_field=rules.ordering,
        buckets=BUCKETS,
        version=version,
    )


def hudi_writer(rules: MergeRules = BY_EVENT_TIME, *, version: int = 9, name: str = "judged") -> HudiWriter:
    return HudiWriter(
        name=name,
        record_key=rules.key,
        partition_by=rules.partition_by,
        ordering=rules.ordering,
        buckets=BUCKETS,
        table_version=version,
    )


def changes(rng: random.Random, count: int, label: str) -> pa.Table:
    """Upserts and deletes of few keys: keys repeat within and across commits, many of them late or at equal times."""
    moments = [1_700_000_000_000_000 + rng.randrange(20) for _ in range(count)]
    return pa.table(
        {
            "id": [f"key-{rng.randrange(60)}" for _ in range(count)],
            "region": [rng.choice(REGIONS) for _ in range(count)],
            "at": pa.array(moments, pa.timestamp("us", tz="UTC")),
            "value": [f"{label}-{i}" for i in range(count)],
            "gone": [rng.choice([True, False, False, False, None]) for _ in range(count)],
        },
        schema=SCHEMA,
    )


def rows(*keys: str, at: int, value: str, region: str = "eu", gone: bool = False) -> pa.Table:
    count = len(keys)
    columns: dict[str, list[Any]] = {"id": list(keys), "region": [region] * count, "at": [at] * count}
    return pa.table(columns | {"value": [value] * count, "gone": [gone] * count}, schema=SCHEMA)


def judge(hudi: HudiOracle, path: Path, expected: pa.Table) -> None:
    """Both readers see exactly these rows."""
    assert_same_rows(hudi.snapshot(path), expected, KEY)
    assert_same_rows(hudi_rs.snapshot(path), expected, KEY)


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("log_block", ["parquet", "avro"])
@pytest.mark.parametrize("rules", [BY_EVENT_TIME, BY_COMMIT_TIME], ids=["event-time", "commit-time"])
def test_both_readers_see_the_rows_that_went_in_before_and_after_compaction(
    hudi: HudiOracle, tmp_path: Path, rules: MergeRules, log_block: Literal["parquet", "avro"], version: int
) -> None:
    rng = random.Random(f"{rules.ordering} {log_block} {version}")
    writer = LocalWriter(tmp_path, definition(rules, version=version), SCHEMA, deleted="gone", log_block=log_block)
    expected = ExpectedTable(rules)

    def commit(label: str) -> None:
        batch = changes(rng, 150, label)
        writer.commit(batch)
        expected.apply(batch)

    for label in ("a", "b", "c"):
        commit(label)
    judge(hudi, tmp_path, expected.table())

    hudi.compact(tmp_path, hudi_writer(rules, version=version))
    expected.compact()
    judge(hudi, tmp_path, expected.table())
    assert_same_rows(hudi.read_optimized(tmp_path), expected.table(), KEY)

    for label in ("d", "e"):
        commit(label)
    judge(hudi, tmp_path, expected.table())


def test_both_readers_merge_small_avro_blocks_and_large_parquet_blocks(hudi: HudiOracle, tmp_path: Path) -> None:
    rng = random.Random("both")
    writer = LocalWriter(tmp_path, definition(), SCHEMA, deleted="gone")
    expected = ExpectedTable(BY_EVENT_TIME)
    for label in ("a", "b" * 8000, "c"):
        batch = changes(rng, 150, label)
        writer.commit(batch)
        expected.apply(batch)
    logs = [path.read_bytes() for path in tmp_path.glob("*/.*.log.*") if path.suffix != ".crc"]
    kinds = {content.block.type for log in logs for content in read_log(log)}
    assert kinds == {BlockType.AVRO_DATA, BlockType.PARQUET, BlockType.DELETE}
    judge(hudi, tmp_path, expected.table())
    hudi.compact(tmp_path, hudi_writer())
    expected.compact()
    judge(hudi, tmp_path, expected.table())


def test_a_text_ordering_column_is_compared_as_text(hudi: HudiOracle, tmp_path: Path) -> None:
    """In Parquet log blocks Hudi 1.2.0 compares a row's text with that of a later row, and shows wrong rows."""
    schema = pa.schema([("id", pa.string()), ("at", pa.string()), ("value", pa.string())])
    rules = MergeRules(key=["id"], ordering="at")
    writer = LocalWriter(tmp_path, definition(rules), schema)
    expected = ExpectedTable(rules)
    for value, moments in (("old", ["07", "09", "05", "abc", "08"]), ("new", ["01", "10", "05", "abb", "3"])):
        ids = [str(number) for number in range(len(moments))]
        batch = pa.table({"id": ids, "at": moments, "value": [value] * len(moments)}, schema=schema)
        writer.commit(batch)
        expected.apply(batch)
        if value == "old":
            hudi.compact(tmp_path, hudi_writer(rules))
    assert_same_rows(hudi.snapshot(tmp_path), expected.table(), ["id"])


def test_a_memory_budget_that_splits_a_file_group_into_many_blocks_changes_nothing(
    hudi: HudiOracle, tmp_path: Path
) -> None:
    rng = random.Random("blocks")
    expected = ExpectedTable(BY_EVENT_TIME)
    writer = LocalWriter(tmp_path, definition(), SCHEMA, deleted="gone", memory_bytes=4096, batch_rows=50)
    for label in ("a", "b"):
        batch = changes(rng, 2000, label)
        expected.apply(batch)

        outcome = writer.commit(batch)

        keys = 60 * len(REGIONS)
        assert outcome.upserts + outcome.deletes > 2 * keys, "no file group had several flushes"

    judge(hudi, tmp_path, expected.table())


def test_incremental_readers_see_what_came_after_a_completion_time(hudi: HudiOracle, tmp_path: Path) -> None:
    writer = LocalWriter(tmp_path, definition(), SCHEMA, deleted="gone")
    writer.commit(rows("a", "b", at=1, value="first"))
    writer.commit(rows("b", "c", at=2, value="second"))
    first, second = (instant.completed or "" for instant in hudi.instants(tmp_path))

    for judge_ in (hudi.incremental, hudi_rs.incremental):
        assert_same_rows(judge_(tmp_path, first), rows("b", "c", at=2, value="second"), KEY)
        assert judge_(tmp_path, second).num_rows == 0
    assert_same_rows(hudi.as_of(tmp_path, first), rows("a", "b", at=1, value="first"), KEY)


def test_rows_of_an_instant_that_is_not_completed_are_invisible_and_survive_no_rollback(
    hudi: HudiOracle, tmp_path: Path
) -> None:
    writer = LocalWriter(tmp_path, definition(), SCHEMA, deleted="gone")
    writer.commit(rows("a", at=1, value="kept"))

    class Killed(Exception):
        pass

    def crash(*_: object) -> None:
        raise Killed

    writer.coordinator._commit = crash  # type: ignore[method-assign, assignment]
    with pytest.raises(Killed):
        writer.commit(rows("a", "b", at=2, value="lost"))
    assert [instant.state for instant in hudi.instants(tmp_path)] == ["COMPLETED", "INFLIGHT"]
    judge(hudi, tmp_path, rows("a", at=1, value="kept"))

    successor = LocalWriter(tmp_path, definition(), SCHEMA, deleted="gone")
    successor.commit(rows("a", "b", at=2, value="lost"))

    judge(hudi, tmp_path, rows("a", "b", at=2, value="lost"))


def test_hudis_writer_and_ours_take_turns_on_one_table(hudi: HudiOracle, tmp_path: Path) -> None:
    expected = ExpectedTable(BY_EVENT_TIME)
    rng = random.Random("turns")

    def ours(label: str) -> None:
        batch = changes(rng, 100, label)
        expected.apply(batch)
        LocalWriter(tmp_path, definition(), SCHEMA, deleted="gone").commit(batch)

    def theirs(at: int, value: str) -> None:
        batch = rows("key-1", "key-2", "key-3", "new", at=at, value=value, region="us")
        expected.apply(batch)
        hudi.upsert(tmp_path, batch, hudi_writer())

    ours("a")
    theirs(1_700_000_000_000_010, "theirs")
    ours("b")
    judge(hudi, tmp_path, expected.table())
    hudi.compact(tmp_path, hudi_writer())
    expected.compact()
    theirs(1_700_000_000_000_015, "again")
    ours("c")
    hudi.clean(tmp_path, hudi_writer())

    judge(hudi, tmp_path, expected.table())


def test_a_table_that_hudi_made_is_adopted_with_its_file_groups(hudi: HudiOracle, tmp_path: Path) -> None:
    path = tmp_path / "theirs"
    before = rows("a", "b", "c", "d", "e", at=1, value="theirs")
    hudi.upsert(path, before, hudi_writer())
    groups_before = {file.name.split("_")[0] for file in path.glob("eu/*.parquet")}

    LocalWriter(path, definition(), SCHEMA, deleted="gone").commit(rows("a", "b", "c", at=2, value="ours"))

    expected = pa.concat_tables([rows("a", "b", "c", at=2, value="ours"), rows("d", "e", at=1, value="theirs")])
    judge(hudi, path, expected)
    groups_after = {file.name.removeprefix(".").split("_")[0] for file in path.glob("eu/.0*.log.*")}
    assert groups_after <= groups_before


def test_composite_keys_and_partitions_of_several_levels_are_hudis_own(hudi: HudiOracle, tmp_path: Path) -> None:
    rules = MergeRules(key=["id", "n"], partition_by=["region", "day"], ordering="at")
    batch = pa.table(
        {
            "id": ["a", "a", "b", "c"],
            "n": pa.array([1, 2, 1, 7], pa.int64()),
            "region": ["eu", "eu", None, "us"],
            "day": pa.array([19_000, 19_000, 19_001, None], pa.int32()).cast(pa.date32()),
            "at": pa.array([1, 1, 1, 1], pa.int64()),
        }
    )
    writer = LocalWriter(tmp_path, definition(rules), batch.schema)
    writer.commit(batch)
    expected = ExpectedTable(rules)
    expected.apply(batch)
    later = batch.set_column(4, "at", pa.array([2, 2, 2, 2], pa.int64())).slice(1)

    hudi.upsert(tmp_path, later, hudi_writer(rules))
    expected.apply(later)

    for reader in (hudi.snapshot, hudi_rs.snapshot):
        assert_same_rows(reader(tmp_path), expected.table(), rules.identity)


@pytest.mark.parametrize("compacted", [False, True], ids=["log files", "base files"])
def test_columns_added_later_are_null_in_earlier_rows(hudi: HudiOracle, tmp_path: Path, *, compacted: bool) -> None:
    wider = SCHEMA.append(pa.field("added", pa.int64()))
    LocalWriter(tmp_path, definition(), SCHEMA, deleted="gone").commit(rows("a", "b", at=1, value="old"))
    if compacted:
        hudi.compact(tmp_path, hudi_writer())

    wide = rows("b", "c", at=2, value="new").append_column("added", pa.array([7, 8], pa.int64()))
    LocalWriter(tmp_path, definition(), wider, deleted="gone").commit(wide)
    # A writer that does not know the column, as after a rollback of the job: it must not take the column away.
    LocalWriter(tmp_path, definition(), SCHEMA, deleted="gone").commit(rows("c", at=3, value="newest"))

    null: Callable[[pa.Table], pa.Table] = lambda table: table.append_column("added", pa.nulls(1, pa.int64()))  # noqa: E731
    expected = [null(rows("a", at=1, value="old")), wide.slice(0, 1), null(rows("c", at=3, value="newest"))]
    judge(hudi, tmp_path, pa.concat_tables(expected))
