"""One write task from its shuffle batches to its report: scratch files, partition marks, twins and failures."""

from __future__ import annotations

import tempfile
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bucketingest.hudi.naming import join
from bucketingest.hudi.rollback.markers import marked_files
from bucketingest.storage import StorageUnavailable, open_storage
from bucketingest.write.errors import ConflictingAttempt
from bucketingest.write.plan import WritePlan
from bucketingest.write.rows.adoption import CHUNK_BYTES
from bucketingest.write.rows.bucket_writer import BucketWriter, write_task
from bucketingest.write.rows.write_status import WriteStatus, statuses_from_arrow
from bucketingest.write.writer import share_of
from support.storage.crashing_storage import Crash, CrashingStorage
from support.storage.flaky_storage import FlakyStorage
from support.tables.write_plans import INSTANT, batch, definition, packed, row, rows_in, write, write_plan

ROWS = [row(f"k{n}", region=("eu", "us")[n % 2], amount=n, at=n) for n in range(40)]
SMALL = 300
"""A budget that a few rows exceed, so that handles go to scratch disk."""


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where scratch files appear during a test."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def objects(plan: WritePlan) -> dict[str, bytes]:
    storage = open_storage(plan.table_url)
    return {info.path: storage.get(info.path) for info in storage.list("")}


def batches(rows: list[dict[str, Any]], size: int = 4) -> list[pa.RecordBatch]:
    return [batch(rows[start : start + size]) for start in range(0, len(rows), size)]


def test_a_task_without_rows_reports_once_that_it_has_nothing() -> None:
    (report,) = write_task([], write_plan(), 7)
    assert statuses_from_arrow(pa.Table.from_batches([report])) == [WriteStatus(7)]


def test_a_task_reports_one_file_per_file_group() -> None:
    plan = write_plan(tasks=1)
    (report,) = write_task(share_of(0, packed([batches(ROWS)], plan)), plan, 0)
    statuses = statuses_from_arrow(pa.Table.from_batches([report]))
    assert len({(status.partition_path, status.bucket) for status in statuses}) == len(statuses) == 8
    assert sum(status.rows_received for status in statuses) == 40
    assert {status.size_bytes for status in statuses} == {
        len(data) for path, data in objects(plan).items() if ".log." in path and not path.startswith(".hoodie/")
    }


def test_every_file_is_marked_for_hudis_rollback_before_it_is_published() -> None:
    changed: list[str] = []

    def watch(path: str) -> bool:
        changed.append(path)
        return False

    plan = write_plan(tasks=1)
    statuses = write(ROWS, plan, FlakyStorage(open_storage(plan.table_url), watch))
    assert len(statuses) == 8
    for status in statuses:
        file = join(status.partition_path, status.file_name)
        (marked,) = (path for path, data in objects(plan).items() if f"{file}.marker.CREATE\n".encode() in data)
        assert changed.index(marked) < changed.index(file)
    files = {join(status.partition_path, status.file_name) for status in statuses}
    assert marked_files(open_storage(plan.table_url), INSTANT) == files


def test_the_file_groups_of_a_shuffle_batch_have_one_marker_object() -> None:
    plan = write_plan(tasks=1)
    batches = share_of(0, packed([[batch([each]) for each in ROWS]], plan))
    halves = [half for whole in batches for half in (whole.slice(0, 3), whole.slice(3))]
    with BucketWriter(plan, open_storage(plan.table_url), task=0) as writer:
        for half in halves:
            writer.write(half)
        statuses = writer.close()
    markers = [path for path in objects(plan) if path.startswith(f".hoodie/.temp/{INSTANT}/")]
    assert len(statuses) == 8
    assert 0 < len(markers) <= len(halves)
    files = {join(status.partition_path, status.file_name) for status in statuses}
    assert marked_files(open_storage(plan.table_url), INSTANT) == files


def test_a_file_whose_marker_cannot_be_written_is_not_published() -> None:
    plan = write_plan(tasks=1)
    storage = FlakyStorage(
        open_storage(plan.table_url), lambda path: path.startswith(f".hoodie/.temp/{INSTANT}/MARKERS")
    )
    with pytest.raises(StorageUnavailable):
        write(ROWS, plan, storage)
    assert not [path for path in objects(plan) if ".log." in path]


