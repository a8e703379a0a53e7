"""Which way messages are decoded, said before anything is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bucketingest.decode.decoder_choice import way_of
from support.jobs.stream_runs import Lake

KAFKA = {"kafka": {"bootstrapServers": "kafka:9092", "topics": ["orders"]}}


def way(schema: str = "id STRING", kind: str = "json", **spec: Any) -> str:
    table = {"recordKey": ["id"], **spec.pop("table", {})}
    format_ = {"type": kind, "schema": schema, **({"messageName": "a.B"} if kind == "protobuf" else {})}
    resource = Lake(Path("/lake")).resource(KAFKA, format=format_, table=table, **spec)
    return str(way_of(resource))


@pytest.mark.parametrize(
    "schema",
    [
        "id STRING, amount DECIMAL(10,2), n int, at timestamp",
        "id STRING NOT NULL COMMENT 'the, key', d DECIMAL, e decimal( 38 , 18 )",
        "id STRING, address STRUCT<city: STRING, zip INT NOT NULL>, l ARRAY<STRUCT<sku: STRING, t ARRAY<ARRAY<DATE>>>>",
        "`id` STRING, `a b` BIGINT",
    ],
)
def test_json_as_it_is_is_decoded_on_arrow(schema: str) -> None:
    assert way(schema) == "decoding on Arrow: JSON, all columns as they are"


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("id STRING, m MAP<STRING, INT>", "spec.format.schema has the type MAP"),
        ("id STRING, b STRUCT<x: ARRAY<BINARY>>", "spec.format.schema has the type BINARY"),
        ("id STRING, b TINYINT", "spec.format.schema has the type TINYINT"),
        ("id STRING, c VARCHAR(3)", "spec.format.schema has the type VARCHAR"),
        ("id STRING, ID INT", "spec.format.schema is more than names and types"),
        ("id STRING, x INT DEFAULT 3", "spec.format.schema is more than names and types"),
        ("id STRING, s STRING COLLATE UTF8_LCASE", "spec.format.schema is more than names and types"),
    ],
)
def test_a_schema_that_needs_spark_is_named(schema: str, why: str) -> None:
    assert way(schema) == f"decoding in Spark: {why}"


def test_sql_and_deletes_are_on_arrow_as_far_as_their_text_tells() -> None:
    assert way(transform={"sql": "select  *\nfrom SOURCE"}) == "decoding on Arrow: JSON, all columns as they are"
    added = {"sql": "SELECT *, 1 AS one FROM source"}
    assert way(transform=added) == "decoding on Arrow: JSON, with spec.transform.sql"
    assert way(table={"deleteWhen": "id = 'x'"}) == "decoding on Arrow: JSON, with spec.table.deleteWhen"
    assert way(transform=added, table={"deleteWhen": "one = 2"}) == (
        "decoding on Arrow: JSON, with spec.transform.sql and spec.table.deleteWhen"
    )


def test_what_of_sql_deletes_and_settings_needs_spark_is_named() -> None:
    assert way(transform={"sql": "SELECT reverse(id) AS id FROM source"}) == (
        "decoding in Spark: spec.transform.sql calls reverse"
    )
    assert way(table={"deleteWhen": "id RLIKE 'x'"}) == "decoding in Spark: spec.table.deleteWhen has RLIKE"
    conf = {"spark.sql.json.enablePartialResults": "false"}
    assert way(spark={"conf": conf}) == "decoding in Spark: spec.spark.conf sets spark.sql.json.enablePartialResults"
    conf = {"spark.sql.ansi.enabled": "false"}
    assert way(spark={"conf": conf}).startswith("decoding on Arrow"), "without SQL it says nothing"
    assert way(spark={"conf": conf}, table={"deleteWhen": "id = 'x'"}) == (
        "decoding in Spark: spec.spark.conf sets spark.sql.ansi.enabled"
    )


AVRO = '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "string"}]}'


def test_protobuf_is_always_decoded_on_arrow() -> None:
    assert way("AAAA", "protobuf") == "decoding on Arrow: Protobuf, all columns as they are"
    assert way("AAAA", "protobuf", table={"deleteWhen": "id = 'x'"}) == (
        "decoding on Arrow: Protobuf, with spec.table.deleteWhen"
    )
    assert way("AAAA", "protobuf", table={"deleteWhen": "reverse(id) = 'x'"}) == (
        "decoding in Spark: spec.table.deleteWhen calls reverse; messages on Arrow"
    )


def test_avro_as_it_is_is_decoded_on_arrow_and_what_needs_spark_is_named() -> None:
    assert way(AVRO, "avro") == "decoding on Arrow: Avro, all columns as they are"
    assert way("{}", "avro") == "decoding in Spark: spec.format.schema is no Avro schema"
    assert way(AVRO.replace('"string"', '["int", "string"]'), "avro") == (
        "decoding in Spark: spec.format.schema has a union of other than null and one type"
    )
    assert way(AVRO, "avro", table={"deleteWhen": "id = 'x'"}) == "decoding on Arrow: Avro, with spec.table.deleteWhen"
    conf = {"spark.sql.avro.datetimeRebaseModeInRead": "LEGACY"}
    assert way(AVRO, "avro", spark={"conf": conf}) == (
        "decoding in Spark: spec.spark.conf sets spark.sql.avro.datetimeRebaseModeInRead"
    )
    assert way(spark={"conf": conf}).startswith("decoding on Arrow"), "it says nothing about JSON"


def way_of_files(kind: str = "parquet", options: dict[str, str] | None = None, **spec: Any) -> str:
    files = {"path": "/in", "format": kind, "schema": "id STRING", "options": options or {}}
    return str(way_of(Lake(Path("/lake")).resource({"files": files}, table={"recordKey": ["id"]}, **spec)))


def test_parquet_files_are_read_on_arrow_unless_text_says_otherwise() -> None:
    assert way_of_files() == "decoding on Arrow: Parquet files, all columns as they are"
    assert way_of_files(options={"pathGlobFilter": "*.parquet"}) == way_of_files()
    sql = {"sql": "SELECT upper(id) AS id FROM source"}
    assert way_of_files(transform=sql) == "decoding on Arrow: Parquet files, with spec.transform.sql"
    sql = {"sql": "SELECT regexp_extract(id, 'a', 0) AS id FROM source"}
    assert way_of_files(transform=sql) == "decoding in Spark: spec.transform.sql calls regexp_extract"
    options = {"mergeSchema": "true"}
    assert way_of_files(options=options) == "decoding in Spark: spec.source.files.options sets mergeSchema"
    assert way_of_files("csv") == "decoding in Spark: only Kafka's messages and Parquet files are decoded on Arrow"
