"""A job of many tables whose topics go, come again, or are cut off, or whose table cannot be opened. Kafka and the
tables are played.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from bucketingest.hudi.lock.clocks import forward_seconds
from bucketingest.spec.job_report import TablesReport
from bucketingest.spec.reading.load import parse_object
from bucketingest.stream.errors import SourceUnreachable, TablesParked
from bucketingest.stream.report.tables_board import TablesBoard
from bucketingest.stream.tables import combined, one_table, running, trouble, turns
from bucketingest.stream.tables.combined import TasksHang
from bucketingest.stream.tables.one_table import OneTable
from bucketingest.stream.tables.running import RunningTables
from bucketingest.stream.tables.shares import TopicOffsets
from bucketingest.stream.tables.trouble import Trouble
from bucketingest.write.coordinator_api import MicroBatchOutcome
from bucketingest.write.instants.source_range import Offsets, SourceRange

Found = dict[str, TopicOffsets]
MANY = {
    "apiVersion": "bucketingest.dev/v1alpha1",
    "kind": "BucketIngest",
    "metadata": {"name": "lake"},
    "spec": {
        "source": {"kafka": {"bootstrapServers": "kafka:9092", "topicPattern": ".*", "maxOffsetsPerTrigger": 1000}},
        "format": {"type": "json", "schema": "id STRING"},
        "table": {"path": "s3://lake/{topic}", "recordKey": ["id"]},
        "tables": {},
    },
}


class Kafka:
    """Answers a look with what `topics` has."""

    fails_on_loss = True
    left_out = 0
    is_away = gives_up = False

    def __init__(self) -> None:
        self.topics: Found = {}
        self.looks = 0
        self.looked: Callable[[int], None] = lambda _: None

    def look(self) -> Found | None:
        """Call `looked` with the number of the look before each."""
        self.looked(self.looks)
        self.looks += 1
        if self.gives_up:
            raise SourceUnreachable("Kafka is away")
        return None if self.is_away else dict(self.topics)

    def newest(self, topic: str) -> Offsets:
        return {(topic, part): end for part, end in self.topics[topic].ends.items()}

    def close(self) -> None:
        pass


class Written:
    """What an open table writes with: a micro-batch moves the position, unless it `fails`."""

    def __init__(self, table: OneTable, opened: Any, tables: Tables) -> None:
        self._table, self._opened, self._tables = table, opened, tables
        self.busy, self._is_served = threading.Lock(), False
        self.stop_requested = threading.Event()

    def __call__(self, batch: Any, _: int) -> None:
        self._tables.writing()
        if self._tables.fails is not None:
            raise self._tables.fails
        self._opened.coordinator.position = batch.source_range
        self._table.board.batch_ended(MicroBatchOutcome("20260101000000000", rows=1))
        if self._table._may_serve(self._table.topic):
            self.serve_table()

    @property
    def services_due(self) -> bool:
        return self._tables.services_due and not self._is_served

    @property
    def service_pid(self) -> int | None:
        return None if self._is_served else 1

    def serve_table(self) -> None:
        self._is_served = self._tables.services_end

    def stop_services(self) -> None:
        pass


class Tables:
    """Opens tables where they ended, or `opening` raises or waits."""

    def __init__(self) -> None:
        self.positions: dict[str, SourceRange | None] = {}
        self.fails: Exception | None = None
        self.closing: Exception | None = None
        self.services_due, self.services_end = False, False
        self.opening: Callable[[], object] = lambda: None
        self.writing: Callable[[], object] = lambda: None

    def release(self, topic: str, position: SourceRange | None) -> None:
        self.positions[topic] = position
        if self.closing is not None:
            raise self.closing

    def open(self, table: OneTable) -> None:
        self.opening()
        coordinator = SimpleNamespace(position=self.positions.get(table.topic), inflight=None)
        opened: Any = SimpleNamespace(coordinator=coordinator, replay=None)
        opened.function = Written(table, opened, self)
        opened.lease = SimpleNamespace(release=lambda: self.release(table.topic, opened.coordinator.position))
        table._open = opened
        table.board.started(coordinator.position, 1)


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Kafka:
    found = Kafka()
    monkeypatch.setattr(running, "TopicsLook", lambda *_: found)
    monkeypatch.setattr(running, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(running, "_POLL_SECONDS", 0.01)
    return found


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Tables:
    found = Tables()

    def open_it(table: OneTable) -> None:
        found.open(table)

    monkeypatch.setattr(OneTable, "_open_it", open_it)
    return found


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch, kafka: Kafka, tables: Tables) -> Iterator[Callable[..., RunningTables]]:
    del tables
    session: Any = SimpleNamespace(
        sparkContext=SimpleNamespace(
            defaultParallelism=2,
            setJobGroup=lambda *_, **__: None,
            setLocalProperty=lambda *_: None,
            getLocalProperty=lambda _: None,
        )
    )
    monkeypatch.setattr(combined, "runs_tasks", lambda *_: False)
    monkeypatch.setattr(running, "read_ranges", lambda *_: SimpleNamespace(sparkSession=session))
    made: list[RunningTables] = []

    def make(*topics: str, once: bool = False) -> RunningTables:
        kafka.topics = {topic: there(10) for topic in topics}
        made.append(RunningTables(session, parse_object(MANY), once=once, board=TablesBoard(), ended_hosts=()))
        monkeypatch.setattr(made[-1], "_trigger", 0.0)
        monkeypatch.setattr(made[-1], "_interval", 0.0)
        return made[-1]

    yield make
    for each in made:
        each.request_stop()
        assert each.wait(30)


def there(end: int, id_: str = "A") -> TopicOffsets:
    return TopicOffsets(id_, {0: 0}, {0: end})


def until(job: RunningTables, holds: Callable[[TablesReport], bool]) -> TablesReport:
    """Let the job work until this is so of its tables."""
    for _ in range(1500):
        if holds(job.report()):
            return job.report()
        job.wait(0.02)
    raise AssertionError(job.report())


def written(job: RunningTables) -> dict[str, int]:
    """Micro-batches of each table, which have a row each."""
    return {each.topic: each.rows for each in job.reports() if each.state == "open"}


def test_a_run_that_ends_with_its_input_does_not_wait_for_rows_of_a_topic_that_is_gone(
    job: Callable[..., RunningTables], kafka: Kafka
) -> None:
    made = job("x", "y", once=True)
    kafka.topics["y"] = there(10_000)

    def goes(_: int) -> None:
        if written(made).get("y"):
            kafka.topics.pop("y", None)  # with rows that the table lacks

    kafka.looked = goes
    assert made.wait(30)


def test_a_run_that_ends_with_its_input_names_a_table_that_failed_and_whose_topic_is_gone(
    job: Callable[..., RunningTables], kafka: Kafka, tables: Tables
) -> None:
    tables.fails = ValueError("a row")
    made = job("x", once=True)

    def goes(_: int) -> None:
        if made.report().parked:
            kafka.topics.clear()

    kafka.looked = goes
    with pytest.raises(TablesParked, match=r"1 of 1 tables are parked: x: .*a row"):
        made.wait(30)


@pytest.mark.parametrize(
    ("now", "reason"),
    [(there(3, "B"), "was deleted and made again"), (there(7), "ends at offset 7")],
)
def test_a_topic_that_was_made_again_or_cut_off_parks_its_table_though_nothing_waits(
    job: Callable[..., RunningTables], kafka: Kafka, now: TopicOffsets, reason: str
) -> None:
    made = job("x")
    until(made, lambda _: written(made).get("x") == 1)

    kafka.topics["x"] = now

    assert reason in (until(made, lambda said: said.parked == 1).worst[0].reason or "")


def test_while_kafka_does_not_answer_tables_wait_and_are_not_parked(
    job: Callable[..., RunningTables], kafka: Kafka, tables: Tables
) -> None:
    made = job("x")
    kafka.topics["x"] = there(20_000)

    def goes(_: int) -> None:
        if written(made).get("x") and not made._tables["x"].is_busy:
            kafka.is_away, tables.fails = True, ValueError("Kafka is away")

    kafka.looked = goes
    until(made, lambda _: kafka.is_away)
    looks = kafka.looks
    until(made, lambda _: kafka.looks > looks + 30)
    assert made.report().parked == 0

    kafka.looked = lambda _: None
    kafka.is_away, tables.fails = False, None
    until(made, lambda _: written(made).get("x") == 20)


def test_a_run_that_ends_with_its_input_gives_its_tables_back_when_kafka_is_away_for_too_long(
    job: Callable[..., RunningTables], kafka: Kafka, tables: Tables
) -> None:
    made = job("x", once=True)
    kafka.topics["x"] = there(20_000)

    def goes(_: int) -> None:
        kafka.is_away = bool(written(made).get("x"))
        kafka.gives_up = kafka.is_away and kafka.looks > 30

    kafka.looked = goes
    with pytest.raises(SourceUnreachable):
        made.wait(30)
    assert tables.positions.keys() == {"x"}


def test_a_topic_that_cannot_be_read_parks_its_table_alone(job: Callable[..., RunningTables], kafka: Kafka) -> None:
    made = job("x", "y")
    kafka.topics["x"] = TopicOffsets("A", {}, {}, "x has no leader")
    said = until(made, lambda said: said.parked == 1 and said.worst[0].failures > 1)
    assert (said.worst[0].topic, said.worst[0].reason, written(made)) == ("x", "x has no leader", {"y": 1})

    kafka.topics |= {"x": there(10), "y": TopicOffsets("A", {}, {}, "y has no leader")}  # one that is open

    until(made, lambda said: said.parked == 1 and said.worst[0].topic == "y")
    assert written(made) == {"x": 1}


def test_a_run_that_ends_with_its_input_names_a_topic_that_cannot_be_read(
    job: Callable[..., RunningTables], kafka: Kafka
) -> None:
    made = job("x", "y", once=True)
    kafka.topics["x"] = TopicOffsets("A", {}, {}, "x has no leader")
    with pytest.raises(TablesParked, match="1 of 2 tables are parked: x: x has no leader"):
        made.wait(60)
    assert {each.topic: each.rows for each in made.reports()} == {"x": 0, "y": 1}


def test_of_tables_that_hung_one_is_tried_at_a_time(
    job: Callable[..., RunningTables], tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one that fails otherwise does not wait for them."""
    monkeypatch.setattr(trouble, "BACKOFF_SECONDS", 600.0)
    monkeypatch.setattr(trouble, "BACKOFF_MAX_SECONDS", 600.0)
    tables.fails = TasksHang("for ever")
    running_job, release = job("a", "b", "odd"), threading.Event()
    writing: list[None] = []
    until(running_job, lambda report: report.parked == 3)

    def writes() -> None:
        writing.append(None)
        assert release.wait(60)

    tables.writing, tables.fails = writes, None
    for topic, known in running_job._tables.items():
        known.table.trouble = Trouble(ValueError("odd") if topic == "odd" else TasksHang("again"), "", 1, 0.0)
    until(running_job, lambda _: len(writing) == 2)
    for _ in range(20):
        running_job.wait(0.02)
    assert len(writing) == 2
    release.set()
    until(running_job, lambda report: report.open == 3)


