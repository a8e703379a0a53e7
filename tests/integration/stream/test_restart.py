"""A run that ends in the middle, or loses Spark's checkpoint, is continued without losing or doubling a row."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest

from bucketingest.spec.model import BucketIngest
from bucketingest.stream import ingestion as started
from bucketingest.stream.errors import QueryFailed
from bucketingest.stream.topics.without_spark import MESSAGES_HERE, TopicReading
from bucketingest.write.coordinator import InstantCoordinator
from bucketingest.write.coordinator_api import Assignment
from bucketingest.write.instants import lifecycle
from bucketingest.write.instants.journal import Journal
from bucketingest.write.rows.write_status import WriteStatus
from support.jobs.stream_runs import Lake, NewTopic, Runner, Topic, messages

pytestmark = pytest.mark.kafka


class Crash(Exception):
    """The process has ended, as far as the code under test can see."""


@pytest.fixture
def crash_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str], None]:
    """Lets the next call of a function raise instead of doing anything; later calls work."""

    def arm(owner: Any, name: str) -> None:
        original = getattr(owner, name)
        armed = [True]

        def crashing(*args: Any, **kwargs: Any) -> Any:
            if armed:
                armed.clear()
                raise Crash(name)
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, crashing)

    return arm


@pytest.fixture
def statuses(monkeypatch: pytest.MonkeyPatch) -> list[WriteStatus]:
    """Every write status that a task has reported."""
    seen: list[WriteStatus] = []
    original = TopicReading.write

    def recording(*args: Any) -> list[WriteStatus] | None:
        reported = original(*args)
        seen.extend(reported or ())
        return reported

    monkeypatch.setattr(TopicReading, "write", recording)
    return seen


def resource(lake: Lake, topic: Topic, **spec: Any) -> BucketIngest:
    return lake.resource(
        topic.source(maxOffsetsPerTrigger=50),
        format={"type": "json", "schema": "id BIGINT, text STRING"},
        table={"recordKey": ["id"]},
        **spec,
    )


def send(topic: Topic, *numbers: int) -> None:
    topic.send(messages([{"id": each, "text": f"text {each}"} for each in numbers], "id"))


def ids(lake: Lake) -> list[int]:
    return sorted(lake.rows()["id"].to_pylist())


CRASHES = {
    "before a task has run": (TopicReading, "write"),
    "after the tasks wrote, before their report is kept": (Journal, "put_ledger"),
    "before the decision": (Journal, "close"),
    "before the completed file is there": (lifecycle, "complete"),
    "after the completed file is there": (Journal, "mark_done"),
}


@pytest.mark.parametrize(
    ("crash", "checkpoint_lost"),
    [
        *((crash, False) for crash in CRASHES),
        ("after the tasks wrote, before their report is kept", True),
        ("before the completed file is there", True),
    ],
)
def test_a_crash_loses_and_doubles_nothing(
    *,
    crash: str,
    checkpoint_lost: bool,
    run: Runner,
    lake: Lake,
    new_topic: NewTopic,
    crash_at: Callable[[Any, str], None],
    statuses: list[WriteStatus],
) -> None:
    topic = new_topic(partitions=2)
    wanted = resource(lake, topic)
    send(topic, *range(20))
    run.once(wanted)
    send(topic, *range(20, 40))
    crash_at(*CRASHES[crash])
    with pytest.raises(QueryFailed, match="Crash"):
        run.once(wanted)
    visible = range(40) if crash == "after the completed file is there" else range(20)
    assert ids(lake) == list(visible), "no part of the micro-batch shows"

    if checkpoint_lost:
        shutil.rmtree(lake.checkpoint)
    statuses.clear()
    run.once(wanted)

    assert ids(lake) == list(range(40))
    assert len(lake.instants()) == 2
    if crash == "after the tasks wrote, before their report is kept":
        files = [status for status in statuses if status.file_id]
        assert files
        assert all(status.adopted for status in files), "the same instant is resumed and finds its files"
    send(topic, *range(40, 50))
    run.once(wanted)
    assert ids(lake) == list(range(50))


@pytest.mark.parametrize("tasks_first", [True, False])
def test_what_this_process_wrote_and_what_tasks_wrote_is_the_same_to_the_byte(
    *,
    tasks_first: bool,
    run: Runner,
    lake: Lake,
    new_topic: NewTopic,
    crash_at: Callable[[Any, str], None],
    statuses: list[WriteStatus],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Small micro-batches are written without tasks; how many messages are small may change from start to start."""
    topic = new_topic(partitions=3)
    wanted = resource(lake, topic, commit={"interval": "500ms", "trigger": "100ms"})
    send(topic, *range(40))
    few = MESSAGES_HERE
    monkeypatch.setattr(started, "MESSAGES_HERE", 0 if tasks_first else few)
    crash_at(Journal, "put_ledger")
    with pytest.raises(QueryFailed, match="Crash"):
        run.once(wanted)
    written = len([status for status in statuses if status.file_id])
    statuses.clear()
    monkeypatch.setattr(started, "MESSAGES_HERE", few if tasks_first else 0)
    run.once(wanted)

    assert ids(lake) == list(range(40))
    assert [status.adopted for status in statuses if status.file_id] == [True] * written
    assert len(lake.instants()) == 1


