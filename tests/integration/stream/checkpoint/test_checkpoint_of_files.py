"""Files are read once each, whatever happens to the checkpoint between two starts, or the start is refused."""

from __future__ import annotations

import copy
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from bucketingest.stream.errors import CheckpointLost
from support.jobs.recorded_stream import RecordedStream

FILES = 15
DONE = 12
"""Files that are in the table at the crash, one per micro-batch; entry 9 of the log is a compact file."""
DAY = 86_400


@pytest.fixture(scope="module")
def incoming(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of a row each, modified a day apart: the first ones are older than Spark's limit of seven days."""
    folder = tmp_path_factory.mktemp("incoming ä") / "in %20"
    folder.mkdir()
    for number in range(FILES):
        file = folder / f"{number:02d} ü%.json"
        file.write_text(json.dumps({"n": number}) + "\n")
        os.utime(file, (1_700_000_000 + number * DAY,) * 2)
    return folder


@pytest.fixture(scope="module")
def stream(spark: SparkSession, incoming: Path) -> Callable[[int], DataFrame]:
    def read(files_per_batch: int) -> DataFrame:
        return spark.readStream.schema("n BIGINT").option("maxFilesPerTrigger", files_per_batch).json(str(incoming))

    return read


@pytest.fixture(scope="module")
def crashed(stream: Callable[[int], DataFrame], tmp_path_factory: pytest.TempPathFactory) -> RecordedStream:
    """A query that ended after its twelfth micro-batch was in the table, before Spark had noted that."""
    recorded = RecordedStream(str(tmp_path_factory.mktemp("crashed")), "files")
    recorded.run(stream(1), record=DONE)
    assert recorded.rows == list(range(DONE))
    return recorded


@pytest.fixture
def left(crashed: RecordedStream, tmp_path: Path) -> RecordedStream:
    """What is left of that query, for this test alone."""
    left = copy.deepcopy(crashed)
    left.root = str(tmp_path / "checkpoint")
    shutil.copytree(crashed.root, left.root)
    return left


def former(left: RecordedStream) -> Path:
    (directory,) = Path(left.root).iterdir()
    return directory


def delete(folder: Path, *names: str) -> int:
    for name in names:
        (folder / name).unlink()
        (folder / name).with_name(f".{Path(name).name}.crc").unlink(missing_ok=True)
    return len(names)


def prune(folder: Path) -> int:
    return delete(folder, *(f"{log}/{number}" for log in ("commits", "offsets") for number in range(8)))


def only_metadata(folder: Path) -> None:
    for each in ("commits", "offsets", "sources"):
        shutil.rmtree(folder / each)


HARMLESS: dict[str, Callable[[Path], object]] = {
    "nothing": lambda folder: None,
    "no last commit": lambda folder: delete(folder, "commits/10"),
    "no last commit, no last offsets": lambda folder: delete(folder, "commits/10", "offsets/11"),
    "no last offsets, its commit there": lambda folder: shutil.move(folder / "offsets/11", folder / "commits/11"),
    "old commits and offsets pruned": prune,
    "no commits at all": lambda folder: shutil.rmtree(folder / "commits"),
    "no metadata": lambda folder: delete(folder, "metadata"),
    "metadata of another query": lambda folder: (folder / "metadata").write_text('{"id":"x"}'),
    "empty metadata": lambda folder: (folder / "metadata").write_text(""),
    "torn last offsets": lambda folder: (folder / "offsets/11").write_text("v1\n{"),
    "torn last commit": lambda folder: (folder / "commits/10").write_text(""),
    "a torn entry after the position": lambda folder: (folder / "sources/0/12").write_text("v"),
}
REFUSED: dict[str, Callable[[Path], object]] = {
    "only metadata left": only_metadata,
    "no sources": lambda folder: shutil.rmtree(folder / "sources"),
    "torn list of files": lambda folder: (folder / "sources/0/11").write_text("v1\n{"),
    "torn compact list of files": lambda folder: (folder / "sources/0/9.compact").write_text("v1\n"),
    "another list of files": lambda folder: (folder / "sources/0/11").write_text(
        (folder / "sources/0/11").read_text().replace("/11%20", "/12%20")
    ),
    "the whole root gone": shutil.rmtree,
}


@pytest.mark.parametrize("damage", HARMLESS)
def test_every_file_is_read_once_after(damage: str, left: RecordedStream, stream: Callable[[int], DataFrame]) -> None:
    HARMLESS[damage](former(left))

    left.run(stream(2))

    assert left.rows == list(range(FILES))
    assert left.batches[DONE][0].start == left.batches[DONE - 1][0].end


@pytest.mark.parametrize("damage", REFUSED)
def test_a_start_is_refused_after(damage: str, left: RecordedStream, stream: Callable[[int], DataFrame]) -> None:
    REFUSED[damage](former(left))

    with pytest.raises(CheckpointLost, match="Without it nothing says which files are in the table"):
        left.run(stream(2))


@pytest.mark.parametrize("position", [0, 1, 8, 9, 10])
def test_files_after_a_position_that_was_rolled_back_are_read_again(
    position: int, left: RecordedStream, stream: Callable[[int], DataFrame]
) -> None:
    del left.batches[position + 1 :]

    left.run(stream(20), record=1)
    assert left.rows == list(range(FILES)), "even those that are older than the limit, seen from the newest file"
    assert left.run(stream(20)).verdict == "in step"
    assert left.rows == list(range(FILES))


def test_a_recreated_table_gets_all_files(left: RecordedStream, stream: Callable[[int], DataFrame]) -> None:
    left.batches.clear()

    assert left.run(stream(20)).verdict == "new"

    assert left.rows == list(range(FILES))


@pytest.mark.parametrize("before", [0, 1, 8, 9, 10])
def test_an_unfinished_micro_batch_runs_again_with_its_files(
    before: int, stream: Callable[[int], DataFrame], left: RecordedStream
) -> None:
    """At the very first one, and around the entries that are compact files."""
    position = left.batches[before - 1][0] if before else None
    left.unfinished = left.batches[before][0]
    del left.batches[before:]
    assert left.position == position

    left.run(stream(20))

    assert left.batches[before][1] == [before], "one file, as it was, though twenty may be taken now"
    assert left.rows == list(range(FILES))


def test_start_after_start_with_crashes_between_reads_every_file_once(
    stream: Callable[[int], DataFrame], tmp_path: Path
) -> None:
    recorded = RecordedStream(str(tmp_path / "checkpoint"), "files")
    crashes = [(1, None), (2, None), (None, 3), (1, None), (None, 8), (1, None), (None, None)]
    for begin, record in crashes:
        recorded.run(stream(1), begin=begin, record=record)

    assert recorded.rows == list(range(FILES))
    directories = sorted(path.name for path in Path(recorded.root).iterdir())
    assert directories == [f"attempt-{number:08d}-1" for number in (4, 5, 6, 7)], "old ones are swept"
    assert [batch.batch_id for batch, _ in recorded.batches] == list(range(FILES))
    assert len({batch.query_id for batch, _ in recorded.batches}) == 1
