"""The stages of a job that writes many tables, run without an engine: who gets which rows, and what fails for whom."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from bucketingest.decode.kafka.client_options import Client
from bucketingest.decode.kafka.errors import TopicInDoubt, TopicSilent
from bucketingest.decode.kafka.ranges import TopicRange
from bucketingest.decode.kafka.reader import SILENCE_SECONDS
from bucketingest.stream.source.messages import MessageDecoder
from bucketingest.stream.tables import combined
from bucketingest.stream.tables.combined import (
    Answer,
    Stages,
    TableFailed,
    TasksHang,
    Work,
    WriteAlone,
    ended_after,
    write_combined,
)
from bucketingest.write.plan import WritePlan
from bucketingest.write.rows.bucket_writer import write_task
from bucketingest.write.rows.shuffle import SHUFFLE_ORDER, pack
from support.tables.write_plans import batch, row, write_plan

CONTEXT = SimpleNamespace(setJobGroup=lambda *_, **__: None, getLocalProperty=lambda _: None)
SESSION = cast("SparkSession", SimpleNamespace(sparkContext=CONTEXT))
Rows = Mapping[str, list[dict[str, Any]] | Exception]


def work(topic: str, plan: WritePlan, partitions: int = 1) -> Work:
    ranges = [TopicRange(topic, number, 0, 10) for number in range(partitions)]
    return Work(plan, cast("MessageDecoder", None), Client({}), ranges)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the stages of works as Spark's tasks would, one after the other; rows by `topic-partition`."""

    def written(works: Sequence[Work], rows: Rows, most: int = 4, waits: list[float] | None = None) -> list[Answer]:
        def read(
            wanted: TopicRange, plan: WritePlan, _: object, __: object, task: int, *, silence: float
        ) -> Iterator[pa.RecordBatch]:
            if waits is not None:
                waits.append(silence)
            found = rows.get(f"{wanted.topic}-{wanted.partition}", [])
            if isinstance(found, Exception):
                raise found
            yield from pack([batch(found)] if found else [], plan, task)

        monkeypatch.setattr(combined, "pack_range", read)
        monkeypatch.setattr(combined, "expect", lambda *_: None)
        stages = Stages.of(works, most)

        def task(number: int) -> None:
            monkeypatch.setattr(combined, "current_task", lambda: number)

        packed: list[pa.RecordBatch] = []
        for number in range(len(stages.reading)):
            task(number)
            packed += stages.pack([])
        said: list[pa.RecordBatch] = []
        order = [(name, "ascending") for name in ("unit", *SHUFFLE_ORDER)]
        for number in range(stages.writing):
            task(number)
            mine = pa.Table.from_batches(packed).filter(pa.compute.field("slot") == number).sort_by(order)
            said += stages.write(mine.to_batches())
        return stages.answers(pa.Table.from_batches(said))

    return written


def received(answer: Answer) -> int:
    assert isinstance(answer, list), answer
    return sum(status.rows_received for status in answer)


def test_each_table_gets_its_rows_and_a_report_of_each_of_its_tasks(run: Any) -> None:
    plans = [write_plan(tasks=tasks) for tasks in (1, 3, 1)]
    works = [work("a", plans[0], 2), work("b", plans[1]), work("c", plans[2])]
    rows = {
        "a-0": [row(f"a{number}") for number in range(7)],
        "a-1": [row(f"x{number}") for number in range(4)],
        "b-0": [row(f"b{number}", region="us") for number in range(40)],
    }

    answers = run(works, rows)

    assert [received(answer) for answer in answers] == [11, 40, 0]
    assert [sorted({status.task for status in answer}) for answer in answers] == [[0], [0, 1, 2], [0]]


def test_what_fails_is_an_answer_about_its_own_table(run: Any) -> None:
    works = [work(topic, write_plan(tasks=2), 2) for topic in ("a", "lost", "odd", "d")]
    rows: dict[str, Any] = {
        f"{topic}-{part}": [row(f"{topic}{part}{n}") for n in range(5)] for topic in "ad" for part in (0, 1)
    }
    rows |= {"lost-0": [row("l")], "lost-1": TopicInDoubt("nobody answers"), "odd-0": ValueError("a defect")}

    first, lost, odd, last = run(works, rows)

    assert (received(first), received(last)) == (10, 10)
    assert isinstance(lost, TopicInDoubt)
    assert str(lost) == "nobody answers"
    assert isinstance(odd, TableFailed)
    assert "ValueError: a defect" in str(odd)


