"""Refusals: each way to ruin a table has its reason, and a sound table has none."""

import pickle
from dataclasses import replace

import pytest

from bucketingest.hudi.errors import UnsupportedTable
from bucketingest.hudi.table.checks import check_table, metadata_table_refusals, refusals
from bucketingest.hudi.table.properties import parse
from bucketingest.hudi.table.table import HoodieTable, TableDefinition, table_properties
from bucketingest.storage.factory import open_storage
from support.tables.fixtures import properties_fixture

EXPECTED = TableDefinition("t", ("id",), ("region",), "ts", buckets=4)

TABLES_OF_HUDI = {
    "t8avro": TableDefinition("t8avro", ("id",), ("region",), "ts"),
    "t9avro": TableDefinition("t9avro", ("id",), ("region",), "ts"),
    "np9": TableDefinition("np9", ("id",), (), "ts"),
    "multi8": TableDefinition("multi8", ("id", "sub"), ("region", "d"), "ts"),
    "commit9": TableDefinition("commit9", ("id",), ("region",)),
    "hive9": TableDefinition("hive9", ("id",), ("region",), "ts", hive_style_partitioning=True),
    "sqlt": TableDefinition("sqlt", ("id",), ("region",), "ts", hive_style_partitioning=True),
}


@pytest.mark.parametrize("name", TABLES_OF_HUDI)
def test_a_table_that_hudi_made_is_accepted(name: str) -> None:
    assert refusals(parse(properties_fixture(name)), TABLES_OF_HUDI[name]) == []


def test_our_own_table_is_accepted() -> None:
    assert refusals(table_properties(EXPECTED), EXPECTED) == []


CHANGES = [
    ("hoodie.table.metadata.partitions", "files,column_stats", "metadata table is on"),
    ("hoodie.table.metadata.partitions.inflight", "files", "metadata table is on"),
    ("hoodie.table.version", "6", "upgrade"),
    ("hoodie.table.version", "10", "newer Hudi writer has upgraded it"),
    ("hoodie.table.type", "COPY_ON_WRITE", "MERGE_ON_READ"),
    ("hoodie.timeline.layout.version", "1", "upgrade"),
    ("hoodie.timeline.path", "elsewhere", "moved timeline"),
    ("hoodie.table.checksum", "1", "checksum"),
    ("hoodie.table.recordkey.fields", "other", "spec's record key: id"),
    ("hoodie.table.partition.fields", "dt", "spec's partition fields: region"),
    ("hoodie.table.partition.fields", "", r"partition\.fields=\(none\)"),
    ("hoodie.table.ordering.fields", "ts,seq", "spec's ordering field: ts"),
    ("hoodie.table.keygenerator.type", "CUSTOM", "made by SIMPLE"),
    ("hoodie.datasource.write.hive_style_partitioning", "true", "other partitions"),
    ("hoodie.datasource.write.partitionpath.urlencode", "true", "shows encoded values in incremental queries"),
    ("hoodie.datasource.write.drop.partition.columns", "true", "partition columns"),
    ("hoodie.table.cdc.enabled", "true", "change log"),
    ("hoodie.populate.meta.fields", "false", "meta columns"),
    ("hoodie.table.base.file.format", "ORC", "Parquet"),
    ("hoodie.table.log.file.format", "HFILE", "inline log format"),
    ("hoodie.table.multiple.base.file.formats.enable", "true", "Parquet"),
    ("hoodie.partition.metafile.use.base.format", "true", "Parquet files"),
    ("hoodie.record.merge.mode", "COMMIT_TIME_ORDERING", "merge"),
    ("hoodie.record.merge.mode", "CUSTOM", "merge"),
    ("hoodie.table.partial.update.mode", "IGNORE_DEFAULTS", "partial"),
    ("hoodie.bootstrap.base.path", "/old", "bootstrapped"),
    ("hoodie.table.timeline.timezone", "MARS", "UTC and LOCAL"),
    ("hoodie.table.format", "iceberg", "native"),
    ("bucketingest.bucket.count", "8", "the spec has 4"),
    ("bucketingest.bucket.hash", "murmur3", "the spec has hudi"),
    ("bucketingest.bucket.hash.fields", "sub", "the spec has id"),
]


