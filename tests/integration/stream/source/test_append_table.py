"""Messages without a key of their own are appended: each is one row, known by its place in Kafka, for every reader and
after Hudi's compaction; and what a message has beside its value is the same whoever reads and decodes it.
"""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import Producer

from bucketingest.spec.model import BucketIngest
from bucketingest.stream.errors import InvalidTransform
from support.jobs.stream_runs import Lake, NewTopic, Runner, Topic
from support.oracle import hudi_rs
from support.oracle.client import HudiOracle
from support.oracle.compare import without_meta_columns
from support.oracle.writer import HudiWriter

pytestmark = pytest.mark.kafka

COLUMNS = {
    "topic": "_topic",
    "partition": "_partition",
    "offset": "_offset",
    "timestamp": "_at",
    "key": "_key",
    "headers": "_headers",
}
PLACE = ["_topic", "_partition", "_offset"]
TIME = int(time.time() * 1000) - 1_000_000
"""In ms; what is older than a week Kafka deletes."""
THEIRS = HudiWriter("orders", PLACE, buckets=4)
OF_SPARK = "SELECT *, reverse(_key) AS back FROM source"


def resource_of(lake: Lake, topic: Topic, **spec: Any) -> BucketIngest:
    format_ = {"type": "json", "schema": "n INT"}
    return lake.resource(topic.source(columns=COLUMNS), format=format_, table={}, **spec)


def send(topic: Topic, count: int) -> None:
    """To each of two partitions messages of which many are alike; some have no value, or no text as key."""
    producer = Producer({"bootstrap.servers": topic.broker.bootstrap_servers})
    for partition in (0, 1):
        for number in range(count):
            producer.produce(
                topic.name,
                None if number % 50 == 7 else b'{"n": %d}' % (number % 5),
                {0: None, 1: b"\xff" if number % 50 == 1 else b"a", 2: b"\xc3\xa4"}[number % 3],
                partition=partition,
                timestamp=TIME + number,
                headers=headers_of(number),
            )
    producer.flush(30)


def headers_of(number: int) -> list[tuple[str, str | bytes | None]]:
    headers: list[tuple[str, str | bytes | None]] = [("h", b"%d" % number), ("h", None)]
    return headers[: number % 3]


def rows_of(topic: Topic, runs: int, count: int) -> list[dict[str, Any]]:
    """What `send` has sent in so many runs, in the order of partitions and offsets."""
    return [
        {
            "n": number % 5,
            "_topic": topic.name,
            "_partition": partition,
            "_offset": run * count + number,
            "_at": TIME + number,
            "_key": (None, "a", "\u00e4")[number % 3],
            "_headers": headers_of(number),
        }
        for partition in (0, 1)
        for run in range(runs)
        for number in range(count)
        if number % 50 != 7 and (number % 50, number % 3) != (1, 1)
    ]


def plain(rows: Any) -> list[dict[str, Any]]:
    found = []
    for row in without_meta_columns(rows).to_pylist():
        headers = [(each["key"], each["value"]) for each in row["_headers"] or []]
        found.append({**row, "_at": round(row["_at"].timestamp() * 1000), "_headers": headers})
    return sorted(found, key=lambda row: (row["_partition"], row["_offset"]))


def test_each_message_is_a_row_once_for_every_reader_and_after_hudis_compaction(
    run: Runner, lake: Lake, new_topic: NewTopic, hudi: HudiOracle, caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic(partitions=2)
    resource = resource_of(lake, topic)
    with caplog.at_level("INFO"):
        for _ in range(2):
            send(topic, 100)
            run.once(resource)
    assert "reading Kafka in the tasks" in caplog.messages
    assert plain(hudi_rs.snapshot(lake.table)) == rows_of(topic, 2, 100)
    assert plain(hudi.snapshot(lake.table)) == rows_of(topic, 2, 100)
    details = {letter["detail"] for letter in lake.letters()}
    assert any("the key is not UTF-8 text" in each for each in details)
    assert len(lake.letters()) + len(rows_of(topic, 2, 100)) == 400

    hudi.compact(lake.table, THEIRS)
    send(topic, 100)
    run.once(resource)
    expected = rows_of(topic, 3, 100)
    for rows in (hudi_rs.snapshot(lake.table), hudi.snapshot(lake.table)):
        assert plain(rows) == expected
        key, *_ = rows.select(["_hoodie_record_key", *PLACE]).to_pylist()
        assert key["_hoodie_record_key"] == ",".join(f"{column}:{key[column]}" for column in PLACE)

    through_spark = Lake(lake.folder, "through-spark")
    run.once(resource_of(through_spark, topic, transform={"sql": OF_SPARK}))
    back = [{**row, "back": row["_key"] and row["_key"][::-1]} for row in expected]
    assert plain(hudi_rs.snapshot(through_spark.table)) == back


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT *, explode(array(1, 2)) AS part FROM source", "has the operator Generate, and of a message only"),
        ("SELECT * FROM source UNION ALL SELECT * FROM source", "has the operator Union, and of a message only"),
        ("SELECT * EXCEPT (_offset), n AS _offset FROM source", "makes _offset itself, which says which message"),
    ],
)
def test_sql_that_may_make_several_rows_of_a_message_is_refused(
    run: Runner, lake: Lake, new_topic: NewTopic, sql: str, why: str
) -> None:
    with pytest.raises(InvalidTransform, match=why):
        run.once(resource_of(lake, new_topic(), transform={"sql": sql}))
    assert not lake.table.exists()
