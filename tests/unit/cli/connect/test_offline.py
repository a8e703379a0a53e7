"""What validate finds without a connection, so that run need not find it after its start."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bucketingest.cli.connect.offline import offline_problems
from support.jobs.stream_runs import Lake

KAFKA = {"kafka": {"bootstrapServers": "kafka:9092", "topics": ["t"]}}
TABLE = {"recordKey": ["id"], "partitionBy": ["day"], "orderingField": "at"}
COLUMNS = "id STRING, day DATE, at TIMESTAMP"


def problems(schema: str = COLUMNS, kind: str = "json", source: Any = KAFKA, **spec: Any) -> list[str]:
    format_ = {"format": {"type": kind, "schema": schema}} if source is KAFKA else {}
    found = Lake(Path("/lake")).resource(source, table=TABLE | spec.pop("table", {}), **format_, **spec)
    return [f"{each.field} {each.wrong}" for each in offline_problems(found)]


def test_a_spec_without_mistakes_has_no_problems() -> None:
    assert problems() == []
    assert problems(transform={"sql": "SELECT upper(id) AS id, current_date() AS day, at FROM source"}) == []
    assert problems(table={"deleteWhen": "id LIKE '(%'"}) == []


@pytest.mark.parametrize(
    ("kind", "column", "wrong"),
    [
        ("json", "v TIMESTAMP_NTZ", "has the type TIMESTAMP_NTZ of v"),
        ("csv", "v VARCHAR(3)", "has the type VARCHAR in v"),
        ("parquet", "v INTERVAL DAY TO SECOND", "has the type INTERVAL of v"),
        ("csv", "l ARRAY<INT>", "has the type ARRAY<INT>, which is not read from csv"),
    ],
)
def test_types_that_files_are_not_read_as(kind: str, column: str, wrong: str) -> None:
    (found,) = problems(source={"files": {"path": "/in", "format": kind, "schema": f"{COLUMNS}, {column}"}})
    assert found.startswith(f"spec.source.files.schema {wrong}")


AVRO = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "string"}]}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("id STRING, at TIMESTAMP", "spec.table.partitionBy: the rows have no column 'day'; columns are id, at"),
        ("id STRING, day DATE, At TIMESTAMP", "spec.table.orderingField: the rows have no column 'at'"),
        ("key STRING, day DATE, at TIMESTAMP", "spec.table.recordKey: the rows have no column 'id'"),
        (f"{COLUMNS}, ID INT", "has the columns id and ID, which differ in case only"),
        (f"{COLUMNS}, amount DECIMAL(39,2)", "has DECIMAL(39,2) in amount"),
        (f"{COLUMNS}, u STRUCT<member0: INT, member1: STRING>", "take a struct of the fields member0, member1, ..."),
    ],
)
def test_columns_that_no_table_can_have_are_told(schema: str, said: str) -> None:
    (found,) = problems(schema)
    assert said in found
    files = {"files": {"path": "/in", "format": "parquet", "schema": schema}}
    (found,) = problems(source=files)
    assert said in found


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("id DOUBLE, day DATE, at INT", "key column 'id' has type double: the text of such a number depends on"),
        ("id BINARY, day DATE, at INT", "key column 'id' has type binary, which has no text in a record key"),
        ("id INT, day FLOAT, at INT", "key column 'day' has type float: the text of such a number depends on"),
        ("id INT, day TIMESTAMP, at INT", "partition by a DATE, or by text, which spec.transform.sql makes: date(day)"),
        ("id INT, day DATE, at ARRAY<INT>", "orderingField: column 'at' has type list<element: int32>, whose values"),
        ("id INT, day DATE, at MAP<STRING, INT>", "orderingField: column 'at' has type map<string, int32>, whose"),
        ("id INT, day DATE, at STRUCT<x: INT>", "orderingField: column 'at' has type struct<x: int32>, whose values"),
        ("id INT, day DATE, at BINARY", "orderingField: column 'at' has type binary, whose values Hudi's readers"),
    ],
)
def test_a_type_that_readers_or_writers_do_not_take_alike_is_told_with_the_way_out(schema: str, said: str) -> None:
    (found,) = problems(schema)
    assert said in found
    assert problems(schema, transform={"sql": "SELECT string(id) AS id, date(day) AS day, at FROM source"}) == []


def test_a_time_without_a_zone_is_told_with_the_way_out() -> None:
    local = {"name": "at", "type": {"type": "long", "logicalType": "local-timestamp-micros"}}
    schema = {**AVRO, "fields": [*AVRO["fields"], local]}
    (found,) = problems(json.dumps(schema), "avro", table={"partitionBy": [], "orderingField": None})
    assert "hudi-rs 0.5 cannot open a table with a TIMESTAMP_NTZ column; cast it to TIMESTAMP or STRING" in found


def test_avros_columns_are_known_too() -> None:
    (found,) = problems(json.dumps(AVRO), "avro")
    assert "partitionBy: the rows have no column 'day'" in found
    several = {**AVRO, "fields": [*AVRO["fields"], {"name": "u", "type": ["int", "string"]}]}
    assert "for a union" in problems(json.dumps(several), "avro", table={"partitionBy": [], "orderingField": None})[0]
    assert problems(json.dumps(several), "avro", transform={"sql": "SELECT id, u.member0 AS u FROM source"}) == []


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELEC * FROM source", "begins with 'selec', not with SELECT"),
        ("SELECT * FROM orders", "does not read the view source: SELECT ... FROM source"),
        ("SELECT * FORM source", "does not read the view source"),
        ("SELECT 'it FROM source", "has a ' that is not closed"),
        ("SELECT (id FROM source", "has a bracket that is not closed with )"),
        ("SELECT id) FROM source", "has a ) that closes nothing"),
        (";", "begins with ';', not with SELECT"),
    ],
)
def test_sql_that_is_no_query_is_told(sql: str, said: str) -> None:
    (found,) = problems(transform={"sql": sql})
    assert found.startswith(f"spec.transform.sql {said}")


@pytest.mark.parametrize(
    "sql",
    [
        "select * from source",
        "(SELECT id FROM `source`)",
        "WITH x AS (SELECT * FROM source) SELECT * FROM x",
        "FROM source SELECT id",
        "-- it's all\nSELECT * FROM source",
        "SELECT * FROM (SELECT *, ')' AS q FROM SOURCE) /* ( */",
        "TABLE source",
    ],
)
def test_sql_that_may_be_a_query_is_left_to_spark(sql: str) -> None:
    assert problems(transform={"sql": sql}) == []


def test_a_predicate_that_is_not_closed_is_told() -> None:
    assert problems(table={"deleteWhen": "id IN ('a'"}) == [
        "spec.table.deleteWhen has a bracket that is not closed with )"
    ]


@pytest.mark.parametrize(
    ("predicate", "why"),
    [
        ("gone =", "ends with ="),
        ("id = 'a' AND", "ends with AND"),
        ("-- nothing", "is empty"),
        ("gone", "names the column gone; the rows have id, day, at"),
        ("`gone`", "names the column gone; the rows have id, day, at"),
        ("NOT gone", "names the column gone; the rows have id, day, at"),
        ("source.gone", None),
        ("ID", None),
        ("true", None),
        ("id IS NULL", None),
    ],
)
def test_a_predicate_that_cannot_be_one_is_told(predicate: str, why: str | None) -> None:
    assert problems(table={"deleteWhen": predicate}) == ([] if why is None else [f"spec.table.deleteWhen {why}"])
    if why is not None and "names" in why:
        assert problems(table={"deleteWhen": predicate}, transform={"sql": "SELECT *, id AS gone FROM source"}) == []