def test_a_task_that_runs_again_finds_its_markers_there() -> None:
    plan = write_plan()
    write(ROWS, plan)
    assert all(status.adopted for status in write(ROWS, plan))


def test_a_partition_is_marked_once_and_known_ones_not_at_all() -> None:
    plan = write_plan()
    write(ROWS, plan)
    marks = {path: data for path, data in objects(plan).items() if path.endswith(".hoodie_partition_metadata")}
    assert sorted(marks) == ["eu/.hoodie_partition_metadata", "us/.hoodie_partition_metadata"]
    assert f"commitTime={INSTANT}\npartitionDepth=1\n".encode() in marks["eu/.hoodie_partition_metadata"]
    known = write_plan(partitions=type(plan.partitions).of(["eu", "us"]))
    write(ROWS, known)
    assert not any(path.endswith("metadata") for path in objects(known))


def test_a_task_marks_a_partition_at_its_first_file_group_only() -> None:
    marked: list[str] = []

    def watch(path: str) -> bool:
        marked.extend([path] if path.endswith("metadata") else [])
        return False

    plan = write_plan(tasks=1)
    write(ROWS, plan, FlakyStorage(open_storage(plan.table_url), watch))
    assert sorted(marked) == ["eu/.hoodie_partition_metadata", "us/.hoodie_partition_metadata"]


def test_the_same_input_makes_the_same_bytes() -> None:
    for budget in (SMALL, 2**26):
        plans = [write_plan(memory_bytes=budget) for _ in range(2)]
        for plan in plans:
            write(batches(ROWS), plan)
        assert objects(plans[0]) == objects(plans[1])


def test_a_second_run_adopts_every_file_and_writes_nothing() -> None:
    plan = write_plan()
    first = write(ROWS, plan)
    before = {info.path: info.etag for info in open_storage(plan.table_url).list("")}
    second = write(ROWS, plan)
    assert [status.adopted for status in first] == [False] * len(first)
    assert [status.adopted for status in second] == [True] * len(second)
    assert {info.path: info.etag for info in open_storage(plan.table_url).list("")} == before


@pytest.mark.parametrize("shuffled", [False, True], ids=["equal bytes", "another order"])
def test_a_large_spilled_file_group_is_adopted_without_being_held_in_memory(scratch: Path, *, shuffled: bool) -> None:
    rows = [row(str(uuid.uuid4()), amount=n) for n in range(40_000)]
    plan = write_plan(definition(buckets=1), memory_bytes=500_000, tasks=1)
    write(batches(rows, 5000), plan)
    storage = open_storage(plan.table_url)
    size = max(info.size for info in storage.list("eu"))
    assert size > CHUNK_BYTES, "it is read in several pieces"
    again = rows[::-1] if shuffled else rows

    class NoWholeObjects(FlakyStorage):
        def get(self, path: str) -> bytes:
            assert ".log." not in path, "the whole object was read into memory"
            return super().get(path)

        def get_range(self, path: str, start: int, length: int) -> bytes:
            assert length <= CHUNK_BYTES
            return super().get_range(path, start, length)

    statuses = write(batches(again, 5000), plan, NoWholeObjects(storage, lambda _: False))
    assert all(status.adopted for status in statuses)
    assert list(scratch.iterdir()) == []


