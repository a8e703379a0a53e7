"""Before a query starts, its checkpoint must continue where the table ends."""

from __future__ import annotations

import json

import pytest

from bucketingest.storage import Storage, open_storage
from bucketingest.stream.positions import CheckpointPositions
from bucketingest.stream.starting import reconcile
from bucketingest.write.errors import RangeConflict
from bucketingest.write.source_range import SourceRange

KAFKA = SourceRange("kafka", '{"t":{"0":0}}', '{"t":{"0":7}}', "gone", 41)
FILES = SourceRange("checkpoint", None, '{"logOffset":0}', "gone", 0)


@pytest.fixture
def checkpoint(request: pytest.FixtureRequest) -> Storage:
    return open_storage(f"memory://starting-{request.node.name.replace('[', '-').replace(']', '')}")


def paths(storage: Storage) -> list[str]:
    return sorted(info.path for info in storage.list())


def test_without_a_checkpoint_kafka_gets_one_that_ends_where_the_table_does(checkpoint: Storage) -> None:
    reconcile(checkpoint, KAFKA)

    assert paths(checkpoint) == ["commits/0", "metadata", "offsets/0"]
    checkpoint.put("offsets/1", b'v1\n{}\n{"t":{"0":9}}')  # as Spark would go on
    found = CheckpointPositions(checkpoint, "kafka").range_of(1)
    assert (found.start, found.end) == (KAFKA.end, '{"t":{"0":9}}')
    assert found.query_id == json.loads(checkpoint.get("metadata"))["id"] != "gone"


def test_what_is_left_of_a_checkpoint_without_metadata_goes(checkpoint: Storage) -> None:
    for path in ("offsets/5", "commits/4", "sources/0/0", "something of the user's"):
        checkpoint.put(path, b"old")

    reconcile(checkpoint, KAFKA)

    assert paths(checkpoint) == ["commits/0", "metadata", "offsets/0", "something of the user's"]


@pytest.mark.parametrize("position", [KAFKA, FILES], ids=["kafka", "files"])
def test_a_checkpoint_that_is_there_stays_as_it_is(checkpoint: Storage, position: SourceRange) -> None:
    for path in ("metadata", "offsets/0", "commits/0"):
        checkpoint.put(path, b"as it was")

    reconcile(checkpoint, position)

    assert {path: checkpoint.get(path) for path in paths(checkpoint)} == dict.fromkeys(
        ("metadata", "offsets/0", "commits/0"), b"as it was"
    )


def test_nothing_is_made_up_for_a_source_that_cannot_be_positioned(checkpoint: Storage) -> None:
    reconcile(checkpoint, FILES)

    assert paths(checkpoint) == []


def test_a_first_start_and_its_repetition_before_the_first_commit_are_let_through(checkpoint: Storage) -> None:
    reconcile(checkpoint, None)
    assert paths(checkpoint) == []

    checkpoint.put("metadata", b'{"id":"x"}')
    checkpoint.put("offsets/0", b"begun, not committed")
    reconcile(checkpoint, None)


def test_a_checkpoint_ahead_of_the_table_is_refused(checkpoint: Storage) -> None:
    checkpoint.put("commits/0", b'v1\n{"nextBatchWatermarkMs":0}')

    with pytest.raises(RangeConflict, match=r"Delete the checkpoint directory to ingest from the source's beginning$"):
        reconcile(checkpoint, None)
