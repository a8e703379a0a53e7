"""File groups of a span, whose rows come in the same messages, are written as if each came alone."""

from __future__ import annotations

import itertools
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bucketingest.hudi.naming import bucket_of_file_id, join
from bucketingest.hudi.rollback.markers import marked_files
from bucketingest.index import placing
from bucketingest.storage import Data, Storage, StorageUnavailable, open_storage
from bucketingest.write.plan import WritePlan
from bucketingest.write.rows.bucket_writer import PUBLISHERS, BucketWriter
from bucketingest.write.rows.write_status import WriteStatus
from bucketingest.write.writer import share_of
from support.storage.crashing_storage import Crash, CrashingStorage
from support.storage.flaky_storage import FlakyStorage
from support.storage.passing_storage import PassingStorage
from support.tables.write_plans import (
    INSTANT,
    WITH_DELETES,
    batch,
    definition,
    packed,
    row,
    write,
    write_plan,
    written_files,
)

BUCKETS = 50
ROWS = [row(f"k{n // 3}", region=("eu", "us")[n % 2], amount=n, at=n, deleted=n % 7 == 0) for n in range(600)]
BATCHES = [batch(ROWS[start : start + 50], WITH_DELETES) for start in range(0, len(ROWS), 50)]
SMALL = 4_000
"""A budget that the rows of a few messages exceed."""


def plan_of(**changes: Any) -> WritePlan:
    return write_plan(definition(buckets=BUCKETS), **({"schema": WITH_DELETES, "tasks": 1} | changes))


def content(statuses: list[WriteStatus], plan: WritePlan) -> dict[str, list[tuple[list[dict[str, Any]], list[Any]]]]:
    """Each file's blocks, without what counts rows over all files."""
    found: dict[str, list[tuple[list[dict[str, Any]], list[Any]]]] = {}
    for file in written_files(statuses, plan):
        blocks = found.setdefault(file.path, [])
        for block in file.blocks:
            rows = [] if block.rows is None else block.rows.drop_columns(["_hoodie_commit_seqno"]).to_pylist()
            blocks.append((rows, list(block.deletes)))
    return found


def test_the_files_are_those_of_file_groups_that_come_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, other = plan_of(), plan_of()
    together = write(BATCHES, plan)
    monkeypatch.setattr(placing, "SPAN_BUCKETS", 1)
    alone = write(BATCHES, other)
    assert content(together, plan) == content(alone, other)
    assert [status.rows_received for status in together] == [status.rows_received for status in alone]
    assert len(together) == 2 * BUCKETS
    assert all(bucket_of_file_id(status.file_id) == status.bucket for status in together)


def test_rows_have_numbers_of_their_own() -> None:
    for budget in (SMALL, 2**26):
        plan = plan_of(memory_bytes=budget)
        files = written_files(write(BATCHES, plan), plan)
        numbers = Counter(found["_hoodie_commit_seqno"] for file in files for found in file.stored_rows)
        assert set(numbers.values()) == {1}
        assert sorted(int(each.rpartition("_")[2]) for each in numbers) == list(range(len(numbers)))


def test_a_span_of_more_rows_than_fit_the_budget_is_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    plan, large = plan_of(memory_bytes=SMALL), plan_of()
    statuses = write(BATCHES, plan)
    assert max(status.blocks for status in statuses) > 2
    assert max(status.buffer_bytes for status in statuses) < SMALL
    assert list(tmp_path.iterdir()) == []
    unlimited = write(BATCHES, large)
    assert [(each.file_name, each.rows_received) for each in statuses] == [
        (each.file_name, each.rows_received) for each in unlimited
    ]


def test_a_second_run_adopts_every_file() -> None:
    plan = plan_of()
    write(BATCHES, plan)
    assert all(status.adopted for status in write(BATCHES, plan))


