"""What a start finds in its checkpoint directory, whatever former starts have left."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from bucketingest.storage import Storage
from bucketingest.stream.checkpoint.checkpoint import prepare_checkpoint
from bucketingest.stream.checkpoint.positions import CheckpointPositions
from bucketingest.write.coordinator_api import Start, StartVerdict
from bucketingest.write.errors import RangeConflict
from bucketingest.write.instants.source_range import SourceRange, before
from support.jobs.checkpoints import ATTEMPT, NEW, copy_of, in_step, resumed, tree

KAFKA = SourceRange("kafka", '{"t":{"0":3}}', '{"t":{"0":7}}', "gone", 41)
NEXT = SourceRange("kafka", '{"t":{"0":7}}', '{"t":{"0":9,"1":2}}', "gone", 42, timestamp_ms=1234567)


# Kafka


def test_kafka_continues_at_the_tables_position_with_the_next_batch_number(root: Storage) -> None:
    made = prepare_checkpoint(root, attempt=ATTEMPT, source="kafka", start=in_step(KAFKA))

    assert made.directory == ATTEMPT
    files = tree(root, ATTEMPT)
    assert sorted(files) == ["commits/41", "metadata", "offsets/40", "offsets/41"]
    assert [files[f"offsets/{each}"].splitlines()[2] for each in (40, 41)] == [KAFKA.start, KAFKA.end]
    assert json.loads(files["metadata"])["id"] != "gone"


def test_kafkas_next_micro_batch_starts_where_the_table_ends(root: Storage) -> None:
    prepare_checkpoint(root, attempt=ATTEMPT, source="kafka", start=in_step(KAFKA))
    checkpoint = copy_of(root, ATTEMPT)
    checkpoint.put("offsets/42", b'v1\n{}\n{"t":{"0":9}}')  # as Spark would continue

    found = CheckpointPositions(checkpoint, "kafka").range_of(42)

    assert (found.start, found.end) == (KAFKA.end, '{"t":{"0":9}}')


@pytest.mark.parametrize("position", [KAFKA, before(NEXT), None], ids=["position", "start only", "none"])
def test_an_unfinished_kafka_micro_batch_runs_again_with_exactly_its_range(
    root: Storage, position: SourceRange | None
) -> None:
    prepare_checkpoint(root, attempt=ATTEMPT, source="kafka", start=resumed(position, NEXT))

    checkpoint = copy_of(root, ATTEMPT)
    assert CheckpointPositions(checkpoint, "kafka").range_of(42).same_rows_as(NEXT)
    assert {info.path for info in checkpoint.list("commits")} == {"commits/41"}


def test_kafkas_very_first_micro_batch_runs_again_with_exactly_its_range(root: Storage) -> None:
    first = replace(NEXT, batch_id=0)

    prepare_checkpoint(root, attempt=ATTEMPT, source="kafka", start=resumed(None, first))

    checkpoint = copy_of(root, ATTEMPT)
    assert sorted(tree(root, ATTEMPT)) == ["commits/0", "metadata", "offsets/0", "offsets/1"]
    assert CheckpointPositions(checkpoint, "kafka").range_of(1).same_rows_as(first)


def test_an_unfinished_micro_batch_keeps_its_start_with_partitions_that_the_position_lacks(root: Storage) -> None:
    replay = replace(NEXT, start='{"t":{"0":7,"1":0}}')

    prepare_checkpoint(root, attempt=ATTEMPT, source="kafka", start=resumed(KAFKA, replay))

    assert CheckpointPositions(copy_of(root, ATTEMPT), "kafka").range_of(42).same_rows_as(replay)


def test_a_start_that_dies_while_it_makes_its_checkpoint_leaves_no_checkpoint(
    root: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    put = type(root).put

    def recording(self: Storage, path: str, data: bytes) -> None:
        written.append(path)
        put(self, path, data)

    monkeypatch.setattr(type(root), "put", recording)
    prepare_checkpoint(root, attempt=ATTEMPT, source="kafka", start=resumed(KAFKA, NEXT))

    assert len(written) == 5
    assert written[-1] == f"{ATTEMPT}/metadata", "the file that makes the directory a checkpoint"


def test_an_unfinished_micro_batch_that_does_not_follow_the_position_is_planned_again(root: Storage) -> None:
    gap = replace(NEXT, start='{"t":{"0":8}}')

    prepare_checkpoint(root, attempt=ATTEMPT, source="kafka", start=resumed(KAFKA, gap))

    assert "offsets/42" not in tree(root, ATTEMPT)
    assert tree(root, ATTEMPT)["offsets/41"].endswith(KAFKA.end)


def test_without_position_the_directory_is_empty_whatever_former_starts_left(root: Storage) -> None:
    for path in ("attempt-00000002-1/metadata", "attempt-00000002-1/commits/5", "metadata", "commits/4"):
        root.put(path, b"of a table that is gone")

    made = prepare_checkpoint(root, attempt=ATTEMPT, source="kafka", start=NEW)

    assert (made.directory, made.verdict, made.reason) == (ATTEMPT, "new", NEW.reason)
    assert tree(root, ATTEMPT) == {}


@pytest.mark.parametrize(
    ("content", "verdict"),
    [
        ("same", "in step"),
        (None, "rebuilt"),
        ("", "rebuilt"),
        ("v1\n{}\n{", "rebuilt"),
        ('v1\n{}\n{"t":{"0":6}}', "rebuilt"),
    ],
)
def test_the_verdict_says_whether_a_former_checkpoint_could_be_used(
    root: Storage, content: str | None, verdict: str
) -> None:
    prepare_checkpoint(root, attempt="attempt-00000002-1", source="kafka", start=in_step(KAFKA))
    path = "attempt-00000002-1/offsets/41"
    if content is None:
        root.delete(path)
    elif content != "same":
        root.put(path, content.encode())

    made = prepare_checkpoint(root, attempt=ATTEMPT, source="kafka", start=in_step(KAFKA))

    assert made.verdict == verdict
    assert made.reason.startswith("nothing was left open")
    assert ("the checkpoint was made from the table" in made.reason) == (verdict == "rebuilt")


def test_with_no_checkpoint_left_it_is_rebuilt_from_the_table(root: Storage) -> None:
    made = prepare_checkpoint(root, attempt=ATTEMPT, source="kafka", start=in_step(KAFKA))

    assert made.verdict == "rebuilt"
    assert made.reason == (
        "nothing was left open; the checkpoint was made from the table: no former checkpoint is left"
    )


def test_rewound_stays_rewound(root: Storage) -> None:
    start = Start(KAFKA, None, StartVerdict.REWOUND, "rows are ingested again")

    assert prepare_checkpoint(root, attempt=ATTEMPT, source="kafka", start=start).verdict == "rewound"


def test_a_directory_of_that_name_is_left_alone(root: Storage) -> None:
    root.put(f"{ATTEMPT}/offsets/99", b"a driver that should be dead")

    made = prepare_checkpoint(root, attempt=ATTEMPT, source="kafka", start=in_step(KAFKA))

    assert made.directory == f"{ATTEMPT}-again-2"
    assert tree(root, ATTEMPT) == {"offsets/99": "a driver that should be dead"}


def test_a_replayed_micro_batch_has_the_time_that_it_had_whatever_became_of_former_checkpoints(root: Storage) -> None:
    prepare_checkpoint(root, attempt=ATTEMPT, source="kafka", start=resumed(KAFKA, NEXT))

    assert json.loads(tree(root, ATTEMPT)["offsets/42"].splitlines()[1])["batchTimestampMs"] == 1234567


@pytest.mark.parametrize(
    ("source", "known"), [("rate", KAFKA), ("own", KAFKA), ("kafka", replace(KAFKA, kind="checkpoint"))]
)
def test_a_pipeline_keeps_its_source(root: Storage, source: str, known: SourceRange) -> None:
    with pytest.raises(RangeConflict, match=r"the table was last fed from a \w+ source, this one is \w+: "):
        prepare_checkpoint(root, attempt=ATTEMPT, source=source, start=in_step(known))  # type: ignore[arg-type]
