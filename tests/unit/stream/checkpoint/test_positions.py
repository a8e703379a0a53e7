"""The text forms of Spark's checkpoint files, and the errors when they are not as expected."""

from __future__ import annotations

import json

import pytest

from bucketingest.storage import Storage, open_storage
from bucketingest.stream.checkpoint.positions import CheckpointPositions
from bucketingest.stream.errors import CheckpointUnreadable

CONFIGURATION = '{"batchWatermarkMs":0,"batchTimestampMs":1795258000000,"conf":{"spark.sql.shuffle.partitions":"200"}}'
ADVICE = "Start again: each start makes a checkpoint of its own from the table, and says what is missing if it cannot"


@pytest.fixture
def checkpoint(request: pytest.FixtureRequest) -> Storage:
    storage = open_storage(f"memory://positions-{request.node.name.replace('[', '-').replace(']', '')}")
    storage.put("metadata", b'{"id":"6f1c3c44-0000-0000-0000-000000000000"}')
    return storage


def put_offsets(checkpoint: Storage, batch: int, *sources: str) -> None:
    checkpoint.put(f"offsets/{batch}", "\n".join(["v1", CONFIGURATION, *sources]).encode())


def test_a_kafka_micro_batch_lies_between_two_entries_of_the_offset_log(checkpoint: Storage) -> None:
    put_offsets(checkpoint, 6, '{"orders":{"1":5,"0":20}}')
    put_offsets(checkpoint, 7, '{"orders":{"1":9,"0":20}}')

    found = CheckpointPositions(checkpoint, "kafka").range_of(7)

    assert (found.start, found.end) == ('{"orders":{"0":20,"1":5}}', '{"orders":{"0":20,"1":9}}')
    assert (found.kind, found.batch_id) == ("kafka", 7)
    assert found.query_id == "6f1c3c44-0000-0000-0000-000000000000"


@pytest.mark.parametrize("before", ["", "\0"], ids=["plain", "zero-byte-first"])
def test_the_first_kafka_micro_batch_begins_at_the_initial_offsets(checkpoint: Storage, before: str) -> None:
    checkpoint.put("sources/0/0", f'{before}v1\n{{"orders":{{"0":3}}}}'.encode())
    put_offsets(checkpoint, 0, '{"orders":{"0":8}}')

    found = CheckpointPositions(checkpoint, "kafka").range_of(0)

    assert (found.start, found.end) == ('{"orders":{"0":3}}', '{"orders":{"0":8}}')


def test_generated_rows_begin_at_nothing(checkpoint: Storage) -> None:
    put_offsets(checkpoint, 0, "3")

    found = CheckpointPositions(checkpoint, "checkpoint").range_of(0)

    assert (found.start, found.end) == (None, "3")


def test_several_sources_are_a_list_in_which_a_dash_is_null(checkpoint: Storage) -> None:
    put_offsets(checkpoint, 0, '{"logOffset":0}', "-", "17")

    assert json.loads(CheckpointPositions(checkpoint, "checkpoint").range_of(0).end) == [{"logOffset": 0}, None, 17]


@pytest.mark.parametrize("content", ["", "v1", "v2\n{}\n{}", f"v1\n{CONFIGURATION}"])
def test_an_offset_log_of_another_form_is_refused(checkpoint: Storage, content: str) -> None:
    checkpoint.put("offsets/0", content.encode())

    with pytest.raises(CheckpointUnreadable) as caught:
        CheckpointPositions(checkpoint, "checkpoint").range_of(0)

    assert str(caught.value) == f"{checkpoint.url}/offsets/0: its form is not that of Spark 4.2. {ADVICE}"


@pytest.mark.parametrize("torn", ['{"logOff', "\0\0\0"])
def test_a_torn_entry_is_refused(checkpoint: Storage, torn: str) -> None:
    put_offsets(checkpoint, 0, torn)

    with pytest.raises(CheckpointUnreadable) as caught:
        CheckpointPositions(checkpoint, "checkpoint").range_of(0)

    assert str(caught.value) == f"{checkpoint.url}/offsets/0: its form is not that of Spark 4.2. {ADVICE}"


@pytest.mark.parametrize("missing", ["metadata", "offsets/4", "offsets/3"])
def test_a_missing_file_is_named(checkpoint: Storage, missing: str) -> None:
    put_offsets(checkpoint, 3, '{"orders":{"0":1}}')
    put_offsets(checkpoint, 4, '{"orders":{"0":2}}')
    checkpoint.delete(missing)

    with pytest.raises(CheckpointUnreadable) as caught:
        CheckpointPositions(checkpoint, "kafka").range_of(4)

    assert str(caught.value) == f"{checkpoint.url}/{missing}: it is missing. {ADVICE}"


@pytest.mark.parametrize("content", ["v2\n{}", "v1\nno json", "v1"])
def test_initial_offsets_of_another_form_are_refused(checkpoint: Storage, content: str) -> None:
    checkpoint.put("sources/0/0", content.encode())
    put_offsets(checkpoint, 0, '{"orders":{"0":8}}')

    with pytest.raises(CheckpointUnreadable, match=r"/sources/0/0: its form is not that of Spark 4\.2\. Start again"):
        CheckpointPositions(checkpoint, "kafka").range_of(0)