def test_one_without_spans_adopts_the_files_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """An older version wrote the first attempt."""
    plan = plan_of()
    monkeypatch.setattr(placing, "SPAN_BUCKETS", 1)
    write(BATCHES, plan)
    monkeypatch.undo()
    assert all(status.adopted for status in write(BATCHES, plan))


def test_every_file_has_its_marker_and_only_those() -> None:
    plan = plan_of()
    share = share_of(0, packed([BATCHES], plan))
    parts = [whole.slice(start, 3) for whole in share for start in range(0, whole.num_rows, 3)]
    with BucketWriter(plan, open_storage(plan.table_url), task=0) as writer:
        for part in parts:
            writer.write(part)
        statuses = writer.close()
    assert marked_files(open_storage(plan.table_url), INSTANT) == {
        join(status.partition_path, status.file_name) for status in statuses
    }


def test_no_file_of_a_span_is_published_before_its_marker() -> None:
    plan = plan_of()
    refused = FlakyStorage(open_storage(plan.table_url), lambda path: "/MARKERS" in path)
    with pytest.raises(StorageUnavailable):
        write(BATCHES, plan, refused)
    assert not [info.path for info in open_storage(plan.table_url).list("") if ".log." in info.path]


class Meeting(PassingStorage):
    """The first log files are created at the same time, or not at all."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        self._met = threading.Barrier(PUBLISHERS, timeout=20)
        self._numbers = itertools.count()

    def create(self, path: str, data: Data) -> None:
        if ".log." in path and next(self._numbers) < PUBLISHERS:
            self._met.wait()
        super().create(path, data)


def test_the_files_of_a_span_are_published_at_the_same_time() -> None:
    plan = write_plan(definition(buckets=128), tasks=1)
    rows = batch([row(f"k{number}") for number in range(1000)])
    buckets = plan.rules.record_key.columns(rows).bucket_ids(128, plan.rules.hash)
    of_one_span = rows.filter(pa.array(buckets < placing.SPAN_BUCKETS))
    assert len(write([of_one_span], plan, Meeting(open_storage(plan.table_url)))) == placing.SPAN_BUCKETS


@pytest.mark.parametrize("dies_at", [1, 5, 9, 14, 40])
def test_an_attempt_that_ends_within_a_span_is_repeated(
    dies_at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    plan, whole = plan_of(memory_bytes=SMALL), plan_of(memory_bytes=SMALL)
    with pytest.raises(Crash):
        write(BATCHES, plan, CrashingStorage(open_storage(plan.table_url), dies_at, after_effect=True))
    assert list(tmp_path.iterdir()) == []
    assert content(write(BATCHES, plan), plan) == content(write(BATCHES, whole), whole)


def test_rows_of_no_bucket_of_their_span_are_an_error() -> None:
    plan = plan_of()
    sent = packed([BATCHES], plan)
    wrong = [each[:-4] for each in sent["bucket_counts"].to_pylist()]
    column = sent.schema.get_field_index("bucket_counts")
    sent = sent.set_column(column, sent.schema.field(column), [wrong])
    with (
        pytest.raises(AssertionError, match="not as many as sent"),
        BucketWriter(plan, open_storage(plan.table_url), task=0) as writer,
    ):
        writer.write(share_of(0, sent)[0])


@pytest.mark.parametrize(
    ("buckets", "tasks", "length"), [(8, 1, 1), (16, 1, 2), (60, 1, 7), (64, 2, 4), (512, 2, 16), (512, 30, 2)]
)
def test_each_task_gets_spans_enough(buckets: int, tasks: int, length: int) -> None:
    assert placing.span_length(buckets, tasks) == length
    sent = packed(
        [[batch([row(f"k{n}") for n in range(40 * buckets)])]], write_plan(definition(buckets=buckets), tasks=tasks)
    )
    routes = {(each["bucket"], each["route"]) for each in sent.select(["bucket", "route"]).to_pylist()}
    assert len(routes) == -(-buckets // length), "all of a span go to one task"
    assert min(Counter(route for _, route in routes).values()) >= min(8, buckets // tasks)
