"""Instants that failed, rolled back by Hudi's own writer and by `bucketingest rollback`: Hudi and hudi-rs judge."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bucketingest.cli.main import call
from bucketingest.hudi.naming import LogFileName, deterministic_file_id
from bucketingest.hudi.rollback.markers import create_marker, mark_files, marked_files
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.storage import open_storage
from support.oracle import hudi_rs
from support.oracle.client import HudiInstant, HudiOracle
from support.oracle.compare import assert_same_rows
from support.oracle.environment import OracleError
from support.oracle.writer import HudiWriter
from support.tables.local_writer import LocalWriter

pytestmark = pytest.mark.hudi

SCHEMA = pa.schema(
    [("id", pa.string()), ("region", pa.string()), ("at", pa.timestamp("us", tz="UTC")), ("value", pa.string())]
)
KEY = ["region", "id"]
DEFINITION = TableDefinition("judged", ("id",), ("region",), "at", buckets=4)
HUDI = HudiWriter("judged", ["id"], ["region"], "at", buckets=4)
WITH_SERVER = replace(
    HUDI, extra={"hoodie.embed.timeline.server": "true", "hoodie.write.markers.type": "TIMELINE_SERVER_BASED"}
)
"""Hudi's default: its timeline server reads and deletes markers, and is stricter about their names."""
EAGER = "Found commits after time"
LONG = timedelta(hours=1)


def rows(*keys: str, at: int, value: str) -> pa.Table:
    count = len(keys)
    columns: dict[str, list[Any]] = {"id": list(keys), "region": ["eu", "us"] * count, "at": [at] * count}
    columns["region"] = columns["region"][:count]
    return pa.table(columns | {"value": [value] * count}, schema=SCHEMA)


def judge(hudi: HudiOracle, path: Path, expected: pa.Table) -> None:
    """Both readers see exactly these rows."""
    assert_same_rows(hudi.snapshot(path), expected, KEY)
    assert_same_rows(hudi_rs.snapshot(path), expected, KEY)


def writer_of(path: Path, pipeline: str = "test") -> LocalWriter:
    """An attempt whose instants span all micro-batches it is given."""
    return LocalWriter(path, DEFINITION, SCHEMA, pipeline=pipeline, commit_interval=LONG)


def begin_and_die(path: Path, *batches: pa.Table) -> str:
    """An attempt that writes these micro-batches into one instant and never commits it; returns its request time."""
    writer = writer_of(path)
    for batch in batches:
        outcome = writer.commit(batch)
        assert outcome.commit is None
    assert outcome.instant_time is not None
    return outcome.instant_time


def names_with(path: Path, instant: str) -> list[str]:
    """Every file that carries the instant's time, apart from what coordinates attempts and tells of rollbacks."""
    storage = open_storage(str(path))
    return sorted(info.path for info in storage.list("") if instant in info.path and "/.bucketingest/" not in info.path)


def pending(hudi: HudiOracle, path: Path) -> list[HudiInstant]:
    return [instant for instant in hudi.instants(path) if instant.completed is None]


@pytest.mark.parametrize("other", [HUDI, WITH_SERVER], ids=["direct markers", "timeline server"])
def test_hudis_eager_writer_rolls_back_every_micro_batch_of_an_open_instant(
    other: HudiWriter, hudi: HudiOracle, tmp_path: Path
) -> None:
    first = rows("a", "b", "c", at=1, value="first")
    writer = writer_of(tmp_path)
    writer.commit(first)
    writer.coordinator.commit_open()
    lost = [rows("b", "d", "e", at=2, value="lost"), rows("b", "f", at=3, value="lost")]
    instant = begin_and_die(tmp_path, *lost)
    storage = open_storage(str(tmp_path))
    versions = {LogFileName.parse(file.rpartition("/")[2]).version for file in marked_files(storage, instant)}
    assert versions == {1, 2}
    # A crash between a marker and its file: Hudi must not stumble over it.
    mark_files(storage, instant, [f"eu/{LogFileName(deterministic_file_id(3), instant, 3)}"])

    theirs = rows("x", "y", at=4, value="theirs")
    hudi.upsert(tmp_path, theirs, other)

    assert names_with(tmp_path, instant) == [f".hoodie/.heartbeat/{instant}"], "Hudi leaves the heartbeat alone"
    assert pending(hudi, tmp_path) == []
    judge(hudi, tmp_path, pa.concat_tables([first, theirs]))

    successor = writer_of(tmp_path)
    assert names_with(tmp_path, instant) == []
    for batch in lost:
        successor.commit(batch)
    successor.coordinator.commit_open()
    expected = {(row["region"], row["id"]): row for batch in (first, theirs, *lost) for row in batch.to_pylist()}
    judge(hudi, tmp_path, pa.Table.from_pylist(list(expected.values()), schema=SCHEMA))


