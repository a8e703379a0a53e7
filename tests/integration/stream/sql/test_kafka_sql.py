"""The same rows and dead letters whether SQL is evaluated on Arrow or in Spark, which gets what is in doubt."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bucketingest.spec.model import BucketIngest
from bucketingest.stream.errors import QueryFailed
from bucketingest.stream.source.shape import RowShape
from bucketingest.stream.source.sources import read_source
from support.jobs.stream_runs import Lake, NewTopic, Runner, Topic

pytestmark = pytest.mark.kafka

SCHEMA = "id STRING, at TIMESTAMP, n INT, price DECIMAL(10,2), note STRING, gone BOOLEAN, s STRUCT<x: INT, y: STRING>"
ARROW = (
    "SELECT upper(trim(id)) AS id, date_format(at, 'yyyy-MM-dd') AS day, n / 2 AS half, price * n AS total, s.y, "
    "CASE WHEN n <> 0 THEN 100 div n END AS part, coalesce(note, concat('n', n)) AS note, gone "
    "FROM source WHERE n IS NOT NULL AND (id IS NULL OR id <> 'left out')"
)
SPARK = f"{ARROW} AND reverse('') = ''"
DIVIDED = "(CAST(9 AS BIGINT) div CAST(source.n AS BIGINT))"
LEFT = "a micro-batch is left to Spark's SQL"


def resource(lake: Lake, topic: Topic, sql: str, schema: str = SCHEMA, **table: Any) -> BucketIngest:
    return lake.resource(
        topic.source(),
        format={"type": "json", "schema": schema},
        transform={"sql": sql},
        table={"recordKey": ["id"], **table},
    )


def way(spark: SparkSession, wanted: BucketIngest) -> str:
    rows = read_source(spark, wanted)
    return str(RowShape(wanted, wanted.spec.table.delete_when).planned(rows).way())


def send(topic: Topic, rows: Iterable[dict[str, Any]]) -> None:
    topic.send([(None, json.dumps(row).encode()) for row in rows])


def test_both_ways_write_the_same_rows_and_dead_letters(
    run: Runner, tmp_path: Path, new_topic: NewTopic, spark: SparkSession
) -> None:
    topic = new_topic()
    send(
        topic,
        [
            {
                "id": f" k{number} ",
                "at": f"2026-01-0{1 + number % 5}T23:59:59.999999Z",
                "n": number % 7,
                "price": number / 4,
                "note": None if number % 3 else "ä",
                "gone": number % 11 == 0,
                "s": {"x": number, "y": f"y{number}"},
            }
            for number in range(200)
        ],
    )
    bad = [b"no json", b'{"id": "x", "n": "one"}', None]
    topic.send([(None, value) for value in bad])
    send(topic, [{"id": "left out", "n": 1}, {"id": "no number"}, {"n": 5}])

    found = []
    for name, sql in (("arrow", ARROW), ("spark", SPARK)):
        lake = Lake(tmp_path, name)
        wanted = resource(lake, topic, sql, partitionBy=["day"], deleteWhen="gone")
        assert way(spark, wanted).startswith("decoding on Arrow" if name == "arrow" else "decoding in Spark")
        progress = run.once(wanted)
        rows = lake.rows()
        letters = [(each["reason"], each["partition"], each["offset"], each["value"]) for each in lake.letters()]
        found.append((rows.schema, sorted(map(str, rows.to_pylist())), sorted(map(str, letters)), progress.rejected))
    assert found[0] == found[1]
    assert len(found[0][1]) == 181
    assert len(found[0][2]) == 4, "three that are no rows, and a row without a key"


def test_a_micro_batch_with_a_row_in_doubt_is_sparks_and_the_next_is_not(
    run: Runner, lake: Lake, new_topic: NewTopic, caplog: pytest.LogCaptureFixture, spark: SparkSession
) -> None:
    topic = new_topic()
    wanted = resource(lake, topic, "SELECT id, CAST(n AS DOUBLE) AS n FROM source", "id STRING, n STRING")
    assert way(spark, wanted) == "decoding on Arrow: JSON, with spec.transform.sql"

    send(topic, [{"id": "a", "n": "1"}, {"id": "b", "n": "Infinity"}])
    topic.send([(None, b"no json")])
    run.once(wanted)
    assert [each.reason for each in caplog.records if each.message == LEFT] == [  # type: ignore[attr-defined]
        "CAST(source.n AS DOUBLE): not for all of the values"
    ]
    caplog.clear()
    send(topic, [{"id": "c", "n": "-2.5e3"}])
    run.once(wanted)

    assert not [each for each in caplog.records if each.message == LEFT]
    assert {row["id"]: row["n"] for row in lake.rows().to_pylist()} == {"a": 1.0, "b": float("inf"), "c": -2500.0}
    assert [each["value"] for each in lake.letters()] == [b"no json"]


def test_rows_without_a_place_that_spark_makes_are_dead_letters_with_their_messages(
    run: Runner, tmp_path: Path, new_topic: NewTopic, spark: SparkSession
) -> None:
    """Also where a message makes several rows; not where a row is made of several messages, or differs each time."""
    topic = new_topic()
    good = {"id": "a", "n": 1, "list": ["x", "y"]}
    bad = {"id": None, "n": 2, "list": ["x", "y"]}
    send(topic, [good, bad])
    schema = "id STRING, n INT, list ARRAY<STRING>"
    itself = {"topic": topic.name, "partition": 0, "offset": 1, "key": None, "value": json.dumps(bad).encode()}
    of_message = {
        "SELECT *, reverse(id) AS r FROM source": 1,
        "WITH s AS (SELECT id, n, list FROM source WHERE n > 0 AND sqrt(n) > 0) SELECT id, n + 1 + n AS n FROM s t": 1,
        "SELECT id, n, e FROM source LATERAL VIEW explode(list) AS e": 2,
    }
    of_several = ("SELECT id, max(n) AS n FROM source GROUP BY id", "SELECT id, n, rand() AS r FROM source")

    for number, (sql, rows) in enumerate([*of_message.items(), *((each, 0) for each in of_several)]):
        lake = Lake(tmp_path, f"t{number}")
        wanted = resource(lake, topic, sql, schema, **({"deleteWhen": "n > 100"} if number % 2 else {}))
        assert way(spark, wanted).startswith("decoding in Spark")
        assert run.once(wanted).rejected == max(1, rows)
        letters = [{name: each[name] for name in itself} for each in lake.letters()]
        if rows:
            assert letters == [itself] * rows, sql
        else:
            (letter,) = letters
            assert letter["offset"] is None
            assert json.loads(letter["value"])["n"] == 2
        assert {each["reason"] for each in lake.letters()} == {"recordKey"}


@pytest.mark.parametrize(
    "sql", ["SELECT id, 1 div n AS n FROM source", "SELECT id, 1 div n AS n, reverse(id) AS r FROM source"]
)
def test_where_spark_fails_the_query_ends_with_sparks_error(
    run: Runner, lake: Lake, new_topic: NewTopic, sql: str
) -> None:
    topic = new_topic()
    send(topic, [{"id": "a", "n": 1}, {"id": "b", "n": 0}])

    with pytest.raises(QueryFailed, match=r"the query ended with an error: \[DIVIDE_BY_ZERO\]"):
        run.once(resource(lake, topic, sql, "id STRING, n INT"))

    assert not lake.log_files()


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT id, n FROM source", None),
        ("SELECT id, o + 1 AS o FROM (SELECT id, n AS o FROM source WHERE n > 1) WHERE o < 9", None),
        ("SELECT id, sqrt(n) AS n FROM source", "calls sqrt"),
        (
            "SELECT id, CAST(price AS STRING) AS p, CAST(d AS STRING) AS d FROM source",
            "has CAST(source.d AS STRING) of double",
        ),
        (
            "SELECT id, price / 3 AS p FROM source",
            "has (source.price / CAST(3 AS DECIMAL(1,0))) of decimal128(10, 2), decimal128(1, 0)",
        ),
        (
            "SELECT id, date_format(at, 'EEE') AS p FROM source",
            "has date_format(source.at, 'EEE') of timestamp[us, tz=UTC], string",
        ),
        ("SELECT id, id LIKE 'a_b' AS p FROM source", "has source.id LIKE 'a_b' of string, string"),
        ("SELECT id, current_date AS p FROM source", "has current_date()"),
        ("SELECT id, n * 2 + 1 AS p FROM source", None),
        (
            "SELECT id, n + 1 + n AS p FROM source",
            "has ((source.n + 1) + source.n), which Spark may compute in another order",
        ),
        (
            "SELECT id, q + n AS p FROM (SELECT id, n + 1 AS q, n FROM source) i",
            "has (i.q + i.n), which Spark may compute in another order",
        ),
        ("SELECT id, CAST('x' AS INT) AS p FROM source", "has CAST('x' AS INT), whose value Spark has to say"),
        ("SELECT id, n - m AS p FROM source, (SELECT 1 AS m)", "has the operator Join"),
        ("SELECT id, max(n) AS n FROM source GROUP BY id", "calls max"),
        (
            "SELECT id, substring(id, n, 1) AS p FROM source",
            "has substring(source.id, source.n, 1) of string, int32, int32",
        ),
        (
            "SELECT id, lower(id COLLATE UTF8_LCASE) AS p FROM source",
            "has lower(collate(source.id, UTF8_LCASE)), a text with a collation",
        ),
        (
            "SELECT id, CASE WHEN n <> 0 THEN 9 div n END AS p, CASE WHEN n <> 0 THEN 9 div n + 1 END AS q FROM source",
            f"has more than once {DIVIDED}, which can fail and is not always needed",
        ),
    ],
)
def test_what_spark_has_to_evaluate_is_named(
    spark: SparkSession, lake: Lake, new_topic: NewTopic, sql: str, why: str | None
) -> None:
    schema = "id STRING, n INT, price DECIMAL(10,2), d DOUBLE, at TIMESTAMP"
    found = way(spark, resource(lake, new_topic(), sql, schema))
    if why is None:
        assert found == "decoding on Arrow: JSON, with spec.transform.sql"
    else:
        assert found == f"decoding in Spark: spec.transform.sql {why}; messages on Arrow"
