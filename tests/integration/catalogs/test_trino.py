"""Trino finds a table by its name while a job runs, with partitions that appear, and reads exactly the base files."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from bucketingest.catalog.iceberg.base_files import base_files, row_counts
from bucketingest.exit_codes import ExitCode
from bucketingest.hudi.naming import PROPERTIES_PATH
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.storage import open_storage
from devservers.s3 import S3Server
from devservers.trino import TrinoError, TrinoServer
from support.catalogs.glue_server import running_glue
from support.catalogs.lake_run import LakeRun
from support.catalogs.metastore import Metastore, running_metastore
from support.jobs.command_process import CommandProcess
from support.oracle.environment import OracleEnvironment

FED = (("x y", None, "50 %"), ("x y", None, "ü🦔", "a=b&c+d", "q?x#y"))
HUDI = ("hudi.lake", "hudi_hms.default")
TABLES = (*(f"{schema}.orders{view}" for schema in HUDI for view in ("", "_ro", "_rt")), "iceberg.lake.orders_ice")


def test_it_reads_the_base_files_of_hudi_and_iceberg_by_name_while_a_job_runs(
    s3_server: S3Server, oracle_environment: OracleEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = s3_server.create_bucket("trino")
    with (
        running_glue() as (endpoint, _),
        running_metastore(oracle_environment, tmp_path / "metastore") as metastore,
        TrinoServer(catalogs(s3_server, endpoint, metastore)) as trino,
    ):
        for name, value in environment(s3_server, endpoint).items():
            monkeypatch.setenv(name, value)
        for region in {region for regions in FED for region in regions}:
            levels = f"region={region or '__HIVE_DEFAULT_PARTITION__'}/size={len(region or '')}"
            (tmp_path / "orders" / levels).mkdir(parents=True)  # the metastore finds S3's directories here
        services = {"mode": "inline", "compaction": {"logFiles": 2, "logPercent": 1}}
        partitions = {"partitionBy": ["region", "size"], "hiveStylePartitioning": True}
        run = LakeRun(tmp_path, f"{bucket}{tmp_path}/orders", services, partitions)
        iceberg = {"type": "glue", "warehouse": f"{bucket}/ice", "database": "lake", "table": "orders_ice"}
        glue, hive = {"region": S3Server.region, "database": "lake"}, {"uri": metastore.uri, "database": "default"}
        file = run.describe([{"glue": glue}, {"hive": hive}, {"iceberg": iceberg}])
        with CommandProcess("run", file, log=tmp_path / "log") as process:
            expected: Rows = []

            def everything_is_merged() -> bool:
                return merged_rows(run.table) == len(expected)

            def everything_is_counted() -> bool:
                return {counted(trino, table) for table in TABLES} == {len(expected)}

            for regions in FED:
                run.feed(*regions)
                expected += [(f"{run.files}-{region}", region, len(region or ""), run.files) for region in regions]
                process.wait_until(everything_is_merged)
                process.wait_until(everything_is_counted)
                for table in TABLES:
                    assert read(trino, table) == shown(table, expected)
            for table in TABLES:
                assert found(trino, table, expected) == expected, "where a partition is asked for"
            process.signal(signal.SIGINT)
            assert process.wait() == ExitCode.OK, process.output


def merged_rows(table: str) -> int:
    """Rows of the base files that are completed now."""
    storage = open_storage(table)
    if not storage.exists(PROPERTIES_PATH):
        return 0
    timeline = Timeline.load(storage)
    return sum(row_counts(storage, timeline, base_files(storage, timeline).values()).values())


Rows = list[tuple[str, str | None, int, int]]


def read(trino: TrinoServer, table: str) -> Rows:
    """All rows."""
    rows = [tuple(row) for row in trino.query(f"SELECT id, region, size, seq FROM {table}")]
    return sorted(rows, key=str)


def shown(table: str, expected: Rows) -> Rows:
    """What was fed."""
    null = null_of(table)
    rows = [(name, null if region is None else region, size, seq) for name, region, size, seq in expected]
    return sorted(rows, key=str)


def found(trino: TrinoServer, table: str, expected: Rows) -> Rows:
    """The rows that are found if each partition is asked for."""
    ids = []
    for region, size in {(region, size) for _, region, size, _ in expected}:
        is_it = "region IS NULL" if region is None else f"region = '{region}'"
        ids += [name for (name,) in trino.query(f"SELECT id FROM {table} WHERE {is_it} AND size = {size}")]
    return [row for row in expected if ids.count(row[0]) == 1]


def null_of(table: str) -> str | None:
    """What is shown of a partition that is null: the connector for Hudi shows Hive's mark, as a text."""
    return None if table.startswith("iceberg") else "\\N"


def counted(trino: TrinoServer, table: str) -> int:
    """Rows that Trino sees; none if it does not find the table."""
    try:
        ((count,),) = trino.query(f"SELECT count(*) FROM {table}")
    except TrinoError as error:
        if "does not exist" not in str(error):
            raise
        return 0
    return int(count)


def catalogs(s3: S3Server, glue: str, metastore: Metastore) -> dict[str, dict[str, str]]:
    """Trino's, two in the same Glue."""
    in_glue = {
        "hive.metastore.glue.region": s3.region,
        "hive.metastore.glue.endpoint-url": glue,
        "hive.metastore.glue.aws-access-key": s3.access_key,
        "hive.metastore.glue.aws-secret-key": s3.secret_key,
    }
    files = {
        "fs.native-s3.enabled": "true",
        "s3.endpoint": s3.endpoint,
        "s3.region": s3.region,
        "s3.path-style-access": "true",
        "s3.aws-access-key": s3.access_key,
        "s3.aws-secret-key": s3.secret_key,
    }
    return {
        "hudi": {"connector.name": "hudi", "hive.metastore": "glue", **in_glue, **files},
        "hudi_hms": {"connector.name": "hudi", "hive.metastore.uri": metastore.uri, **files},
        "iceberg": {"connector.name": "iceberg", "iceberg.catalog.type": "glue", **in_glue, **files},
    }


def environment(s3: S3Server, glue: str) -> dict[str, str]:
    """What the job is given."""
    properties = {
        "S3__ENDPOINT": s3.endpoint,
        "S3__ACCESS_KEY_ID": s3.access_key,
        "S3__SECRET_ACCESS_KEY": s3.secret_key,
        "S3__REGION": s3.region,
        "GLUE__ENDPOINT": glue,
        "GLUE__REGION": s3.region,
    }
    of_iceberg = {f"PYICEBERG_CATALOG__DEFAULT__{name}": value for name, value in properties.items()}
    return {**s3.environment, "AWS_ENDPOINT_URL_GLUE": glue, **of_iceberg}
