"""What cannot be decoded or has no place in the table becomes a dead letter, once, or fails the run; never dropped."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bucketingest.spec.model import BucketIngest
from bucketingest.write.errors import RowsRejected
from support.jobs.stream_runs import Lake, NewTopic, Runner, Topic

pytestmark = pytest.mark.kafka

CANNOT_DECODE = "the record cannot be decoded with the schema"
NO_VALUE = "the message has no value"


def resource(lake: Lake, topic: Topic, **spec: Any) -> BucketIngest:
    return lake.resource(
        topic.source(maxOffsetsPerTrigger=1000),
        format={"type": "json", "schema": "id STRING, at TIMESTAMP, quantity INT, place STRING"},
        table={"recordKey": ["id"], "orderingField": "at", "partitionBy": ["place"]},
        **spec,
    )


def good(number: int) -> bytes:
    return json.dumps({"id": f"k{number}", "at": "2026-01-01T00:00:00Z", "quantity": number, "place": "here"}).encode()


UNDECODABLE = {
    "no JSON at all": b"no json",
    "cut off": good(900)[:-5],
    "text for a number": good(901).replace(b"901}", b'"x"}').replace(b'"quantity": 901', b'"quantity": "x"'),
    "too large for the column": good(902).replace(b'"quantity": 902', b'"quantity": 99999999999'),
    "a time that is not one": good(903).replace(b"2026-01-01T00:00:00Z", b"yesterday"),
    "an array of rows": b"[" + good(904) + b"," + good(905) + b"]",
    "a number": b"17",
    "JSON's null": b"null",
    "nothing": b"",
    "spaces": b"   ",
    "bytes that are not text": b'{"id": "\xff\xfe", "at": "2026-01-01T00:00:00Z", "quantity": 1, "place": "here"}',
    "two rows in one message": good(906) + good(907),
    "something after the row": good(908) + b" trailing",
}


def test_each_undecodable_message_is_one_dead_letter_with_its_place_in_the_topic(
    run: Runner, lake: Lake, new_topic: NewTopic
) -> None:
    topic = new_topic(partitions=2)
    bad: list[bytes | None] = [*UNDECODABLE.values(), None]
    sent: dict[int, list[tuple[bytes | None, bytes | None]]] = {0: [], 1: []}
    for number, value in enumerate(bad):
        sent[number % 2] += [(b"good", good(number)), (f"bad {number}".encode(), value)]
    for partition, partition_messages in sent.items():
        topic.send(partition_messages, partition=partition)

    progress = run.once(resource(lake, topic))
    run.once(resource(lake, topic))  # nothing comes a second time

    expected = {
        (topic.name, partition, offset): (key, value, NO_VALUE if value is None else CANNOT_DECODE)
        for partition, partition_messages in sent.items()
        for offset, (key, value) in enumerate(partition_messages)
        if key != b"good"
    }
    letters = lake.letters()
    found = {
        (each["topic"], each["partition"], each["offset"]): (
            each["key"],
            each["value"],
            each["detail"].partition(":")[0],
        )
        for each in letters
    }
    assert found == expected
    details = {each["value"]: each["detail"] for each in letters}
    assert details[UNDECODABLE["text for a number"]] == (
        f"{CANNOT_DECODE}: field quantity: Expected `int | null`, got `str`"
    )
    assert details[UNDECODABLE["nothing"]] == f"{CANNOT_DECODE}: the message is empty"
    assert len(letters) == len(expected) == progress.rejected
    assert {each["reason"] for each in letters} == {"decode"}
    assert {each["instant"] for each in letters} == set(lake.instants())
    assert all(each["timestamp"] is not None for each in letters)
    assert sorted(lake.rows()["id"].to_pylist()) == sorted(f"k{number}" for number in range(len(bad)))


def test_rows_without_key_partition_or_ordering_value_are_dead_letters_with_their_reason(
    run: Runner, lake: Lake, new_topic: NewTopic
) -> None:
    topic = new_topic()
    row: dict[str, Any] = {"id": "a", "at": "2026-01-01T00:00:00Z", "quantity": 1, "place": "here"}
    rejected = [row | {"id": None}, row | {"id": ""}, row | {"at": None}, row | {"place": ".."}]
    sent = [row, *rejected, row | {"id": "b", "place": None}]
    topic.send([(b"the key", json.dumps(each).encode()) for each in sent])

    progress = run.once(resource(lake, topic))

    assert progress.rejected == len(rejected)
    letters = sorted(lake.letters(), key=lambda each: each["offset"])
    assert [each["reason"] for each in letters] == ["recordKey", "recordKey", "orderingField", "partitionPath"]
    assert [each["offset"] for each in letters] == [1, 2, 3, 4], "one partition has all of them"
    assert [json.loads(each["value"]) for each in letters] == rejected, "each is the message as it was"
    assert {(each["topic"], each["key"]) for each in letters} == {(topic.name, b"the key")}
    assert all(each["timestamp"] is not None for each in letters)
    assert sorted(lake.rows()["id"].to_pylist()) == ["a", "b"]


def test_a_micro_batch_of_nothing_but_bad_messages_is_committed_and_not_read_again(
    run: Runner, lake: Lake, new_topic: NewTopic
) -> None:
    topic = new_topic()
    wanted = resource(lake, topic)
    topic.send([(None, b"no json"), (None, None)])
    run.once(wanted)
    topic.send([(None, good(1))])
    run.once(wanted)

    why = f"{CANNOT_DECODE}: JSON is malformed: invalid character (byte 4)"
    assert [(each["offset"], each["detail"]) for each in lake.letters()] == [(0, why), (1, NO_VALUE)]
    assert lake.rows()["id"].to_pylist() == ["k1"]


def test_mode_fail_ends_the_run_with_the_first_bad_row_and_shows_nothing_of_the_micro_batch(
    run: Runner, lake: Lake, new_topic: NewTopic
) -> None:
    topic = new_topic()
    strict = resource(lake, topic, errors={"mode": "fail"})
    topic.send([(None, good(1))])
    run.once(strict)
    topic.send([(None, good(2)), (None, b"no json"), (None, good(3))])

    with pytest.raises(RowsRejected) as caught:
        run.once(strict)

    assert str(caught.value) == (
        "1 rows cannot be written. The first: decode: the record cannot be decoded with "
        f"the schema: JSON is malformed: invalid character (byte 4) ({topic.name}, partition 0, offset 2). "
        "Correct the rows, or let a BucketIngest with spec.errors.mode deadLetter set them aside"
    )
    assert lake.rows()["id"].to_pylist() == ["k1"]
    assert len(lake.instants()) == 1
    assert len(lake.log_files()) == 1, "what was written is rolled back"

    # as the message says
    run.once(resource(lake, topic))
    assert sorted(lake.rows()["id"].to_pylist()) == ["k1", "k2", "k3"]
    assert [each["offset"] for each in lake.letters()] == [2]
