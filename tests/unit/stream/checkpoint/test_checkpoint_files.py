"""What a start finds in its checkpoint directory when its source is files or generated rows."""

from __future__ import annotations

import json

import pytest

from bucketingest.storage import Storage, open_storage
from bucketingest.stream.checkpoint.checkpoint import prepare_checkpoint
from bucketingest.stream.checkpoint.positions import CheckpointPositions
from bucketingest.stream.errors import CheckpointLost
from bucketingest.write.instants.source_range import SourceRange
from support.jobs.checkpoints import ATTEMPT, NEW, copy_of, in_step, resumed, tree

# Generated rows


def rate(batch: int, start: str | None, end: str) -> SourceRange:
    return SourceRange("checkpoint", start, end, "rate-id", batch)


def test_generated_rows_continue_with_the_time_at_which_they_started(root: Storage) -> None:
    root.put("attempt-00000002-1/metadata", b'{"id":"rate-id"}')
    root.put("attempt-00000002-1/sources/0/0", b"v1\n1700000000000")

    made = prepare_checkpoint(root, attempt=ATTEMPT, source="rate", start=in_step(rate(5, "8", "9")))

    files = tree(root, ATTEMPT)
    assert made.verdict == "in step"
    assert files["sources/0/0"] == "v1\n1700000000000"
    assert json.loads(files["metadata"]) == {"id": "rate-id"}
    assert [files[f"offsets/{each}"].splitlines()[2] for each in (4, 5)] == ["8", "9"]


def test_new_generated_rows_start_after_the_micro_batch_that_has_none(root: Storage) -> None:
    root.put("attempt-00000002-1/sources/0/0", b"v1\n1700000000000")

    made = prepare_checkpoint(root, attempt=ATTEMPT, source="rate", start=NEW)

    files = tree(root, ATTEMPT)
    assert (made.verdict, made.reason) == ("new", NEW.reason)
    assert files["offsets/0"].splitlines()[2] == "0"
    assert "commits/0" in files
    assert int(files["sources/0/0"].splitlines()[1]) > 1700000000000, "of a table that is gone"


@pytest.mark.parametrize("left", [None, b"", b"v1\n", b"v1\nno number"])
def test_generated_rows_continue_with_the_next_value_when_it_is_not_known_when_they_started(
    root: Storage, left: bytes | None
) -> None:
    if left is not None:
        root.put("attempt-00000002-1/metadata", b'{"id":"rate-id"}')
        root.put("attempt-00000002-1/sources/0/0", left)

    start = resumed(rate(5, "8", "90"), rate(6, "90", "100"))
    made = prepare_checkpoint(root, attempt=ATTEMPT, source="rate", start=start)

    files = tree(root, ATTEMPT)
    assert made.verdict == "rebuilt"
    stamp = json.loads(files["offsets/6"].splitlines()[1])["batchTimestampMs"]
    assert abs(stamp - 100_000 - int(files["sources/0/0"].splitlines()[1])) < 60_000


# Files


def entry(number: int, file: str = "") -> str:
    return json.dumps({"path": f"file:///in/{file or number}.json", "timestamp": 1000 + number, "batchId": number})


def spark_ran(root: Storage, directory: str, batches: int, *, other: int | None = None) -> list[SourceRange]:
    """A file per micro-batch, as Spark would leave it; `other`: from this entry on, other files. Returns the ranges."""
    for number in range(batches):
        line = entry(number, f"other-{number}" if other is not None and number >= other else "")
        root.put(f"{directory}/sources/0/{number}", f"v1\n{line}".encode())
        root.put(f"{directory}/offsets/{number}", f'v1\n{{}}\n{{"logOffset":{number}}}'.encode())
        root.put(f"{directory}/commits/{number}", b"v1\n{}")
    root.put(f"{directory}/metadata", b'{"id":"files-id"}')
    ranges = CheckpointPositions(copy_of(root, directory), "checkpoint")
    return [ranges.range_of(number) for number in range(batches)]


@pytest.mark.parametrize("position", range(6))
def test_the_list_of_files_is_kept_up_to_the_position_and_the_ranges_stay_comparable(
    root: Storage, position: int
) -> None:
    ranges = spark_ran(root, "attempt-00000002-1", 6)

    made = prepare_checkpoint(root, attempt=ATTEMPT, source="files", start=in_step(ranges[position]))

    files = tree(root, ATTEMPT)
    assert made.verdict == "in step"
    assert sorted(path for path in files if path.startswith("sources/")) == [
        f"sources/0/{number}" for number in range(position + 1)
    ]
    assert [path for path in files if path.startswith("commits/")] == [f"commits/{position}"]
    assert files[f"offsets/{position}"].endswith(f'\n{{"logOffset":{position}}}')
    assert CheckpointPositions(copy_of(root, ATTEMPT), "checkpoint").range_of(position) == ranges[position]


@pytest.mark.parametrize("unfinished", range(6))
def test_an_unfinished_micro_batch_of_files_runs_again(root: Storage, unfinished: int) -> None:
    ranges = spark_ran(root, "attempt-00000002-1", 6)

    start = resumed(ranges[unfinished - 1] if unfinished else None, ranges[unfinished])
    made = prepare_checkpoint(root, attempt=ATTEMPT, source="files", start=start)

    checkpoint = copy_of(root, ATTEMPT)
    assert made.verdict == "resumed"
    assert CheckpointPositions(checkpoint, "checkpoint").range_of(unfinished).same_rows_as(ranges[unfinished])
    commits = [info.path for info in checkpoint.list("commits")]
    assert commits == ([f"commits/{unfinished - 1}"] if unfinished else [])