def test_an_unfinished_micro_batch_runs_again_as_it_was_without_its_checkpoint_and_with_more_rows_there(
    run: Runner,
    lake: Lake,
    new_topic: NewTopic,
    crash_at: Callable[[Any, str], None],
) -> None:
    topic = new_topic()
    wanted = resource(lake, topic)
    send(topic, *range(20))
    crash_at(Journal, "put_ledger")
    with pytest.raises(QueryFailed):
        run.once(wanted)
    leftover = lake.log_files()
    assert leftover

    shutil.rmtree(lake.checkpoint)
    send(topic, *range(20, 30))
    run.once(wanted)

    assert ids(lake) == list(range(30))
    assert len(lake.instants()) == 2
    assert set(leftover) < set(lake.log_files()), "the instant is resumed and finds its files"


def test_the_topic_may_have_grown_when_the_checkpoint_is_lost(run: Runner, lake: Lake, new_topic: NewTopic) -> None:
    topic = new_topic()
    wanted = resource(lake, topic)
    send(topic, *range(20))
    run.once(wanted)

    topic.broker.add_partitions(topic.name, total=4)
    shutil.rmtree(lake.checkpoint)
    send(topic, *range(20, 60))
    run.once(wanted)

    assert ids(lake) == list(range(60))


def test_a_recreated_table_is_filled_from_the_sources_beginning_whatever_checkpoints_are_there(
    run: Runner, lake: Lake, new_topic: NewTopic
) -> None:
    topic = new_topic()
    wanted = resource(lake, topic)
    send(topic, *range(20))
    run.once(wanted)
    shutil.rmtree(lake.table)

    run.once(wanted)

    assert ids(lake) == list(range(20))


def test_what_is_in_the_table_does_not_come_again_whatever_spark_noted(
    run: Runner, lake: Lake, new_topic: NewTopic
) -> None:
    topic = new_topic()
    wanted = resource(lake, topic)
    send(topic, *range(80))
    run.once(wanted)
    instants, files = lake.instants(), lake.log_files()
    assert len(instants) == 2

    (directory,) = lake.checkpoint.iterdir()
    shutil.rmtree(directory / "commits")
    progress = run.once(wanted)

    assert progress.rows == 0
    assert (lake.instants(), lake.log_files()) == (instants, files)


def test_a_transform_that_yields_other_rows_each_time_gets_a_new_instant(
    run: Runner,
    lake: Lake,
    new_topic: NewTopic,
    crash_at: Callable[[Any, str], None],
) -> None:
    topic = new_topic(partitions=2)
    wanted = resource(lake, topic, transform={"sql": "SELECT id, text, rand() AS chance FROM source"})
    send(topic, *range(40))
    crash_at(Journal, "put_ledger")
    with pytest.raises(QueryFailed):
        run.once(wanted)
    leftover = lake.log_files()
    assert leftover

    run.once(wanted)

    assert ids(lake) == list(range(40))
    assert len(lake.instants()) == 1
    assert not set(leftover) & set(lake.log_files()), "the conflicting instant is rolled back"


def test_an_older_attempt_that_is_still_running_commits_nothing(
    run: Runner,
    lake: Lake,
    new_topic: NewTopic,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = new_topic()
    wanted = resource(lake, topic)
    send(topic, *range(10))
    original = InstantCoordinator.run
    claimed: list[int] = []

    def overtaken(self: InstantCoordinator, source_range: Any, write_rows: Callable[[Assignment], Any]) -> Any:
        def write_then_lose(assignment: Assignment) -> Any:
            reported = write_rows(assignment)
            claimed.append(self._journal.claim_epoch("another host (process 1)"))
            return reported

        return original(self, source_range, write_then_lose)

    monkeypatch.setattr(InstantCoordinator, "run", overtaken)
    with pytest.raises(Exception, match=r"another host \(process 1\) claimed the pipeline after this attempt"):
        run.once(wanted)
    assert lake.instants() == []

    monkeypatch.setattr(InstantCoordinator, "run", original)
    run.once(wanted)
    assert ids(lake) == list(range(10))
