"""Who decodes messages and who evaluates SQL, said before anything is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from bucketingest.decode.decoder_choice import delete_predicate, way_of
from bucketingest.spec.fields.source import FileFormat
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
        "id STRING, m MAP<STRING, TINYINT>, b BINARY",
        "id STRING, address STRUCT<city: STRING, zip INT NOT NULL>, l ARRAY<STRUCT<sku: STRING, t ARRAY<ARRAY<DATE>>>>",
        "`id` STRING, `a b` BIGINT",
    ],
)
def test_json_as_it_is_is_decoded_on_arrow(schema: str) -> None:
    assert way(schema) == "decoding on Arrow: JSON, all columns as they are"


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
        "decoding in Spark: spec.transform.sql calls reverse; messages on Arrow"
    )
    assert way(table={"deleteWhen": "id RLIKE 'x'"}) == (
        "decoding in Spark: spec.table.deleteWhen has RLIKE; messages on Arrow"
    )
    conf = {"spark.sql.json.enablePartialResults": "false"}
    assert way(spark={"conf": conf}).startswith("decoding on Arrow"), "Spark decodes no message"
    conf = {"spark.sql.ansi.enabled": "false"}
    assert way(spark={"conf": conf}).startswith("decoding on Arrow"), "without SQL it says nothing"
    assert way(spark={"conf": conf}, table={"deleteWhen": "id = 'x'"}) == (
        "decoding in Spark: spec.spark.conf sets spark.sql.ansi.enabled; messages on Arrow"
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


def test_avro_is_always_decoded_on_arrow() -> None:
    assert way(AVRO, "avro") == "decoding on Arrow: Avro, all columns as they are"
    assert way(AVRO, "avro", table={"deleteWhen": "id = 'x'"}) == "decoding on Arrow: Avro, with spec.table.deleteWhen"
    conf = {"spark.sql.avro.datetimeRebaseModeInRead": "LEGACY"}
    assert way(AVRO, "avro", spark={"conf": conf}) == "decoding on Arrow: Avro, all columns as they are"


def way_of_files(kind: str = "parquet", options: dict[str, str] | None = None, **spec: Any) -> str:
    files = {"path": "/in", "format": kind, "schema": "id STRING", "options": options or {}}
    return str(way_of(Lake(Path("/lake")).resource({"files": files}, table={"recordKey": ["id"]}, **spec)))


def test_files_are_read_on_arrow_whoever_evaluates_the_sql() -> None:
    assert way_of_files(options={"pathGlobFilter": "*.parquet"}) == way_of_files()
    sql = {"sql": "SELECT upper(id) AS id FROM source"}
    assert way_of_files(transform=sql) == "decoding on Arrow: parquet files, with spec.transform.sql"
    sql = {"sql": "SELECT regexp_extract(id, 'a', 0) AS id FROM source"}
    assert way_of_files(transform=sql) == ("decoding in Spark: spec.transform.sql calls regexp_extract; files on Arrow")


@pytest.mark.parametrize("kind", get_args(FileFormat))
def test_files_of_every_format_are_read_on_arrow(kind: str) -> None:
    assert way_of_files(kind) == f"decoding on Arrow: {kind} files, all columns as they are"


def test_what_deletes_is_the_envelope_or_the_predicate() -> None:
    table = {"recordKey": ["id"]}
    format_ = {"type": "json", "schema": "id STRING"}
    enveloped = {**format_, "envelope": {"type": "debezium"}}

    def predicate(format_: dict[str, Any], **table_: Any) -> str | None:
        return delete_predicate(Lake(Path("/lake")).resource(KAFKA, format=format_, table={**table, **table_}))

    assert predicate(format_) is None
    assert predicate(format_, deleteWhen="gone") == "gone"
    assert predicate(enveloped) == "__deleted"
    assert predicate(enveloped, deleteWhen="a AND b") == "__deleted OR (a AND b)"
    found = Lake(Path("/lake")).resource(KAFKA, format=enveloped, table=table)
    assert str(way_of(found)) == "decoding on Arrow: JSON, with spec.format.envelope"