def test_the_log_of_a_driver_that_should_be_dead_is_not_taken_for_the_tables(root: Storage) -> None:
    ranges = spark_ran(root, "attempt-00000001-1", 6)
    spark_ran(root, "attempt-00000002-1", 6, other=3)

    prepare_checkpoint(root, attempt=ATTEMPT, source="files", start=in_step(ranges[4]))

    assert "other" not in "".join(tree(root, ATTEMPT).values())


@pytest.mark.parametrize("lost", ["metadata", "offsets/5", "commits/5"])
@pytest.mark.parametrize("content", [None, b"", b'{"id":"of another query"}'])
def test_files_need_nothing_of_a_former_checkpoint_but_its_list_of_files(
    root: Storage, lost: str, content: bytes | None
) -> None:
    ranges = spark_ran(root, "attempt-00000002-1", 6)
    if content is None:
        root.delete(f"attempt-00000002-1/{lost}")
    else:
        root.put(f"attempt-00000002-1/{lost}", content)

    prepare_checkpoint(root, attempt=ATTEMPT, source="files", start=in_step(ranges[5]))

    assert json.loads(tree(root, ATTEMPT)["metadata"]) == {"id": "files-id"}
    assert len([path for path in tree(root, ATTEMPT) if path.startswith("sources/0/")]) == 6


def test_the_root_itself_is_a_former_checkpoint_where_an_earlier_version_wrote_it(root: Storage) -> None:
    former = "attempt-00000002-1"
    ranges = spark_ran(root, former, 6)
    for path, content in tree(root, former).items():
        root.put(path, content.encode())
        root.delete(f"{former}/{path}")

    made = prepare_checkpoint(root, attempt=ATTEMPT, source="files", start=in_step(ranges[5]))

    assert (made.directory, made.verdict) == (ATTEMPT, "in step")


def test_a_list_of_files_that_is_torn_where_it_matters_is_refused_with_what_can_be_done(root: Storage) -> None:
    ranges = spark_ran(root, "attempt-00000002-1", 6)
    root.put("attempt-00000002-1/sources/0/3", b"v1\n{")

    with pytest.raises(CheckpointLost) as caught:
        prepare_checkpoint(root, attempt=ATTEMPT, source="files", start=in_step(ranges[5]))

    assert str(caught.value) == (
        f"{root.url}: the table has the files up to {ranges[5].end} of the file source's log, and "
        f"{root.url}/attempt-00000002-1/sources/0 is not whole up to entry 5. Without it nothing says which files are "
        "in the table. Restore the checkpoint directories, or give the pipeline another name: then all files are "
        "ingested again, and their rows replace those of equal keys in the table"
    )
    assert tree(root, ATTEMPT) == {}

    made = prepare_checkpoint(root, attempt=ATTEMPT, source="files", start=in_step(ranges[2]))
    assert made.verdict == "in step", "entries after the position do not matter"


def test_nothing_is_made_up_when_no_list_of_files_is_left(root: Storage) -> None:
    ranges = spark_ran(open_storage("memory://elsewhere"), "c", 2)

    with pytest.raises(CheckpointLost, match="no checkpoint is left there"):
        prepare_checkpoint(root, attempt=ATTEMPT, source="files", start=in_step(ranges[1]))


def test_an_unfinished_micro_batch_whose_files_are_not_known_is_planned_again(root: Storage) -> None:
    ranges = spark_ran(root, "attempt-00000002-1", 6)
    root.delete("attempt-00000002-1/sources/0/5")

    made = prepare_checkpoint(root, attempt=ATTEMPT, source="files", start=resumed(ranges[4], ranges[5]))

    assert "offsets/5" not in tree(root, ATTEMPT)
    assert tree(root, ATTEMPT)["offsets/4"].endswith('{"logOffset":4}')
    assert made.reason.endswith("the unfinished micro-batch is planned again: its files are not known")

    root.delete("attempt-00000002-1/sources/0/0")
    root.delete_many([info.path for info in root.list(ATTEMPT)])
    first = prepare_checkpoint(root, attempt="attempt-00000004-1", source="files", start=resumed(None, ranges[0]))
    assert tree(root, "attempt-00000004-1") == {}
    assert first.reason.endswith("the first micro-batch is planned again: its files are not known")


@pytest.mark.parametrize("query_id", ["files-id", "another"])
def test_a_position_without_fingerprint_is_found_by_the_query(root: Storage, query_id: str) -> None:
    spark_ran(root, "attempt-00000002-1", 3)
    position = SourceRange("checkpoint", None, '{"logOffset":2}', query_id, 2)

    if query_id == "files-id":
        assert prepare_checkpoint(root, attempt=ATTEMPT, source="files", start=in_step(position)).verdict == "in step"
    else:
        with pytest.raises(CheckpointLost, match="attempt-00000002-1/sources/0 is of another query"):
            prepare_checkpoint(root, attempt=ATTEMPT, source="files", start=in_step(position))