def test_an_error_that_repeats_a_long_value_is_cut(run: Any) -> None:
    """All tables' answers are in one message to the driver."""
    (answer,) = run([work("a", write_plan(tasks=1))], {"a-0": ValueError("x" * 1_000_000)})

    assert "ValueError: xxx" in str(answer)
    assert len(str(answer)) < 100_000


def test_topics_that_say_nothing_do_not_keep_the_others_for_as_long_as_each_alone_may(run: Any) -> None:
    silent = [f"s{number}" for number in range(9)]
    waits: list[float] = []

    answers = run(
        [work(topic, write_plan(tasks=1)) for topic in (*silent, "a")],
        {**{f"{topic}-0": TopicSilent("nothing") for topic in silent}, "a-0": [row("a")]},
        most=2,
        waits=waits,
    )

    assert [type(answer) for answer in answers[:-1]] == [TopicSilent] * 9
    assert received(answers[-1]) == 1
    assert sum(waits) < 2 * (2 * SILENCE_SECONDS + 3 * len(silent)), "two tasks"


def test_a_table_whose_rows_cannot_be_made_writes_no_file(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def recording(batches: Any, plan: WritePlan, task: int) -> Iterator[pa.RecordBatch]:
        opened.append(plan.table_url)
        yield from write_task(batches, plan, task)

    monkeypatch.setattr(combined, "write_task", recording)
    bad, good = write_plan(tasks=1), write_plan(tasks=1)
    rows = {"bad-0": [row("x")], "bad-1": ValueError("no"), "good-0": [row("y")]}

    run([work("bad", bad, 2), work("good", good)], rows)

    assert opened == [good.table_url]


def test_ranges_are_spread_by_their_sizes() -> None:
    big = Work(write_plan(tasks=1), cast("MessageDecoder", None), Client({}), [TopicRange("big", 0, 0, 1000)])
    stages = Stages.of([big, *(work(f"t{number}", write_plan(tasks=1)) for number in range(10))], most=2)

    assert sorted(len(each) for each in stages.reading) == [1, 10]


@pytest.mark.parametrize(
    "error", [PySparkException("Python worker exited unexpectedly"), RecursionError("a schema of many levels")], ids=str
)
def test_a_job_that_fails_is_written_again_by_halves(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """One table of 200 that ends processes, or whose decoder cannot be sent to the tasks, costs the others few more
    jobs, and not one for each.
    """
    jobs: list[int] = []

    def written(_: object, works: Sequence[Work], __: int) -> list[Answer]:
        jobs.append(len(works))
        if any(each.ranges[0].topic == "kills" for each in works):
            raise error
        return [[] for _ in works]

    monkeypatch.setattr(combined, "_written", written)
    plan = write_plan(tasks=1)
    works = [work("kills" if number == 77 else f"t{number}", plan) for number in range(200)]

    answers = write_combined(SESSION, works, 4, 60)

    assert answers.pop(77) is error
    assert answers == [[]] * 199
    assert len(jobs) <= 1 + 2 * 8


def test_a_job_that_hangs_is_not_tried_by_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would take as long."""

    def written(*_: object) -> list[Answer]:
        raise TasksHang("for ever")

    monkeypatch.setattr(combined, "_written", written)
    works = [work(each, write_plan(tasks=1)) for each in ("a", "hangs")]

    assert [type(answer) for answer in write_combined(SESSION, works, 4, 60)] == [WriteAlone, WriteAlone]
    assert [type(answer) for answer in write_combined(SESSION, works[1:], 4, 60)] == [TasksHang]


def test_the_time_while_tasks_wait_for_a_place_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another table's tasks have all places: who waits for them does not hang."""
    cancelled = threading.Event()
    asked: list[bool] = []

    def runs(context: object, pool: str | None) -> bool:
        assert (context, pool) == (waits, "shop.orders")
        asked.append(cancelled.is_set())
        return len(asked) > 20

    def cancel(_: str) -> None:
        assert len(asked) > 20
        cancelled.set()

    waits: Any = SimpleNamespace(
        setJobGroup=lambda *_, **__: None, getLocalProperty=lambda _: "shop.orders", cancelJobGroup=cancel
    )
    monkeypatch.setattr(combined, "runs_tasks", runs)
    monkeypatch.setattr(combined, "_LOOK_SECONDS", 0.001)

    def job() -> None:
        with ended_after(waits, 0.0001):
            assert cancelled.wait(60)
            raise PySparkException("the job was cancelled")

    with pytest.raises(TasksHang, match="did not end within"):
        job()
    assert not any(asked[:21]), "it was not ended before its tasks ran"
