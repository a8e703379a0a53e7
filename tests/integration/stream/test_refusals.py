"""A wrong resource is reported in one sentence: the field, what Spark makes of it, and what is available."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bucketingest.errors import BucketIngestError
from bucketingest.hudi.errors import UnsupportedTable
from bucketingest.stream.errors import InvalidTransform, QueryFailed
from support.jobs.stream_runs import Lake, Runner

KAFKA: dict[str, Any] = {"kafka": {"bootstrapServers": "127.0.0.1:9", "topics": ["t"]}}
FORMAT = {"type": "json", "schema": "id STRING, at TIMESTAMP"}
TABLE = {"recordKey": ["id"]}

AVRO_FIELD = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "strng"}]}'
COLUMNS = "columns of source: id, at"
REFUSED: dict[str, tuple[dict[str, Any], type[BucketIngestError], list[str]]] = {
    "a schema that is not DDL": (
        {"format": {"type": "json", "schema": "id STRNG"}},
        InvalidTransform,
        [
            "spec.format.schema has the type STRNG of id, which is not decoded; known are STRING, BINARY, BOOLEAN,",
            "TINYINT, BYTE, SMALLINT, SHORT, INT, INTEGER, BIGINT, LONG, FLOAT, REAL, DOUBLE, DATE, TIMESTAMP,",
            "TIMESTAMP_LTZ, DECIMAL, ARRAY, MAP, STRUCT",
        ],
    ),
    "an invalid Avro schema": (
        {"format": {"type": "avro", "schema": AVRO_FIELD}},
        InvalidTransform,
        ["spec.format.schema has the type strng, which is not defined, in field a"],
    ),
    "an Avro schema of no record": (
        {"format": {"type": "avro", "schema": '"string"'}},
        InvalidTransform,
        ["spec.format.schema is not a record"],
    ),
    "an unknown column in the SQL": (
        {"transform": {"sql": "SELECT idd FROM source"}},
        InvalidTransform,
        [
            "spec.transform.sql: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with",
            "name `idd` cannot be resolved. Did you mean one of the following? [`id`, `at`].",
            f"SQLSTATE: 42703; line 1 pos 7; {COLUMNS}",
        ],
    ),
    "invalid SQL": (
        {"transform": {"sql": "SELEC id FROM source"}},
        InvalidTransform,
        [
            "spec.transform.sql: [PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'.",
            f"SQLSTATE: 42601 (line 1, pos 0); {COLUMNS}",
        ],
    ),
    "an unknown view": (
        {"transform": {"sql": "SELECT * FROM orders"}},
        InvalidTransform,
        [
            "spec.transform.sql: [TABLE_OR_VIEW_NOT_FOUND] The table or view `orders` cannot be found.",
            f"Verify the spelling and correctness of the schema and catalog.; {COLUMNS}",
        ],
    ),
    "an unknown column in the delete predicate": (
        {"table": {**TABLE, "deleteWhen": "gone"}},
        InvalidTransform,
        [
            "spec.table.deleteWhen: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with",
            "name `gone` cannot be resolved. Did you mean one of the following? [`at`, `id`].",
            "SQLSTATE: 42703; line 1 pos 0; columns of the table: id, at",
        ],
    ),
    "columns that the rows lack": (
        {"table": {"recordKey": ["id", "nr"], "partitionBy": ["dt"], "orderingField": "ts"}},
        UnsupportedTable,
        [
            "table as specified is refused:\n  -",
            "spec.table.recordKey: the rows have no column 'nr'; columns are id, at\n  -",
            "spec.table.partitionBy: the rows have no column 'dt'; columns are id, at\n  -",
            "spec.table.orderingField: the rows have no column 'ts'; columns are id, at",
        ],
    ),
}
"""Resource, error, and the parts of its message, which a space separates."""


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_resource_is_refused_before_anything_is_written(case: str, run: Runner, lake: Lake) -> None:
    changes, kind, parts = REFUSED[case]
    message = " ".join(parts)
    wanted = lake.resource(**{"source": KAFKA, "format": FORMAT, "table": TABLE, **changes})

    with pytest.raises(kind) as caught:
        run.once(wanted)

    assert str(caught.value) == message
    assert not (lake.table / ".hoodie").exists()


def test_without_connector_jars_the_message_says_how_to_get_them(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
from bucketingest.stream.errors import MissingConnector
from support.jobs.stream_runs import Lake, Runner
from bucketingest.stream.spark.session import build_session
lake = Lake(Path(sys.argv[1]))
kafka = {"kafka": {"bootstrapServers": "127.0.0.1:9", "topics": ["t"]}}
resource = lake.resource(kafka, format={"type": "json", "schema": "id STRING"}, table={"recordKey": ["id"]})
try:
    Runner(build_session(resource)).once(resource)
except MissingConnector as error:
    print(error)
"""
    environment = {**os.environ, "BUCKETINGEST_JARS": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout == (
        "Spark has no Kafka source: its jars are missing. Run `make connectors`, name a folder that holds them in "
        "BUCKETINGEST_JARS, or set spark.conf spark.jars.packages\n"
    )


def test_an_error_of_spark_is_one_line_without_its_stack(run: Runner, lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one.json").write_text('{"id": 1}\n')
    wanted = lake.resource(
        {"files": {"path": str(tmp_path / "in"), "format": "json", "schema": "id BIGINT"}},
        table={"recordKey": ["id"]},
        transform={"sql": "SELECT id, CAST(raise_error('the cause') AS STRING) AS x FROM source"},
    )

    with pytest.raises(QueryFailed) as caught:
        run.once(wanted)

    assert str(caught.value) == "the query ended with an error: [USER_RAISED_EXCEPTION] the cause SQLSTATE: P0001"


def test_a_directory_that_is_not_there_is_named(run: Runner, lake: Lake, tmp_path: Path) -> None:
    source = {"files": {"path": str(tmp_path / "nowhere"), "format": "json", "schema": "id BIGINT"}}
    with pytest.raises(BucketIngestError) as caught:
        run.once(lake.resource(source, table={"recordKey": ["id"]}))

    assert str(caught.value) == (
        f"spec.source.files.path: there is no directory {tmp_path}/nowhere. Make it, or correct the path"
    )
