"""Against a real metastore, with Hudi's own tool as the judge. The tests share one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from bucketingest.catalog.errors import CatalogError, CatalogRefused
from bucketingest.catalog.hive import HiveConnection
from bucketingest.catalog.sync import Target, drop_table, sync_table
from bucketingest.catalog.table_state import TableState, hadoop_location
from bucketingest.storage import Storage, open_storage
from support.catalogs.metastore import Metastore, running_metastore
from support.catalogs.record import RECORDED
from support.catalogs.tables import SCHEMA, TABLES, SyncedTable, registered
from support.oracle.environment import OracleEnvironment


@pytest.fixture(scope="module")
def metastore(oracle_environment: OracleEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metastore]:
    with running_metastore(oracle_environment, tmp_path_factory.mktemp("metastore") / "it") as running:
        yield running


def sync(metastore: Metastore, storage: Storage, name: str, database: str = "default") -> str:
    state = TableState.read(storage)
    assert state is not None
    return str(sync_table(storage, state, target(metastore, name, database)))


def target(metastore: Metastore, name: str, database: str = "default") -> Target:
    return Target("", partial(HiveConnection.open, metastore.uri, database), name, "all")


def test_registered_by_us_is_registered_by_hudis_tool_and_each_leaves_the_others_work_alone(
    metastore: Metastore, tmp_path: Path
) -> None:
    table, storage = TABLES["styled"], open_storage(str(tmp_path))
    table.write(tmp_path)
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))

    def check() -> None:
        with closing(metastore.connect()) as catalog:
            for name in ("styled", "styled_rt", "styled_ro"):
                assert registered(catalog, name, tmp_path) == recorded[name]

    sync(metastore, storage, "styled")
    check()
    metastore.hive_sync(table, tmp_path, "styled")
    check()
    assert sync(metastore, storage, "styled") == "nothing to do"


def test_changes_reach_the_metastore_and_what_it_refuses_is_said(metastore: Metastore, tmp_path: Path) -> None:
    table = SyncedTable(("region",), "SinglePartPartitionValueExtractor")
    storage = open_storage(str(tmp_path))
    table.write(tmp_path, SCHEMA, ("a", "ü %"))
    assert sync(metastore, storage, "moving") == "created moving_ro, moving_rt, moving; 6 partitions added"
    table.write(tmp_path, pa.schema([*SCHEMA, ("note", pa.string())]), ("b",))
    assert sync(metastore, storage, "moving") == "altered moving_ro, moving_rt, moving; 3 partitions added"
    assert sync(metastore, storage, "moving") == "nothing to do"

    with closing(metastore.connect()) as catalog:
        shown = registered(catalog, "moving", tmp_path)
        assert set(shown["partitions"]) == {"a", "b", "ü %"}
        columns = [shown["storage"]["columns"], *(each["storage"]["columns"] for each in shown["partitions"].values())]
        assert [each[-1] for each in columns] == [["note", "string", ""]] * 4, "the partitions got the column too"

    with pytest.raises(CatalogRefused, match=r"is registered for file:.*give this table another name"):
        drop_table("file:/elsewhere", target(metastore, "moving"))
    with pytest.raises(CatalogRefused, match="database nowhere"):
        sync(metastore, storage, "moving", "nowhere")
    with pytest.raises(CatalogError, match="start it, or correct"):
        HiveConnection.open("thrift://127.0.0.1:1", "default")
    assert str(drop_table(hadoop_location(storage.url), target(metastore, "moving"))).startswith("dropped")
    assert sync(metastore, storage, "moving").startswith("created"), "no data was deleted"
