"""What a start finds in its checkpoint directory, for each source, whatever former starts have left."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from bucketingest.storage import Storage, open_storage
from bucketingest.stream.checkpoint.checkpoint import prepare_checkpoint
from bucketingest.stream.checkpoint.positions import CheckpointPositions
from bucketingest.stream.errors import CheckpointLost
from bucketingest.write.coordinator_api import Start, StartVerdict
from bucketingest.write.errors import RangeConflict
from bucketingest.write.instants.source_range import SourceRange, before

ATTEMPT = "attempt-00000003-1"
KAFKA = SourceRange("kafka", '{"t":{"0":3}}', '{"t":{"0":7}}', "gone", 41)
NEXT = SourceRange("kafka", '{"t":{"0":7}}', '{"t":{"0":9,"1":2}}', "gone", 42, timestamp_ms=1234567)
NEW = Start(None, None, StartVerdict.NEW, "the table has nothing of this pipeline")


def in_step(position: SourceRange) -> Start:
    return Start(position, None, StartVerdict.IN_STEP, "nothing was left open")


def resumed(position: SourceRange | None, replay: SourceRange) -> Start:
    return Start(position, replay, StartVerdict.RESUMED, "instant 1 is gone on with")


@pytest.fixture
def root(request: pytest.FixtureRequest) -> Storage:
    name = "".join(char if char.isalnum() else "-" for char in request.node.name)
    return open_storage(f"memory://checkpoint-{name}")


def tree(root: Storage, directory: str) -> dict[str, str]:
    return {info.path.removeprefix(f"{directory}/"): root.get(info.path).decode() for info in root.list(directory)}


def copy_of(root: Storage, directory: str) -> Storage:
    copied = open_storage(f"memory://{root.url.rpartition('/')[2]}-{directory}")
    for path, content in tree(root, directory).items():
        copied.put(path, content.encode())
    return copied


# Kafka


def test_kafka_goes_on_at_the_tables_position_with_the_next_batch_number(root: Storage) -> None:
    made = prepare_checkpoint(root, attempt=ATTEMPT, source="kafka", start=in_step(KAFKA))

    assert made.directory == ATTEMPT
    files = tree(root, ATTEMPT)
    assert sorted(files) == ["commits/41", "metadata", "offsets/40", "offsets/41"]
    assert [files[f"offsets/{each}"].splitlines()[2] for each in (40, 41)] == [KAFKA.start, KAFKA.end]
    assert json.loads(files["metadata"])["id"] != "gone"


def test_kafkas_next_micro_batch_begins_where_the_table_ends(root: Storage) -> None:
    prepare_checkpoint(root, attempt=ATTEMPT, source="kafka", start=in_step(KAFKA))
    checkpoint = copy_of(root, ATTEMPT)
    checkpoint.put("offsets/42", b'v1\n{}\n{"t":{"0":9}}')  # as Spark would go on

    found = CheckpointPositions(checkpoint, "kafka").range_of(42)

    assert (found.start, found.end) == (KAFKA.end, '{"t":{"0":9}}')


@pytest.mark.parametrize("position", [KAFKA, before(NEXT), None], ids=["position", "start only", "none"])
def test_a_kafka_micro_batch_that_was_begun_comes_again_with_exactly_its_range(
    root: Storage, position: SourceRange | None
) -> None:
    prepare_checkpoint(root, attempt=ATTEMPT, source="kafka", start=resumed(position, NEXT))

    checkpoint = copy_of(root, ATTEMPT)
    assert CheckpointPositions(checkpoint, "kafka").range_of(42).same_rows_as(NEXT)
    assert {info.path for info in checkpoint.list("commits")} == {"commits/41"}


def test_kafkas_very_first_micro_batch_comes_again_with_exactly_its_range(root: Storage) -> None:
    first = replace(NEXT, batch_id=0)

    prepare_checkpoint(root, attempt=ATTEMPT, source="kafka", start=resumed(None, first))

    checkpoint = copy_of(root, ATTEMPT)
    assert sorted(tree(root, ATTEMPT)) == ["commits/0", "metadata", "offsets/0", "offsets/1"]
    assert CheckpointPositions(checkpoint, "kafka").range_of(1).same_rows_as(first)


def test_a_begun_micro_batch_begins_where_it_did_with_partitions_that_the_position_does_not_name(root: Storage) -> None:
    replay = replace(NEXT, start='{"t":{"0":7,"1":1}}')

    prepare_checkpoint(root, attempt=ATTEMPT, source="kafka", start=resumed(KAFKA, replay))

    assert CheckpointPositions(copy_of(root, ATTEMPT), "kafka").range_of(42).same_rows_as(replay)


def test_a_start_that_dies_while_it_makes_its_checkpoint_leaves_none(
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


def test_a_begun_micro_batch_that_does_not_follow_the_position_is_planned_anew(root: Storage) -> None:
    gap = replace(NEXT, start='{"t":{"0":8}}')

    prepare_checkpoint(root, attempt=ATTEMPT, source="kafka", start=resumed(KAFKA, gap))

    assert "offsets/42" not in tree(root, ATTEMPT)
    assert tree(root, ATTEMPT)["offsets/41"].endswith(KAFKA.end)


@pytest.mark.parametrize("source", ["kafka", "files", "rate"])
def test_without_position_the_directory_is_empty_whatever_former_starts_left(root: Storage, source: str) -> None:
    for path in ("attempt-00000002-1/metadata", "attempt-00000002-1/commits/5", "metadata", "commits/4"):
        root.put(path, b"of a table that is gone")

    made = prepare_checkpoint(root, attempt=ATTEMPT, source=source, start=NEW)  # type: ignore[arg-type]

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
def test_the_verdict_says_whether_a_former_checkpoint_would_have_done(
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
    ("source", "known"), [("files", KAFKA), ("own", KAFKA), ("kafka", replace(KAFKA, kind="checkpoint"))]
)
def test_a_pipeline_keeps_its_source(root: Storage, source: str, known: SourceRange) -> None:
    with pytest.raises(RangeConflict, match=r"the table was last fed from a \w+ source, this one is \w+: "):
        prepare_checkpoint(root, attempt=ATTEMPT, source=source, start=in_step(known))  # type: ignore[arg-type]


# Generated rows


def rate(batch: int, start: str | None, end: str) -> SourceRange:
    return SourceRange("checkpoint", start, end, "rate-id", batch)


def test_generated_rows_go_on_with_the_time_at_which_they_began(root: Storage) -> None:
    root.put("attempt-00000002-1/metadata", b'{"id":"rate-id"}')
    root.put("attempt-00000002-1/sources/0/0", b"v1\n1700000000000")

    made = prepare_checkpoint(root, attempt=ATTEMPT, source="rate", start=in_step(rate(5, "8", "9")))

    files = tree(root, ATTEMPT)
    assert made.verdict == "in step"
    assert files["sources/0/0"] == "v1\n1700000000000"
    assert json.loads(files["metadata"]) == {"id": "rate-id"}
    assert [files[f"offsets/{each}"].splitlines()[2] for each in (4, 5)] == ["8", "9"]


@pytest.mark.parametrize("left", [None, b"", b"v1\n", b"v1\nno number"])
def test_generated_rows_go_on_with_the_next_value_when_it_is_not_known_when_they_began(
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


@pytest.mark.parametrize("begun", range(6))
def test_a_micro_batch_of_files_that_was_begun_comes_again(root: Storage, begun: int) -> None:
    ranges = spark_ran(root, "attempt-00000002-1", 6)

    start = resumed(ranges[begun - 1] if begun else None, ranges[begun])
    made = prepare_checkpoint(root, attempt=ATTEMPT, source="files", start=start)

    checkpoint = copy_of(root, ATTEMPT)
    assert made.verdict == "resumed"
    assert CheckpointPositions(checkpoint, "checkpoint").range_of(begun).same_rows_as(ranges[begun])
    commits = [info.path for info in checkpoint.list("commits")]
    assert commits == ([f"commits/{begun - 1}"] if begun else [])


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
        f"{root.url}/attempt-00000002-1/sources/0 is not whole up to entry 5. Which files are in the table cannot be "
        "told without it. Restore the checkpoint directories, or give the pipeline another name: then all files are "
        "ingested again, rows of equal keys replacing those in the table"
    )
    assert tree(root, ATTEMPT) == {}

    made = prepare_checkpoint(root, attempt=ATTEMPT, source="files", start=in_step(ranges[2]))
    assert made.verdict == "in step", "what lies after the position does not matter"


def test_nothing_is_made_up_when_no_list_of_files_is_left(root: Storage) -> None:
    ranges = spark_ran(open_storage("memory://elsewhere"), "c", 2)

    with pytest.raises(CheckpointLost, match="no checkpoint is left there"):
        prepare_checkpoint(root, attempt=ATTEMPT, source="files", start=in_step(ranges[1]))


def test_a_begun_micro_batch_whose_files_are_not_known_is_planned_anew(root: Storage) -> None:
    ranges = spark_ran(root, "attempt-00000002-1", 6)
    root.delete("attempt-00000002-1/sources/0/5")

    made = prepare_checkpoint(root, attempt=ATTEMPT, source="files", start=resumed(ranges[4], ranges[5]))

    assert "offsets/5" not in tree(root, ATTEMPT)
    assert tree(root, ATTEMPT)["offsets/4"].endswith('{"logOffset":4}')
    assert made.reason.endswith("the micro-batch that was begun is planned anew: its files are not known")

    root.delete("attempt-00000002-1/sources/0/0")
    root.delete_many([info.path for info in root.list(ATTEMPT)])
    first = prepare_checkpoint(root, attempt="attempt-00000004-1", source="files", start=resumed(None, ranges[0]))
    assert tree(root, "attempt-00000004-1") == {}
    assert first.reason.endswith("the first micro-batch is planned anew: its files are not known")


@pytest.mark.parametrize("query_id", ["files-id", "another"])
def test_a_position_without_fingerprint_goes_by_the_query(root: Storage, query_id: str) -> None:
    spark_ran(root, "attempt-00000002-1", 3)
    position = SourceRange("checkpoint", None, '{"logOffset":2}', query_id, 2)

    if query_id == "files-id":
        assert prepare_checkpoint(root, attempt=ATTEMPT, source="files", start=in_step(position)).verdict == "in step"
    else:
        with pytest.raises(CheckpointLost, match="attempt-00000002-1/sources/0 is of another query"):
            prepare_checkpoint(root, attempt=ATTEMPT, source="files", start=in_step(position))
