"""Tables that Hudi made: their file groups are found and written into, and wrong bucket settings are refused."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bucketingest.hudi.bucket_rules.counts import BucketCounts, BucketRule
from bucketingest.hudi.bucket_rules.hashing_config import HashingConfig, instants_in
from bucketingest.hudi.errors import UnsupportedTable
from bucketingest.hudi.naming import PROPERTIES_PATH, bucket_of_file_id
from bucketingest.hudi.rollback.rollback import roll_back
from bucketingest.hudi.table.file_view import load_file_view
from bucketingest.hudi.table.key_sample import sample_record_keys
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.index.errors import BucketLayoutMismatch
from bucketingest.storage import open_storage
from bucketingest.write.errors import InstantAborted
from support.tables.fixtures import unpack_fixture
from support.tables.other_writers import replace_file_groups
from support.tables.table_runs import TestTable, offsets

INCOMING = pa.schema([("id", pa.string()), ("region", pa.string()), ("ts", pa.int64()), ("name", pa.string())])
HUDI_TABLES = ["java_v8_avro", "java_v8_parquet", "java_v9_avro", "java_v9_parquet"]


def copied(name: str, tmp_path: Path, **changes: Any) -> TestTable:
    """A table of Hudi's in memory, to be written to."""
    source = open_storage(str(unpack_fixture(name, tmp_path)))
    title = "t" + name.removeprefix("java_v").replace("_", "")
    definition = TableDefinition(title, ("id",), ("region",), "ts", buckets=4, version=int(name[6]))
    table = TestTable(replace(definition, **changes), INCOMING)
    for info in source.list(""):
        if not info.path.endswith(".crc"):
            table.storage.create(info.path, source.get(info.path))
    return table


@pytest.fixture(params=HUDI_TABLES)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> TestTable:
    return copied(request.param, tmp_path)


def updates(count: int = 20) -> list[dict[str, Any]]:
    """Newer rows of the keys that Hudi wrote, in their partitions, and of others."""
    regions = ("us", "eu")
    return [{"id": f"key-{n:04}", "region": regions[n % 2], "ts": 5000, "name": f"own-{n}"} for n in range(count)]


def file_ids(table: TestTable) -> set[tuple[str, str]]:
    view = load_file_view(table.storage, table.timeline())
    return {(group.partition_path, group.file_id) for group in view.groups if group.slices}


def test_every_file_group_of_hudi_is_in_the_index(table: TestTable) -> None:
    index = table.attempt().opened.index
    assert {(partition, file_id) for (partition, _), file_id in index.known.items()} == file_ids(table)
    assert all(bucket_of_file_id(file_id) == bucket for (_, bucket), file_id in index.known.items())
    assert index.foreign == index.known


def test_rows_go_into_hudis_file_groups_and_new_ones_get_the_deterministic_id(table: TestTable) -> None:
    before = file_ids(table)
    attempt = table.attempt()
    attempt.run(offsets(0, 20), updates())
    after = file_ids(table)
    assert before <= after
    assert all("-0000-0000-0000-000000000000-0" in file_id for _, file_id in after - before)
    assert table.leftovers() == []
    written = {(r["region"], r["_hoodie_file_name"]) for r in table.visible_rows() if r["name"].startswith("own-")}
    assert written & before
    assert written <= after


def test_a_key_stays_in_the_bucket_where_hudi_put_it(table: TestTable) -> None:
    sample = sample_record_keys(table.storage, load_file_view(table.storage, table.timeline()))
    of_hudi = {key: file_id for key, _, file_id in sample}
    table.attempt().run(offsets(0, 20), updates())
    own = {r["id"]: r["_hoodie_file_name"] for r in table.visible_rows() if r["name"].startswith("own-")}
    both = of_hudi.keys() & own.keys()
    assert len(both) >= 8
    assert [key for key in both if bucket_of_file_id(of_hudi[key]) != bucket_of_file_id(own[key])] == []


def test_columns_that_the_input_lacks_are_null_and_keep_their_type(table: TestTable) -> None:
    attempt = table.attempt()
    assert len(attempt.opened.row_schema) == 12
    attempt.run(offsets(0, 1), updates(1))
    (own,) = [found for found in table.visible_rows() if found["name"] == "own-0"]
    assert {name: own[name] for name in ("amt", "n", "big", "d", "dt", "evt", "flag", "tags")} == dict.fromkeys(
        ("amt", "n", "big", "d", "dt", "evt", "flag", "tags")
    )


def test_columns_of_every_type_of_hudis_schema_are_written(table: TestTable) -> None:
    table.schema = table.attempt().opened.row_schema
    moment = dt.datetime(2026, 11, 21, 8, tzinfo=dt.UTC)
    values = {"amt": 1.5, "n": 3, "big": 2**40, "dt": moment.date(), "evt": moment, "flag": True, "tags": ["a", None]}
    table.attempt().run(offsets(0, 1), [updates(1)[0] | values])
    (own,) = [found for found in table.visible_rows() if found["name"] == "own-0"]
    assert {name: own[name] for name in values} == values


@pytest.mark.parametrize("name", HUDI_TABLES)
def test_a_wrong_bucket_count_is_refused_with_the_one_that_fits(name: str, tmp_path: Path) -> None:
    table = copied(name, tmp_path, buckets=8, bucket_rules=(BucketRule("^new", 16),))
    with pytest.raises(BucketLayoutMismatch) as refused:
        table.attempt()
    assert "8 buckets, hash hudi and hash fields ['id'] put it into bucket" in str(refused.value)
    assert "A bucket count of 4 would fit: set spec.table.index.buckets to it." in str(refused.value)
    assert instants_in(table.storage) == [], "rules with a wrong default would mislead Hudi's writers"


def test_file_groups_that_a_rescale_replaced_do_not_speak_against_the_new_count(table: TestTable) -> None:
    us = [file_id for partition, file_id in sorted(file_ids(table)) if partition == "us"]
    time = replace_file_groups(table, {"us": us})
    config = HashingConfig(time, BucketCounts(4, (BucketRule("^us$", 9),)))
    table.storage.create(config.path, config.encode())
    attempt = table.attempt()
    attempt.run(offsets(0, 20), updates())
    assert attempt.opened.bucket_rules.counts.of("us") == 9


def test_another_hash_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedTable, match=r"no bucketingest\.bucket\.hash: another writer made the table"):
        copied("java_v9_avro", tmp_path, hash="murmur3").attempt()


def test_a_table_of_version_6_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedTable, match=rf"{PROPERTIES_PATH}: hoodie\.table\.version=6"):
        copied("java_v6_avro", tmp_path).attempt()


def test_a_type_that_hudis_schema_does_not_have_is_refused(table: TestTable) -> None:
    table.schema = INCOMING.set(2, pa.field("ts", pa.int32()))
    with pytest.raises(
        UnsupportedTable, match="schema: column 'ts' is long in the table but int in the input; cast it"
    ):
        table.attempt()


def test_an_instant_rolled_back_among_hudis_own_is_written_again(table: TestTable) -> None:
    attempt = table.attempt()

    def roll_back_pending() -> None:
        (instant,) = table.timeline().pending
        roll_back(table.storage, instant.request_time)

    with pytest.raises(InstantAborted):
        attempt.run(offsets(0, 20), updates(), roll_back_pending)
    attempt.run(offsets(0, 20), updates())
    assert len([found for found in table.visible_rows() if found["name"].startswith("own-")]) == 20
    assert table.leftovers() == []
