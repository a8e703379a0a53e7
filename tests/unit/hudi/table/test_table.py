"""Tables: what creating one writes, compared with what Hudi writes, and opening one."""

import pytest

from bucketingest.hudi.errors import InvalidTable, TableNotFound
from bucketingest.hudi.naming import PROPERTIES_PATH
from bucketingest.hudi.table import properties as java_properties
from bucketingest.hudi.table.table import TableDefinition, create_table, load_table, table_properties
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.storage.factory import open_storage
from bucketingest.storage.interface import Storage
from support.tables.fixtures import properties_fixture

OWN = {"bucketingest.bucket.count", "bucketingest.bucket.hash", "bucketingest.bucket.hash.fields"}

ONE = ("id",)
DEFINITIONS = {
    "t9avro": TableDefinition("t9avro", ONE, ("region",), "ts"),
    "np9": TableDefinition("np9", ONE, (), "ts"),
    "multi9": TableDefinition("multi9", ("id", "sub"), ("region", "d"), "ts"),
    "commit9": TableDefinition("commit9", ONE, ("region",)),
    "hive9": TableDefinition("hive9", ONE, ("region",), "ts", hive_style_partitioning=True),
    "t8avro": TableDefinition("t8avro", ONE, ("region",), "ts", version=8),
    "np8": TableDefinition("np8", ONE, (), "ts", version=8),
    "multi8": TableDefinition("multi8", ("id", "sub"), ("region", "d"), "ts", version=8),
    "commit8": TableDefinition("commit8", ONE, ("region",), version=8),
    "hive8": TableDefinition("hive8", ONE, ("region",), "ts", version=8, hive_style_partitioning=True),
}


@pytest.fixture
def storage(request: pytest.FixtureRequest) -> Storage:
    return open_storage(f"memory://{request.node.nodeid}".replace("[", "-").replace("]", "-").replace("::", "-"))


@pytest.mark.parametrize("name", DEFINITIONS)
def test_the_properties_of_a_new_table_are_those_that_hudi_writes(name: str) -> None:
    own = table_properties(DEFINITIONS[name])
    hudis = java_properties.parse(properties_fixture(name))
    assert own.pop("hoodie.table.timeline.timezone") == "UTC"
    assert hudis.pop("hoodie.table.timeline.timezone") == "LOCAL"
    if DEFINITIONS[name].version == 8 and DEFINITIONS[name].ordering_field:
        assert own.pop("hoodie.table.precombine.field") == "ts", "readers of Hudi 1.0 merge by it"
    assert {key: value for key, value in own.items() if key not in OWN} == hudis


def test_a_new_table_records_its_buckets() -> None:
    properties = table_properties(TableDefinition("t", ("a", "b"), buckets=64, hash="murmur3", hash_fields=("b",)))
    assert {key: properties[key] for key in OWN} == {
        "bucketingest.bucket.count": "64",
        "bucketingest.bucket.hash": "murmur3",
        "bucketingest.bucket.hash.fields": "b",
    }
    assert table_properties(TableDefinition("t", ("a", "b")))["bucketingest.bucket.hash.fields"] == "a,b"


def test_a_database_counts_in_the_checksum_as_in_a_table_made_by_sql() -> None:
    hudis = java_properties.parse(properties_fixture("sqlt"))
    own = table_properties(TableDefinition("sqlt", ONE, ("region",), "ts", database="default"))
    assert own["hoodie.table.checksum"] == hudis["hoodie.table.checksum"]
    assert own["hoodie.database.name"] == "default"


def test_a_created_table_opens_with_its_schema(storage: Storage) -> None:
    schema = '{"type":"record","name":"é","fields":[]}'
    table = create_table(storage, TableDefinition("orders", ONE, buckets=8), schema)
    assert (table.name, table.version, table.bucket_count) == ("orders", 9, 8)
    assert load_table(storage).properties == table.properties
    assert table.properties["hoodie.table.create.schema"] == schema


def test_of_two_creators_the_second_opens_the_firsts_table(storage: Storage) -> None:
    create_table(storage, TableDefinition("first", ONE, buckets=4))
    table = create_table(storage, TableDefinition("second", ONE, buckets=8))
    assert (table.name, table.bucket_count) == ("first", 4)


def test_a_missing_table_is_distinguished_from_a_torn_one(storage: Storage) -> None:
    with pytest.raises(TableNotFound, match=r"hoodie\.properties is missing"):
        load_table(storage)
    storage.put(PROPERTIES_PATH, b"hoodie.table.name=t\nhoodie.table.type=MERGE_ON_READ\n")
    with pytest.raises(InvalidTable, match=r"hoodie\.table\.version"):
        load_table(storage)


def test_further_properties_are_written_unless_they_contradict(storage: Storage) -> None:
    definition = TableDefinition("t", ONE, properties={"hoodie.x": "y", "hoodie.table.version": "9"})
    assert table_properties(definition)["hoodie.x"] == "y"
    with pytest.raises(InvalidTable, match=r"hoodie\.table\.type"):
        table_properties(TableDefinition("t", ONE, properties={"hoodie.table.type": "COPY_ON_WRITE"}))


@pytest.mark.parametrize("version", [6, 7, 10])
def test_only_versions_8_and_9_are_created(version: int) -> None:
    with pytest.raises(InvalidTable, match=str(version)):
        table_properties(TableDefinition("t", ONE, version=version))


def test_a_new_table_has_a_timeline_directory_because_readers_fail_without_one(storage: Storage) -> None:
    create_table(storage, TableDefinition("t", ONE))
    assert storage.list_level(".hoodie/timeline").objects
    assert Timeline.load(storage).instants == ()
