"""Against a real metastore, with Hudi's own tool as the judge, and beside a job that runs. The tests share one."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from bucketingest.catalog.errors import CatalogError, CatalogRefused
from bucketingest.catalog.hive.connection import HiveConnection
from bucketingest.catalog.sync import HudiTarget
from bucketingest.catalog.table_state import TableState, hadoop_location
from bucketingest.exit_codes import ExitCode
from bucketingest.spec.fields.catalogs import HiveCatalog
from bucketingest.storage import Storage, open_storage
from support.catalogs.glue_server import running_glue
from support.catalogs.lake_run import LakeRun
from support.catalogs.metastore import Metastore, running_metastore
from support.catalogs.record import RECORDED
from support.catalogs.tables import SCHEMA, TABLES, SyncedTable, registered
from support.jobs.command_process import CommandProcess
from support.oracle.environment import OracleEnvironment
from support.proxy import Proxy


@pytest.fixture(scope="module")
def metastore(oracle_environment: OracleEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metastore]:
    with running_metastore(oracle_environment, tmp_path_factory.mktemp("metastore") / "it") as running:
        yield running


def sync(metastore: Metastore, storage: Storage, name: str, database: str = "default") -> str:
    return str(target(metastore, name, database).sync(storage, state_of(storage)))


def state_of(storage: Storage) -> TableState:
    state = TableState.read(storage)
    assert state is not None
    return state


def target(metastore: Metastore, name: str, database: str = "default") -> HudiTarget:
    return HudiTarget("", partial(HiveConnection.open, HiveCatalog(uri=metastore.uri, database=database)), name, "all")


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
    target(metastore, "moving").sync(storage, state_of(storage), paths={"a"})  # it is there

    with closing(metastore.connect()) as catalog:
        shown = registered(catalog, "moving", tmp_path)
        assert set(shown["partitions"]) == {"a", "b", "ü %"}
        columns = [shown["storage"]["columns"], *(each["storage"]["columns"] for each in shown["partitions"].values())]
        assert [each[-1] for each in columns] == [["note", "string", ""]] * 4, "the partitions got the column too"

    with closing(metastore.connect()) as catalog:
        found = catalog.find("moving")
        assert found is not None
        narrow = replace(found, columns=found.columns[:-1])
        catalog.correct(narrow, {("a",): f"file:{tmp_path}/elsewhere", ("b",): f"file:{tmp_path}/b"})
    assert sync(metastore, storage, "moving") == "nothing to do"
    for told in ("2 partitions corrected", "nothing to do"):
        assert str(target(metastore, "moving").sync(storage, state_of(storage), check=True)) == told
    with closing(metastore.connect()) as catalog:
        assert registered(catalog, "moving", tmp_path) == shown

    with pytest.raises(CatalogRefused, match=r"is registered for file:.*give this table another name"):
        target(metastore, "moving").drop("file:/elsewhere")
    with pytest.raises(CatalogRefused, match="database nowhere"):
        sync(metastore, storage, "moving", "nowhere")
    with pytest.raises(CatalogError, match="start it, or correct"):
        HiveConnection.open(HiveCatalog(uri="thrift://127.0.0.1:1", database="default"))
    assert str(target(metastore, "moving").drop(hadoop_location(storage.url))).startswith("dropped")
    assert sync(metastore, storage, "moving").startswith("created"), "no data was deleted"


def test_a_job_is_found_by_name_while_it_runs_and_a_metastore_that_dies_or_is_slow_keeps_no_commit_back(
    metastore: Metastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "y")
    run = LakeRun(tmp_path)
    with running_glue() as (endpoint, glue), Proxy(metastore.port) as proxy, closing(metastore.connect()) as hive:
        monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", endpoint)
        of_hive = {"uri": f"thrift://127.0.0.1:{proxy.port}", "database": "default", "table": "fed"}
        of_glue = {"region": "eu-west-1", "database": "lake"}
        file = run.describe([{"hive": of_hive}, {"glue": of_glue}])

        def shown() -> tuple[set[str], set[str]]:
            table = hive.find("fed")
            found = glue.get_partitions(DatabaseName="lake", TableName="orders")["Partitions"]
            of_metastore = set() if table is None else {each for (each,) in hive.partitions(table)}
            return of_metastore, {each for one in found for each in one["Values"]}

        run.feed("a")
        with CommandProcess("run", file, log=tmp_path / "log") as process:

            def wait_for(event: str, catalog: str, times: int) -> None:
                def told() -> int:
                    lines = process.output.splitlines()
                    return sum(f'"event": "{event}' in line and f'"catalog": "{catalog} ' in line for line in lines)

                process.wait_until(lambda: told() >= times)

            wait_for("catalog is up to date", "hive", 1)
            wait_for("catalog is up to date", "glue", 1)
            assert shown() == ({"a"}, {"a"})
            proxy.take_away()
            run.feed("b")
            wait_for("catalog is not up to date; ingestion goes on", "hive", 1)
            run.feed("c")
            process.wait_until(run.is_committed)
            proxy.delay = 0.2
            proxy.bring_back()
            wait_for("catalog is up to date", "hive", 2)
            process.wait_until(lambda: shown() == ({"a", "b", "c"},) * 2)
            process.signal(signal.SIGINT)
            assert process.wait() == ExitCode.OK, process.output
            assert process.left_behind() == []
    assert sync(metastore, open_storage(f"{tmp_path}/orders"), "fed") == "nothing to do"