def test_the_interval_is_between_the_beginnings_of_two_micro_batches(
    job: Callable[..., RunningTables], tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a table would have a commit every interval and as long as writing takes."""
    now = [0.0]

    def writes() -> None:
        now[0] += 20

    tables.writing = writes
    monkeypatch.setattr(one_table, "forward_seconds", lambda: now[0])
    running_job = job("a")

    until(running_job, lambda _: any(each.table.began_at is not None for each in running_job._tables.values()))

    assert running_job._tables["a"].table.began_at == 0.0


def test_a_table_that_hangs_while_it_opens_is_late(
    job: Callable[..., RunningTables], tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on, offset = threading.Event(), 0.0
    tables.opening = lambda: goes_on.wait(30)
    monkeypatch.setattr(one_table, "forward_seconds", lambda: forward_seconds() + offset)
    made = job("x")
    until(made, lambda said: said.known == 1)
    assert made.report().late == 0

    offset = 301.0  # more than health.maxCommitLag

    said = made.report()
    assert (said.open, said.late, said.worst[0].state) == (0, 1, "opening")
    assert (said.worst[0].lag.seconds or 0) > 300
    goes_on.set()
    until(made, lambda said: said.open == 1 and said.late == 0)


def test_tables_that_hang_while_they_are_opened_keep_no_thread_from_another(
    job: Callable[..., RunningTables], kafka: Kafka, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()
    tables.opening = lambda: goes_on.wait(30)
    monkeypatch.setattr(running, "_HANGS_SECONDS", 0.0)
    made = job(*(f"t{number}" for number in range(100)))
    until(made, lambda said: said.known == 100 and all(known.is_busy for known in made._tables.values()))

    tables.opening = lambda: None
    kafka.topics["new"] = there(10)

    until(made, lambda _: written(made).get("new", 0) >= 1)
    goes_on.set()
    until(made, lambda said: said.open == 101)


def test_the_table_of_a_topic_that_is_gone_is_closed_and_nothing_of_it_waits(
    job: Callable[..., RunningTables], kafka: Kafka, tables: Tables
) -> None:
    made = job("x")
    until(made, lambda said: said.open == 1)

    def goes(_: int) -> None:
        kafka.topics = {}

    kafka.looked = goes
    until(made, lambda said: said.gone == 1 and "x" in tables.positions)
    until(made, lambda said: said.worst[0].lag.offsets is None)
    kafka.looked = lambda _: None
    kafka.topics = {"x": there(12)}
    until(made, lambda _: written(made).get("x") == 2)


def test_a_table_that_cannot_be_closed_keeps_no_other_from_that(
    job: Callable[..., RunningTables], tables: Tables
) -> None:
    made = job("x", "y")
    until(made, lambda said: said.open == 2)
    tables.closing = ValueError("it is broken")

    made.request_stop()

    assert made.wait(30)
    assert tables.positions.keys() == {"x", "y"}


def test_few_idle_tables_are_open_at_a_time_for_their_table_services(
    job: Callable[..., RunningTables], kafka: Kafka, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "_IDLE_SECONDS", 0.0)
    made = job(*(f"t{number}" for number in range(30)))

    def are_open() -> int:
        return sum(known.table.is_open for known in made._tables.values())

    until(made, lambda said: said.open == 30 and len(tables.positions) == 30)
    tables.services_due = True  # from now on each that is opened waits for its turn
    until(made, lambda _: are_open() >= 3)

    looks = kafka.looks
    until(made, lambda _: kafka.looks > looks + 30)

    assert are_open() <= 8


def test_an_idle_table_is_closed_again_when_its_table_services_had_their_turn(
    job: Callable[..., RunningTables], tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "_IDLE_SECONDS", 0.0)
    monkeypatch.setattr(turns, "REST_SECONDS", 0.0)
    made = job("x", "y", "z")
    until(made, lambda _: len(tables.positions) == 3)

    tables.services_due = tables.services_end = True

    until(made, lambda _: len(made._turns._last) == 3)
    until(made, lambda _: not any(known.table.is_open for known in made._tables.values()))


def test_tables_that_write_all_the_time_have_their_turns_too(
    job: Callable[..., RunningTables], kafka: Kafka, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "REST_SECONDS", 0.0)
    monkeypatch.setattr(turns, "REST_SHARE", 0.0)
    made = job("x", "y")

    def grow(number: int) -> None:
        kafka.topics = {topic: there(20 + number) for topic in ("x", "y")}

    def write() -> None:
        until = kafka.looks + 2
        while kafka.looks < until and not made._stop.is_set():
            made._stop.wait(0.001)

    kafka.looked, tables.writing = grow, write
    tables.services_due = tables.services_end = True

    until(made, lambda _: made._turns._last.keys() == {"x", "y"})
    until(made, lambda _: not any(known.table.services_due for known in made._tables.values()))


def test_topics_that_come_and_go_do_not_let_the_job_grow(
    job: Callable[..., RunningTables], kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "TABLES_MAX", 3)
    made = job("t0")
    for number in range(12):
        topic = f"t{number}"
        kafka.topics = {topic: there(10)}
        until(made, lambda _, topic=topic: written(made).get(topic) == 1)  # type: ignore[misc]

    until(made, lambda said: said.known <= 3)

    board: Any = made._board
    board.refresh()
    assert board.snapshot().rows == 12, "what they did still counts"