def test_after_completion_the_markers_are_gone_and_hudis_writer_leaves_our_rows(
    hudi: HudiOracle, tmp_path: Path
) -> None:
    writer = writer_of(tmp_path)
    first, second = rows("a", "b", at=1, value="first"), rows("c", "d", at=1, value="second")
    for batch in (first, second):
        writer.commit(batch)
    commit = writer.coordinator.commit_open()
    assert commit is not None
    assert not (tmp_path / ".hoodie" / ".temp" / commit.instant_time).exists()

    theirs = rows("x", at=4, value="theirs")
    hudi.upsert(tmp_path, theirs, HUDI)

    judge(hudi, tmp_path, pa.concat_tables([first, second, theirs]))


def test_markers_that_a_crash_left_behind_do_a_completed_instant_no_harm(hudi: HudiOracle, tmp_path: Path) -> None:
    writer = writer_of(tmp_path)
    first = rows("a", "b", at=1, value="first")
    writer.commit(first)
    commit = writer.coordinator.commit_open()
    assert commit is not None
    storage = open_storage(str(tmp_path))
    for info in list(storage.list("")):
        partition, _, name = info.path.rpartition("/")
        if commit.instant_time in name and not info.path.startswith(".hoodie/"):
            create_marker(storage, commit.instant_time, partition, name)
    assert marked_files(storage, commit.instant_time)

    theirs = rows("x", at=4, value="theirs")
    hudi.upsert(tmp_path, theirs, HUDI)
    hudi.compact(tmp_path, HUDI)

    judge(hudi, tmp_path, pa.concat_tables([first, theirs]))


def test_the_command_frees_hudis_eager_writer_from_a_rollback_that_it_cannot_finish(
    hudi: HudiOracle, tmp_path: Path
) -> None:
    other = writer_of(tmp_path, "another")  # its start would settle what it finds
    instant = begin_and_die(tmp_path, rows("a", "b", at=1, value="lost"))
    (tmp_path / ".hoodie" / ".heartbeat" / instant).unlink()
    later = rows("c", "d", at=2, value="later")
    other.commit(later)
    other.coordinator.commit_open()
    for _ in range(2):
        with pytest.raises(OracleError, match=EAGER):
            hudi.upsert(tmp_path, rows("x", at=3, value="theirs"), HUDI)
    assert "rollback" in {each.action for each in pending(hudi, tmp_path)}

    assert call(["rollback", str(tmp_path), "--force"]) == 0

    assert names_with(tmp_path, instant) == []
    assert pending(hudi, tmp_path) == []
    judge(hudi, tmp_path, later)
    theirs = rows("x", at=3, value="theirs")
    hudi.upsert(tmp_path, theirs, HUDI)
    judge(hudi, tmp_path, pa.concat_tables([later, theirs]))
    hudi.compact(tmp_path, HUDI)
    again = rows("a", "b", at=1, value="lost")
    successor = writer_of(tmp_path)
    successor.commit(again)
    successor.coordinator.commit_open()
    judge(hudi, tmp_path, pa.concat_tables([later, theirs, again]))


def test_the_command_takes_back_an_instant_of_hudis_own_writer(hudi: HudiOracle, tmp_path: Path) -> None:
    first = rows("a", "b", at=1, value="first")
    writer = writer_of(tmp_path)
    writer.commit(first)
    writer.coordinator.commit_open()
    hudi.upsert(tmp_path, rows("c", at=2, value="theirs"), HUDI)
    theirs = hudi.instants(tmp_path)[-1]
    timeline = tmp_path / ".hoodie" / "timeline"
    (timeline / f"{theirs.requested}_{theirs.completed}.deltacommit").unlink()  # as if it had died before its commit
    for crc in timeline.glob(f".{theirs.requested}_*.crc"):
        crc.unlink()
    assert names_with(tmp_path, theirs.requested)

    assert call(["rollback", str(tmp_path), "--force"]) == 0
    assert [each.requested for each in pending(hudi, tmp_path)] == [theirs.requested]
    assert call(["rollback", str(tmp_path), "--instant", theirs.requested, "--force"]) == 0

    assert [name for name in names_with(tmp_path, theirs.requested) if not name.endswith(".crc")] == []
    again = rows("d", at=2, value="theirs")
    hudi.upsert(tmp_path, again, HUDI)
    judge(hudi, tmp_path, pa.concat_tables([first, again]))


@pytest.mark.parametrize("completions", [1, 2])
def test_hudi_takes_a_rollback_that_two_writers_finished_at_once(
    hudi: HudiOracle, tmp_path: Path, completions: int
) -> None:
    begin_and_die(tmp_path, rows("a", "b", at=1, value="lost"))
    assert call(["rollback", str(tmp_path), "--force"]) == 0
    timeline = tmp_path / ".hoodie" / "timeline"
    (completed,) = timeline.glob("*_*.rollback")
    if completions == 2:
        request, _, completion = completed.stem.partition("_")
        twin = timeline / f"{request}_{int(completion) + 1}.rollback"
        twin.write_bytes(completed.read_bytes())
    for at in (3, 4):  # the second one gives the compaction log files
        theirs = rows("x", "y", at=at, value="theirs")
        hudi.upsert(tmp_path, theirs, HUDI)
    hudi.compact(tmp_path, HUDI)
    judge(hudi, tmp_path, theirs)
