"""The checkpoint of a user's own query is used in place, and rolled back to the table's position."""

from __future__ import annotations

import pytest

from bucketingest.storage import Storage, open_storage
from bucketingest.stream.checkpoint.checkpoint import PreparedCheckpoint, prepare_checkpoint
from bucketingest.stream.errors import CheckpointLost
from bucketingest.write.coordinator_api import Start, StartVerdict
from bucketingest.write.errors import RangeConflict
from bucketingest.write.instants.source_range import SourceRange

ADVICE = "Restore the checkpoint, or give the pipeline another name and checkpoint to ingest everything again"


@pytest.fixture
def root(request: pytest.FixtureRequest) -> Storage:
    """Micro-batches 0 to 5 done, 6 started."""
    storage = open_storage(f"memory://own-{''.join(c if c.isalnum() else '-' for c in request.node.name)}")
    storage.put("metadata", b'{"id":"mine"}')
    for number in range(7):
        storage.put(f"offsets/{number}", f"v1\n{{}}\n{number * 10}".encode())
        storage.put(f"offsets/.{number}.crc", b"Hadoop's")
    for number in range(6):
        storage.put(f"commits/{number}", b"v1\n{}")
        storage.put(f"commits/.{number}.crc", b"Hadoop's")
    storage.put("state/0/0/1.delta", b"Spark's")
    return storage


def at(batch: int) -> SourceRange:
    return SourceRange("checkpoint", str(batch * 10 - 10), str(batch * 10), "mine", batch)


def start(position: SourceRange | None, verdict: StartVerdict = StartVerdict.IN_STEP) -> Start:
    return Start(position, None, verdict, "as the test says")


def prepare(root: Storage, wanted: Start) -> PreparedCheckpoint:
    return prepare_checkpoint(root, attempt="attempt-00000001-1", source="own", start=wanted)


def left(root: Storage, folder: str) -> list[int]:
    names = {info.path.rpartition("/")[2] for info in root.list(folder)}
    numbers = sorted(int(name) for name in names if name.isdigit())
    assert names == {str(n) for n in numbers} | {f".{n}.crc" for n in numbers}, "checksums are deleted with their files"
    return numbers


def test_a_checkpoint_in_step_stays_as_it_is(root: Storage) -> None:
    before = {info.path: root.get(info.path) for info in root.list()}

    made = prepare(root, start(at(5)))

    assert made == PreparedCheckpoint("", "in step", "as the test says")
    assert {info.path: root.get(info.path) for info in root.list()} == before


@pytest.mark.parametrize("position", range(5))
def test_a_checkpoint_ahead_of_the_table_is_rolled_back_and_the_next_micro_batch_runs_as_it_was(
    root: Storage, position: int
) -> None:
    made = prepare(root, start(at(position)))

    assert (made.directory, made.verdict) == ("", "rewound")
    assert made.reason == f"as the test says; the checkpoint was rolled back from micro-batch 5 to {position}"
    assert left(root, "offsets") == list(range(position + 2))
    assert left(root, "commits") == list(range(position + 1))


def test_micro_batches_that_spark_would_skip_come_again(root: Storage) -> None:
    """Without commits Spark runs only the last micro-batch of the offset log."""
    root.delete_many([f"commits/{name}" for number in (4, 5) for name in (number, f".{number}.crc")])

    prepare(root, start(at(3)))

    assert left(root, "offsets") == [0, 1, 2, 3, 4]


def test_everything_runs_again_when_the_first_instant_was_rolled_back(root: Storage) -> None:
    made = prepare(root, start(None, StartVerdict.REWOUND))

    assert (left(root, "offsets"), left(root, "commits")) == ([0], [])
    assert made.reason.endswith("the checkpoint was rolled back from micro-batch 5 to its start")

    root.put("commits/3", b"v1\n{}")
    root.delete("offsets/0")
    with pytest.raises(CheckpointLost, match="the checkpoint does not reach back to its first micro-batch"):
        prepare(root, start(None, StartVerdict.REWOUND))


def test_a_first_start_and_its_repetition_before_the_first_commit_are_accepted() -> None:
    empty = open_storage("memory://own-first")
    assert prepare(empty, start(None, StartVerdict.NEW)).verdict == "new"
    assert list(empty.list()) == []

    empty.put("metadata", b'{"id":"mine"}')
    empty.put("offsets/0", b"v1\n{}\n0")
    assert prepare(empty, start(None, StartVerdict.NEW)).verdict == "new"


def test_a_checkpoint_with_commits_is_refused_for_a_table_that_has_nothing(root: Storage) -> None:
    with pytest.raises(RangeConflict, match=r"Delete the checkpoint directory to ingest from the source's beginning$"):
        prepare(root, start(None, StartVerdict.NEW))


def test_a_torn_plan_of_the_next_micro_batch_is_made_again(root: Storage) -> None:
    root.put("offsets/6", b"v1\n{")

    prepare(root, start(at(5)))

    assert left(root, "offsets") == [0, 1, 2, 3, 4, 5]


def test_a_torn_last_commit_is_deleted_and_spark_runs_that_micro_batch_again(root: Storage) -> None:
    root.put("commits/5", b"")

    assert prepare(root, start(at(5))).verdict == "in step"

    assert left(root, "commits") == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("damage", "position", "wrong"),
    [
        ({"metadata": None}, 5, "query mine, and this one has no metadata that can be read"),
        ({"metadata": b""}, 5, "query mine, and this one has no metadata that can be read"),
        ({"metadata": b'{"id":"x"}'}, 5, "query mine, and this one is that of query x"),
        ({}, 8, "the table has the rows up to micro-batch 8, and the checkpoint lacks offsets/8, or it is torn"),
        ({"offsets/5": b"v1"}, 5, "up to micro-batch 5, and the checkpoint lacks offsets/5, or it is torn"),
        ({f"offsets/{n}": None for n in range(6)}, 3, "micro-batch 3, and the checkpoint starts at micro-batch 6"),
        ({f"offsets/{n}": None for n in range(7)}, 3, "micro-batch 3, and the checkpoint has no micro-batch"),
        ({"offsets/4": None, "offsets/6": None}, 5, "Spark needs offsets/4 to continue after micro-batch 5, and it is"),
        ({"offsets/5": b"v1\n{}\n51"}, 5, "micro-batch 5 up to 50, and the checkpoint has it up to 51"),
    ],
)
def test_a_checkpoint_that_cannot_continue_at_the_position_is_refused(
    root: Storage, damage: dict[str, bytes | None], position: int, wrong: str
) -> None:
    for path, content in damage.items():
        if content is None:
            root.delete(path)
        else:
            root.put(path, content)
    before = {info.path for info in root.list()}

    with pytest.raises(CheckpointLost) as caught:
        prepare(root, start(at(position)))

    assert wrong in str(caught.value)
    assert str(caught.value).endswith(ADVICE)
    assert {info.path for info in root.list()} == before