@pytest.mark.parametrize(("key", "value", "words"), CHANGES)
def test_each_unfit_property_gives_one_reason_that_names_it(key: str, value: str, words: str) -> None:
    reasons = refusals(table_properties(EXPECTED) | {key: value}, EXPECTED)
    assert len(reasons) == 1
    assert f".hoodie/hoodie.properties: {key}={value or '(none)'}" in reasons[0]
    with pytest.raises(UnsupportedTable, match=words):
        raise UnsupportedTable("here", reasons)


def test_a_table_whose_values_may_be_placeholders_is_one_from_its_beginning() -> None:
    keeps = replace(EXPECTED, ordering_field=None, fills_unavailable=True)
    drops = replace(keeps, fills_unavailable=False)
    assert refusals(table_properties(keeps), keeps) == []
    (why,) = refusals(table_properties(keeps), drops)
    assert "the table is one of format.envelope.unavailable keep, the spec has deadLetter" in why
    (why,) = refusals(table_properties(drops), keeps)
    assert "the table is one of format.envelope.unavailable deadLetter, the spec has keep" in why
    for mode, without in (("IGNORE_DEFAULTS", ""), ("FILL_UNAVAILABLE", "partial.update.unavailable.value")):
        other = {name: each for name, each in table_properties(keeps).items() if not without or without not in name}
        for wanted in (keeps, drops):
            (why,) = refusals(other | {"hoodie.table.partial.update.mode": mode}, wanted)
            assert "partial updates are not supported" in why


@pytest.mark.parametrize("key", ["hoodie.record.merge.mode", "hoodie.timeline.layout.version", "hoodie.table.type"])
def test_a_property_that_readers_need_must_be_there(key: str) -> None:
    properties = table_properties(EXPECTED)
    del properties[key]
    reasons = refusals(properties, EXPECTED)
    assert len(reasons) == 1
    assert key in reasons[0]
    assert "missing" in reasons[0]


def test_a_table_without_checksum_is_accepted() -> None:
    properties = table_properties(EXPECTED)
    del properties["hoodie.table.checksum"]
    assert refusals(properties, EXPECTED) == []


def test_version_6_is_refused_for_version_and_layout() -> None:
    expected = TableDefinition("t6avro", ("id",), ("region",), "ts")
    properties = table_properties(expected) | {"hoodie.table.version": "6", "hoodie.timeline.layout.version": "1"}
    assert len(refusals(properties, expected)) == 2


def test_a_table_of_hudi_cannot_be_hashed_otherwise() -> None:
    expected = TableDefinition("t9avro", ("id",), ("region",), "ts", hash="murmur3")
    reasons = refusals(parse(properties_fixture("t9avro")), expected)
    assert ["set hash hudi" in reason for reason in reasons] == [True]


def test_all_reasons_come_in_one_error_that_survives_pickling() -> None:
    storage = open_storage("memory://all_reasons")
    storage.create(".hoodie/.bucket_index/consistent_hashing_metadata/us/1.hashing_meta", b"")
    properties = table_properties(EXPECTED) | {"hoodie.table.version": "6", "hoodie.table.cdc.enabled": "true"}
    with pytest.raises(UnsupportedTable) as raised:
        check_table(HoodieTable(storage, properties), EXPECTED)
    assert len(raised.value.reasons) == 3
    assert "consistent" in raised.value.reasons[2]
    assert pickle.loads(pickle.dumps(raised.value)).reasons == raised.value.reasons


def test_a_sound_table_passes_the_check() -> None:
    check_table(HoodieTable(open_storage("memory://sound"), table_properties(EXPECTED)), EXPECTED)


def test_the_metadata_table_can_be_asked_for_alone() -> None:
    assert metadata_table_refusals(table_properties(EXPECTED)) == []
    assert metadata_table_refusals({"hoodie.table.metadata.partitions": "files"})


def test_a_partition_level_bucket_index_is_no_reason_to_refuse() -> None:
    storage = open_storage("memory://partition_level")
    storage.create(".hoodie/.bucket_index/partition_bucket_index_meta/configs/00000000000000.hashing_config", b"")
    check_table(HoodieTable(storage, table_properties(EXPECTED)), EXPECTED)
