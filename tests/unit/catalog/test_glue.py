"""Glue, as moto answers for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from moto import mock_aws

from bucketingest.catalog.columns import hive_columns
from bucketingest.catalog.errors import CatalogRefused, CatalogUnavailable
from bucketingest.catalog.glue import GlueConnection
from bucketingest.catalog.sync import HudiTarget
from bucketingest.catalog.table_state import TableState, hadoop_location
from bucketingest.storage import Storage, open_storage
from support.catalogs.tables import SyncedTable

SCHEMA = pa.schema(
    [pa.field("id", pa.string(), nullable=False), ("region", pa.string()), ("at", pa.timestamp("us", "UTC"))]
)
MORE = pa.schema([*SCHEMA, ("note", pa.string())])
TABLE = SyncedTable(("region",), "")
DOC = "bell\x07 no\ufffe\n " + "é😀 ab" * 100


@pytest.fixture
def glue(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "y")
    with mock_aws():
        client = boto3.client("glue", region_name="eu-west-1")
        client.create_database(DatabaseInput={"Name": "lake"})
        yield client


def target(database: str = "lake") -> HudiTarget:
    return HudiTarget("", lambda: replace(GlueConnection.open("eu-west-1", database), slice_size=2), "orders", "all")


def sync(storage: Storage, database: str = "lake") -> str:
    state = TableState.read(storage)
    assert state is not None
    return str(target(database).sync(storage, state))


def test_a_table_its_partitions_and_its_columns_are_registered_and_taken_off(glue: Any, tmp_path: Path) -> None:
    regions = ("r1", "r2", "r3")  # more than one call takes
    TABLE.write(tmp_path, SCHEMA, regions)
    storage = open_storage(str(tmp_path))
    assert sync(storage) == "created orders_ro, orders_rt, orders; 9 partitions added"
    versions = len(glue.get_table_versions(DatabaseName="lake", TableName="orders")["TableVersions"])
    assert sync(storage) == "nothing to do"

    TABLE.write(tmp_path, MORE, ("new",))
    assert sync(storage) == "altered orders_ro, orders_rt, orders; 3 partitions added"
    assert sync(storage) == "nothing to do"
    table = glue.get_table(DatabaseName="lake", Name="orders")["Table"]
    assert table["TableType"] == "EXTERNAL_TABLE"
    assert table["StorageDescriptor"]["Columns"][-1]["Name"] == "note"
    assert len(glue.get_table_versions(DatabaseName="lake", TableName="orders")["TableVersions"]) == versions + 1
    pages = glue.get_paginator("get_partitions").paginate(DatabaseName="lake", TableName="orders")
    partitions = [each for page in pages for each in page["Partitions"]]
    assert {each["Values"][0] for each in partitions} == {*regions, "new"}
    assert {each["StorageDescriptor"]["Columns"][-1]["Name"] for each in partitions} == {"note"}
    assert {each["StorageDescriptor"]["Location"] for each in partitions if each["Values"] == ["new"]} == {
        f"file:{tmp_path}/new"
    }

    assert str(target().drop(hadoop_location(storage.url))) == "dropped orders_ro, orders_rt, orders"
    assert glue.get_tables(DatabaseName="lake")["TableList"] == []


def test_a_check_mends_partitions_that_someone_changed(glue: Any, tmp_path: Path) -> None:
    TABLE.write(tmp_path, SCHEMA, ("r1", "r2", "r3"))
    storage = open_storage(str(tmp_path))
    sync(storage)
    name = {"DatabaseName": "lake", "TableName": "orders"}
    partitions = glue.get_partitions(**name)["Partitions"]
    moved, narrowed = ({key: each[key] for key in ("Values", "StorageDescriptor")} for each in partitions[:2])
    moved["StorageDescriptor"]["Location"] = "file:/elsewhere"
    narrowed["StorageDescriptor"]["Columns"].pop()
    for each in (moved, narrowed):
        glue.update_partition(**name, PartitionValueList=each["Values"], PartitionInput=each)
    state = TableState.read(storage)
    assert state is not None
    assert sync(storage) == "nothing to do"
    assert str(target().sync(storage, state, check=True)) == "2 partitions corrected"
    assert str(target().sync(storage, state, check=True)) == "nothing to do"


def test_wherever_a_change_ends_the_next_sync_completes_it(glue: Any, tmp_path: Path) -> None:
    def at(name: str, calls: int) -> HudiTarget:
        """The same catalog; its calls fail after so many."""
        left = iter(range(calls))

        def count(**_: Any) -> None:
            if next(left, None) is None:
                raise EndpointConnectionError(endpoint_url="x")

        def opened() -> GlueConnection:
            connection = replace(GlueConnection.open("eu-west-1", "lake"), slice_size=2)
            connection._client.meta.events.register("before-parameter-build.glue", count)
            return connection

        return HudiTarget("", opened, name, "snapshot")

    def registered(name: str) -> list[Any]:
        table = glue.get_table(DatabaseName="lake", Name=name)["Table"]
        partitions = glue.get_partitions(DatabaseName="lake", TableName=name)["Partitions"]
        shown = [table, *sorted(partitions, key=lambda each: str(each["Values"]))]
        return [(each.get("Values"), each["StorageDescriptor"], each["Parameters"]) for each in shown]

    storage, ends, whole = open_storage(str(tmp_path)), 0, 1_000
    TABLE.write(tmp_path, SCHEMA, ("r1", "r2", "r3"))
    old = TableState.read(storage)
    TABLE.write(tmp_path, MORE, ("new",))
    new = TableState.read(storage)
    assert old is not None
    assert new is not None
    at("whole", whole).sync(storage, old, paths={"r1", "r2", "r3"})
    at("whole", whole).sync(storage, new)
    is_cut = True
    while is_cut:
        name = f"at_{ends}"
        at(name, whole).sync(storage, old, paths={"r1", "r2", "r3"})
        try:
            at(name, ends).sync(storage, new)
        except CatalogUnavailable:
            ends += 1
        else:
            is_cut = False
        at(name, whole).sync(storage, new)
        assert registered(name) == registered("whole")
    assert ends >= 7, "the table, partitions, their columns in slices, those of the table, a new partition"


def test_a_partition_that_another_process_added_meanwhile_is_no_error(glue: Any, tmp_path: Path) -> None:
    TABLE.write(tmp_path, SCHEMA, ("a", "b"))
    sync(open_storage(str(tmp_path)))
    connection = GlueConnection.open("eu-west-1", "lake")
    table = connection.find("orders")
    assert table is not None
    connection.add(table, {("b",): f"file:{tmp_path}/b", ("c",): f"file:{tmp_path}/c"})
    assert connection.partitions(table) == {("a",), ("b",), ("c",)}


def test_a_table_that_someone_made_since_the_look_is_looked_at_before_it_is_changed(glue: Any, tmp_path: Path) -> None:
    TABLE.write(tmp_path, SCHEMA, ("a",))

    def made_late(**_: Any) -> None:
        with suppress(ClientError):
            theirs = {"Name": "orders_ro", "Parameters": {"theirs": "1"}, "StorageDescriptor": {"Columns": []}}
            glue.create_table(DatabaseName="lake", TableInput=theirs)

    def opened() -> GlueConnection:
        connection = GlueConnection.open("eu-west-1", "lake")
        connection._client.meta.events.register_first("before-parameter-build.glue.CreateTable", made_late)
        return connection

    storage = open_storage(str(tmp_path))
    state = TableState.read(storage)
    assert state is not None
    with pytest.raises(CatalogUnavailable, match="AlreadyExists"):
        HudiTarget("", opened, "orders", "all").sync(storage, state)
    left = glue.get_table(DatabaseName="lake", Name="orders_ro")["Table"]
    assert left["Parameters"] == {"theirs": "1"}
    assert not glue.get_partitions(DatabaseName="lake", TableName="orders_ro")["Partitions"]
    with pytest.raises(CatalogRefused, match="no Hudi table"):
        sync(storage)


def test_a_table_of_others_and_a_missing_database_are_refused(glue: Any, tmp_path: Path) -> None:
    glue.create_table(DatabaseName="lake", TableInput={"Name": "orders", "StorageDescriptor": {"Location": "s3://x/y"}})
    TABLE.write(tmp_path, SCHEMA, ("a",))
    with pytest.raises(CatalogRefused, match="no Hudi table: give this table another name"):
        sync(open_storage(str(tmp_path)))
    with pytest.raises(CatalogRefused, match="database nowhere"):
        sync(open_storage(str(tmp_path)), "nowhere")


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (ClientError({"Error": {"Code": "ThrottlingException"}}, "GetTable"), CatalogUnavailable),
        (ClientError({"Error": {"Code": "AccessDeniedException"}}, "GetTable"), CatalogRefused),
        (EndpointConnectionError(endpoint_url="x"), CatalogUnavailable),
    ],
)
def test_what_passes_by_itself_is_told_from_what_a_person_must_change(raised: Exception, kind: type[Exception]) -> None:
    class Away:
        def get_table(self, **_: Any) -> Any:
            raise raised

    with pytest.raises(kind, match="Glue in eu-west-1, database lake, table orders"):
        GlueConnection("eu-west-1", "lake", Away(), {}).find("orders")


def test_limits_are_those_of_glues_model() -> None:
    model = boto3.client("glue", region_name="eu-west-1").meta.service_model
    created = model.operation_model("BatchCreatePartition").input_shape.members["PartitionInputList"]
    updated = model.operation_model("BatchUpdatePartition").input_shape.members["Entries"]
    connection = GlueConnection.open("eu-west-1", "lake")
    assert connection.slice_size == created.metadata["max"] == updated.metadata["max"]
    assert connection.value_max == created.member.members["Values"].member.metadata["max"]
    comment = model.shape_for("Column").members["Comment"].metadata
    (column,) = hive_columns({"type": "record", "name": "r", "fields": [{"name": "c", "type": "int", "doc": DOC}]})
    assert comment["max"] - 4 < len(column.comment.encode()) <= comment["max"]
    # Java writes a character above U+FFFF as two; for a comment one is as good.
    assert re.fullmatch(
        comment["pattern"].replace(r"\uD800\uDC00-\uDBFF\uDFFF", r"\U00010000-\U0010FFFF"), column.comment
    )