def test_a_twin_whose_object_is_replaced_while_it_is_read_compares_one_object(scratch: Path) -> None:
    """Another writer deleted it, and a start put an empty one under its name, which is longer."""
    plan = write_plan()
    write(ROWS, plan)
    storage = open_storage(plan.table_url)

    class Replaced(FlakyStorage):
        def get_range(self, path: str, start: int, length: int) -> bytes:
            piece = super().get_range(path, start, length)
            storage.put(path, piece + b"of another object")
            return piece

    statuses = write(batches(ROWS), plan, Replaced(storage, lambda _: False))
    assert all(status.adopted for status in statuses)
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    "change", [{"memory_bytes": SMALL}, {"log_block": "avro"}, {}], ids=["blocks", "format", "order"]
)
def test_a_twin_with_the_same_rows_in_another_order_or_form_adopts_and_reports_the_size_of_what_is_there(
    change: dict[str, Any], scratch: Path
) -> None:
    rows = [*ROWS, row("nulls") | {"amount": None}]
    plan = write_plan()
    write(rows, plan)
    before = objects(plan)
    statuses = write(batches(rows[::-1]), write_plan(table_url=plan.table_url, **change))
    assert all(status.adopted for status in statuses)
    assert objects(plan) == before
    for status in statuses:
        assert status.size_bytes == len(before[join(status.partition_path, status.file_name)])
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    "other",
    [
        ROWS[:-1],
        [*ROWS, row("more")],
        [*ROWS[:-1], ROWS[-1] | {"amount": -1}],
        [*ROWS[:-1], ROWS[-1] | {"amount": None}],
    ],
    ids=["fewer", "more", "another value", "a null"],
)
@pytest.mark.parametrize("budget", [SMALL, 2**26], ids=["scratch", "memory"])
def test_a_twin_with_other_rows_is_a_conflict(other: list[dict[str, Any]], budget: int, scratch: Path) -> None:
    plan = write_plan(memory_bytes=budget)
    write(batches(ROWS), plan)
    before = objects(plan)
    with pytest.raises(ConflictingAttempt) as conflict:
        write(batches(other), plan)
    assert str(conflict.value).endswith(
        "was written by another attempt of this micro-batch with other rows: the input is not the same when it is "
        "read again (a function such as rand() in transform.sql, or data lost at the source)"
    )
    assert objects(plan) == before
    assert list(scratch.iterdir()) == []


def test_the_same_row_twice_is_not_the_same_as_once() -> None:
    """Without an ordering field and with a small budget both stay, in two blocks."""
    table = definition(buckets=1, ordering_field=None)
    plan = write_plan(table, memory_bytes=10)
    write([row("k")], plan)
    with pytest.raises(ConflictingAttempt):
        write([row("k"), row("k")], plan)


def test_scratch_files_are_used_and_removed(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    mkstemp = tempfile.mkstemp

    def remember(*args: Any, **kwargs: Any) -> tuple[int, str]:
        descriptor, name = mkstemp(*args, **kwargs)
        made.append(name)
        return descriptor, name

    monkeypatch.setattr(tempfile, "mkstemp", remember)
    plan = write_plan(memory_bytes=SMALL)
    rows = [row(f"k{n}", amount=n, at=n) for n in range(400)]
    statuses = write(batches(rows), plan)
    assert len(made) == 4
    assert len(rows_in(statuses, plan)) == 400
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("dies_at", range(12))
def test_scratch_files_are_removed_when_the_storage_fails(scratch: Path, dies_at: int) -> None:
    plan = write_plan(memory_bytes=SMALL)
    storage = CrashingStorage(open_storage(plan.table_url), dies_at, after_effect=False)
    rows = [row(f"k{n}", region=f"r{n % 4}", at=n) for n in range(800)]
    with pytest.raises(Crash):
        write(batches(rows), plan, storage)
    assert list(scratch.iterdir()) == []


def test_scratch_files_are_removed_when_the_input_fails(scratch: Path) -> None:
    plan = write_plan(definition(buckets=1), memory_bytes=SMALL, tasks=1)
    share = share_of(0, packed([batches([row(f"k{n}", at=n) for n in range(400)])], plan))
    seen: list[int] = []

    def input_that_fails() -> Any:
        yield from share
        seen.append(len(list(scratch.iterdir())))
        raise Crash

    with pytest.raises(Crash):
        list(write_task(input_that_fails(), plan, 0))
    assert seen == [1]
    assert list(scratch.iterdir()) == []


def test_a_failed_publication_fails_the_task() -> None:
    plan = write_plan()
    flaky = FlakyStorage(open_storage(plan.table_url), lambda path: "/.00000002-" in path)
    with pytest.raises(Exception, match="503"):
        write(ROWS, plan, flaky)
    assert all(not status.adopted or status.file_id for status in write(ROWS, plan))
    assert len(rows_in(write(ROWS, plan), plan)) == 40
