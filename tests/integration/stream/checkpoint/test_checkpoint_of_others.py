"""Generated rows continue with the next value; a user's own query continues, or is rolled back, in its checkpoint."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from bucketingest.cli.exit_code_of_error import exit_code
from bucketingest.errors import BucketIngestError
from bucketingest.exit_codes import ExitCode
from bucketingest.stream import ingest_resource
from bucketingest.stream.errors import CheckpointLost
from support.jobs.recorded_stream import RecordedStream
from support.jobs.stream_runs import WAIT_SECONDS_MAX, Lake

FILES = 6


@pytest.fixture(params=["kept", "lost"])
def lost(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "lost")


def test_generated_rows_have_every_value_once(spark: SparkSession, tmp_path: Path, *, lost: bool) -> None:
    stream = spark.readStream.format("rate").option("rowsPerSecond", 50).load().select("value")
    recorded = RecordedStream(str(tmp_path / "checkpoint"), "rate")
    recorded.run(stream, record=2, once=False)
    recorded.run(stream, begin=1, once=False)
    if lost:
        shutil.rmtree(recorded.root)
    unfinished = recorded.unfinished
    assert unfinished is not None
    made = recorded.run(stream, record=2, once=False)

    assert recorded.batches[2][0].same_rows_as(unfinished)
    assert recorded.rows == list(range(len(recorded.rows)))
    assert len(recorded.rows) >= 100
    assert made.verdict == ("rebuilt" if lost else "resumed")


@pytest.fixture
def numbers(spark: SparkSession, tmp_path: Path) -> Iterator[DataFrame]:
    """A stream of six files, one per micro-batch, with a state."""
    partitions = spark.conf.get("spark.sql.shuffle.partitions") or ""
    spark.conf.set("spark.sql.shuffle.partitions", "1")  # of the state: each takes time
    folder = tmp_path / "numbers"
    folder.mkdir()
    for number in range(FILES):
        (folder / f"{number}.json").write_text(json.dumps({"n": number}) + "\n" + json.dumps({"n": 0}) + "\n")
    stream = spark.readStream.schema("n BIGINT").option("maxFilesPerTrigger", 1).json(str(folder))
    yield stream.dropDuplicates(["n"])
    spark.conf.set("spark.sql.shuffle.partitions", partitions)


@pytest.mark.parametrize("position", [0, 3, 4])
def test_a_users_own_query_with_a_state_goes_back_to_the_table(
    numbers: DataFrame, tmp_path: Path, position: int
) -> None:
    recorded = RecordedStream(str(tmp_path / "checkpoint"), "own")
    recorded.run(numbers)
    assert recorded.rows == list(range(FILES))
    del recorded.batches[position + 1 :]

    made = recorded.run(numbers, record=1)
    recorded.run(numbers)

    assert (made.directory, made.verdict) == ("", "rewound")
    assert recorded.rows == list(range(FILES))
    assert recorded.batches[position + 1][0].batch_id == position + 1


def test_a_users_own_query_that_crashed_before_spark_noted_its_end_is_in_step(
    numbers: DataFrame, tmp_path: Path
) -> None:
    recorded = RecordedStream(str(tmp_path / "checkpoint"), "own")
    recorded.run(numbers, record=3)
    made = recorded.run(numbers, begin=1)
    assert made.verdict == "in step"

    (tmp_path / "checkpoint" / "offsets" / "3").write_text("v1\n{")
    (tmp_path / "checkpoint" / "offsets" / ".3.crc").unlink()
    recorded.unfinished = None
    recorded.run(numbers)

    assert recorded.rows == list(range(FILES))


def test_a_users_own_query_without_its_checkpoint_is_refused(numbers: DataFrame, tmp_path: Path) -> None:
    recorded = RecordedStream(str(tmp_path / "checkpoint"), "own")
    recorded.run(numbers, record=1)
    shutil.rmtree(recorded.root)

    with pytest.raises(CheckpointLost, match="this one has no metadata that can be read"):
        recorded.run(numbers)


def test_a_checkpoint_that_somebody_writes_into_while_the_query_runs_ends_it(spark: SparkSession, lake: Lake) -> None:
    resource = lake.resource({"rate": {"rowsPerSecond": 200}}, table={"recordKey": ["value"]})
    running = ingest_resource(spark, resource)
    deadline = time.monotonic() + WAIT_SECONDS_MAX

    def written_into() -> None:
        while time.monotonic() < deadline and not running.wait(0.2):
            for folder in lake.checkpoint.rglob("offsets"):
                for offsets in [file for file in folder.iterdir() if file.name.isdigit()]:
                    (folder / str(int(offsets.name) + 3)).write_bytes(offsets.read_bytes())

    with pytest.raises(BucketIngestError) as ended:
        written_into()
    assert exit_code(ended.value) is ExitCode.CHECKPOINT_STALE
    values = lake.rows()["value"].to_pylist()
    assert sorted(values) == list(range(len(values)))
