"""The second entry point: a user's own streaming DataFrame; and generated rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from bucketingest.hudi.log.reader import read_log
from bucketingest.hudi.table.table import StateRules, TableDefinition
from bucketingest.index.state.store import forget_state
from bucketingest.storage import open_storage
from bucketingest.stream import Pipeline, ingest, ingest_resource
from bucketingest.stream.errors import QueryFailed
from bucketingest.stream.report.board import ProgressBoard
from bucketingest.stream.spark.conf import REQUIRED_CONF
from bucketingest.write.covering import lazy_loading
from devservers.s3 import S3Server
from support.jobs.stream_runs import WAIT_SECONDS_MAX, Lake, finish
from support.oracle import hudi_rs


@pytest.fixture
def numbers(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """A stream of three rows from two files, a file per micro-batch."""
    folder = tmp_path / "numbers"
    folder.mkdir()
    for name, values in {"a": [1, 2], "b": [3]}.items():
        (folder / f"{name}.json").write_text("".join(json.dumps({"n": value}) + "\n" for value in values))
    stream = spark.readStream.schema("n BIGINT").option("maxFilesPerTrigger", 1).json(str(folder))
    return stream.select("n", (F.col("n") * F.col("n")).alias("square"), (F.col("n") % 2).alias("odd"))


def pipeline(lake: Lake, table_url: str | None = None, **changes: object) -> Pipeline:
    definition = TableDefinition(
        name="numbers", record_key=("n",), partition_fields=("odd",), ordering_field="square", buckets=2
    )
    values = {"checkpoint_url": str(lake.checkpoint), "dead_letters_url": None, **changes}
    return Pipeline("own", table_url or str(lake.table), definition, **values)  # type: ignore[arg-type]


def test_a_users_own_dataframe_becomes_a_table_and_the_session_keeps_its_settings(
    numbers: DataFrame, lake: Lake, spark: SparkSession
) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        finish(ingest(numbers, pipeline(lake, delete_when="n = 2"), once=True))
        assert spark.conf.get("spark.sql.session.timeZone") == "Europe/Berlin"
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")

    assert sorted(row["square"] for row in lake.rows().to_pylist()) == [1, 9]
    assert len(lake.instants()) == 2


def test_a_query_with_a_state_continues_after_a_crash_between_the_tables_commit_and_sparks(
    numbers: DataFrame, lake: Lake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> None:
        raise RuntimeError("gone")

    monkeypatch.setitem(REQUIRED_CONF, "spark.sql.shuffle.partitions", "1")  # of the state: each takes time
    once_each = numbers.dropDuplicates(["n"])
    with monkeypatch.context() as crashing:
        crashing.setattr(ProgressBoard, "batch_ended", crash)
        with pytest.raises(QueryFailed, match="gone"):
            finish(ingest(once_each, pipeline(lake), once=True))
    assert len(lake.instants()) == 1

    finish(ingest(once_each, pipeline(lake), once=True))

    assert sorted(row["square"] for row in lake.rows().to_pylist()) == [1, 4, 9]
    assert len(lake.instants()) == 2


def test_with_an_index_with_a_state_a_row_of_a_partition_that_is_not_loaded_makes_no_duplicate(
    numbers: DataFrame, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = TableDefinition("numbers", ("n",), ("odd",), "square", state=StateRules())
    finish(ingest(numbers, replace(pipeline(lake), definition=of), once=True))
    forget_state(open_storage(str(lake.table)))
    monkeypatch.setattr(lazy_loading, "EAGER_BYTES_MAX", 0)
    monkeypatch.setattr(lazy_loading, "RECENT_COMMITS", 1)
    again = replace(pipeline(lake, checkpoint_url=f"{lake.checkpoint}-again"), name="again", definition=of)
    running = ingest(numbers, again, once=True)
    finish(running)

    assert running.progress().rollbacks == 1, "of the first micro-batch, which has a row of another partition"
    assert sorted(row["square"] for row in lake.rows().to_pylist()) == [1, 4, 9]
    assert len(list(lake.table.glob("*/*.parquet"))) == 3


def test_a_key_moves_to_the_partition_of_its_newest_row(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    folder = tmp_path / "places"
    folder.mkdir()
    files = {"a": [(1, "x", 1), (2, "x", 1)], "b": [(1, "y", 2), (2, "y", 0), (3, "x", 1), (3, "y", 2)]}
    for name, rows in files.items():
        lines = (json.dumps(dict(zip(("n", "place", "at"), row, strict=True))) + "\n" for row in rows)
        (folder / f"{name}.json").write_text("".join(lines))
    definition = TableDefinition("places", ("n",), ("place",), "at", state=StateRules(is_global=True))
    stream = spark.readStream.schema("n BIGINT, place STRING, at BIGINT").option("maxFilesPerTrigger", 1)
    finish(ingest(stream.json(str(folder)), replace(pipeline(lake), definition=definition), once=True))

    assert sorted((row["n"], row["place"]) for row in lake.rows().to_pylist()) == [(1, "y"), (2, "x"), (3, "y")]


def test_a_stop_is_obeyed_between_micro_batches_and_the_next_run_continues(spark: SparkSession, lake: Lake) -> None:
    resource = lake.resource(
        {"rate": {"rowsPerSecond": 200, "keys": 50}},
        table={"recordKey": ["key"], "orderingField": "value"},
        commit={"mode": "checkpoint", "trigger": "0s"},
    )
    rows = 0
    for commits in (2, 3):
        running = ingest_resource(spark, resource)
        while len(lake.instants()) < commits:
            assert running.query is not None
            assert running.query.isActive
            running.wait(0.1)
        running.request_stop()
        assert running.wait(WAIT_SECONDS_MAX)
        rows += running.progress().rows

    assert sorted(lake.rows()["key"].to_pylist()) == list(range(50))
    assert max(lake.rows()["value"].to_pylist()) == rows - 1


@pytest.fixture
def s3_environment(s3_server: S3Server, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The server's address and credentials as the usual variables, for this process and for Spark's Python workers."""
    names = {"endpoint": "AWS_ENDPOINT_URL", "access_key_id": "AWS_ACCESS_KEY_ID", "region": "AWS_REGION"}
    names["secret_access_key"] = "AWS_SECRET_ACCESS_KEY"
    variables = {names[option]: value for option, value in s3_server.options().items()} | {"AWS_ALLOW_HTTP": "true"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    before = dict(spark.sparkContext.environment)
    spark.sparkContext.environment.update(variables)
    yield
    spark.sparkContext.environment.clear()
    spark.sparkContext.environment.update(before)


@pytest.mark.s3
def test_a_table_on_s3_by_storage_options_with_a_local_checkpoint(
    numbers: DataFrame, lake: Lake, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    url = s3_server.create_bucket("own-dataframe") + "/lake/numbers"
    options = s3_server.options()
    finish(ingest(numbers, pipeline(lake, url, storage_options=options), once=True))

    storage = open_storage(url, options)
    logs = [info.path for info in storage.list("") if not info.path.startswith(".hoodie/") and ".log." in info.path]
    blocks = [content for path in logs for content in read_log(storage.get(path))]
    found = [row["square"] for content in blocks if content.rows is not None for row in content.rows.to_pylist()]
    assert sorted(found) == [1, 4, 9]


@pytest.mark.s3
def test_a_checkpoint_where_spark_has_no_file_system_is_reported(
    numbers: DataFrame, lake: Lake, s3_server: S3Server
) -> None:
    bucket = s3_server.create_bucket("checkpoint-too")
    wanted = pipeline(lake, f"{bucket}/t", checkpoint_url=f"{bucket}/c", storage_options=s3_server.options())

    with pytest.raises(QueryFailed) as caught:
        ingest(numbers, wanted, once=True)

    assert str(caught.value) == (
        f"the query cannot start with checkpoint {bucket}/c: "
        'org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "s3"'
    )


@pytest.mark.s3
def test_a_resource_on_s3_takes_its_credentials_from_the_environment(
    s3_environment: None, spark: SparkSession, lake: Lake, tmp_path: Path, s3_server: S3Server
) -> None:
    bucket = s3_server.create_bucket("from-environment")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one.json").write_text('{"id": "a"}\nno json\n{"id": "b"}\n')
    resource = lake.resource(
        {"files": {"path": str(tmp_path / "in"), "format": "json", "schema": "id STRING"}},
        table={"path": f"{bucket}/orders", "recordKey": ["id"]},
        checkpoint={"path": str(lake.checkpoint)},
    )

    finish(ingest_resource(spark, resource, once=True))

    assert sorted(hudi_rs.snapshot(f"{bucket}/orders")["id"].to_pylist()) == ["a", "b"]
    letters = open_storage(f"{bucket}/orders_dead_letters")
    assert len([info for info in letters.list("") if not info.path.startswith(".staging/")]) == 1
