"""Micro-batches of Kafka that are planned here: what comes next, and what is no longer there."""

from __future__ import annotations

from typing import Any, cast

import pytest

from bucketingest.decode.kafka.ranges import TopicRange
from bucketingest.stream.errors import SourceDataLost
from bucketingest.stream.topics import reading
from bucketingest.stream.topics.batch import TopicBatch
from bucketingest.stream.topics.brokers import Topic
from bucketingest.stream.topics.continuity import text_of
from bucketingest.stream.topics.planner import TopicsPlanner
from bucketingest.stream.topics.reading import TopicsRead
from bucketingest.write.instants.source_range import Offsets, Relation, SourceRange, relate


class Kafka:
    """Topics with offsets, as `Brokers` says them."""

    servers = "kafka:9092"

    def __init__(self, **ends: list[int]) -> None:
        self._ends = {topic: dict(enumerate(each)) for topic, each in ends.items()}
        self.first: Offsets = {}
        self.asked: list[str] = []

    def grow(self, topic: str, partition: int, end: int) -> None:
        self._ends.setdefault(topic, {})[partition] = end

    def delete(self, topic: str) -> None:
        del self._ends[topic]

    def reads(self, topic: str) -> bool:
        return topic != "left"

    def topics(self) -> dict[str, Topic]:
        self.asked.append("topics")
        return {topic: Topic(f"id of {topic}", tuple(sorted(each))) for topic, each in self._ends.items()}

    def ends(self, topics: dict[str, Topic], *, stable: bool) -> Offsets:
        self.asked.append("stable ends" if stable else "ends")
        return {(name, part): self._ends[name][part] for name, each in topics.items() for part in each.partitions}

    def begins(self, topics: dict[str, Topic]) -> Offsets:
        self.asked.append("begins")
        return {(name, part): self.first.get((name, part), 0) for name in topics for part in self._ends[name]}


class Plan:
    """A planner, and the table's position, which moves when a micro-batch is written."""

    def __init__(self, kafka: Kafka, position: Offsets, replay: SourceRange | None = None, most: int = 100) -> None:
        read = cast("Any", None)
        self.topics = TopicsRead(
            cast("Any", kafka),
            read,
            lambda planned, ranges: TopicBatch(planned, ranges, read, read),
            committed_only=False,
            fails_on_loss=True,
        )
        self.position = SourceRange("kafka", None, text_of(position), "before", 6)
        self.topics.check(self.position)
        self.told: list[Offsets] = []
        start = cast("Any", self.topics)
        self.planner = TopicsPlanner(start, lambda: self.position, replay, most=most, tell=self.told.append)

    def next(self) -> list[TopicRange] | None:
        """What is read next; it is in the table then."""
        batch = self.planner.next()
        if batch is None:
            return None
        found = self.planner.range_of(batch.source_range.batch_id)
        assert found is batch.source_range
        assert relate(found, self.position) is Relation.NEXT
        self.planner.confirm(found)
        self.position = found
        return list(batch.ranges)


def test_what_is_new_is_read_once_and_with_the_ids_of_its_topics() -> None:
    kafka = Kafka(a=[5, 9], b=[1])
    plan = Plan(kafka, {("a", 0): 2, ("a", 1): 9, ("b", 0): 0})

    assert plan.next() == [TopicRange("a", 0, 2, 5), TopicRange("b", 0, 0, 1)]
    assert (plan.position.batch_id, plan.position.topic_ids) == (7, '{"a":"id of a","b":"id of b"}')
    assert plan.next() is None
    assert plan.told == [{("a", 0): 5, ("a", 1): 9, ("b", 0): 1}] * 2
    kafka.grow("a", 0, 6)
    assert plan.next() == [TopicRange("a", 0, 5, 6)]
    assert kafka.asked.count("topics") == 3, "at the start, and after each micro-batch"
    assert kafka.asked.count("begins") == 1, "at the start"


def test_a_partition_that_comes_is_read_from_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(reading, "forward_seconds", lambda: now)
    kafka = Kafka(a=[5])
    plan = Plan(kafka, {("a", 0): 5})
    assert plan.next() is None
    kafka.grow("a", 1, 4)
    kafka.first = {("a", 1): 3}
    assert plan.next() is None
    now += reading.LIST_SECONDS + 1
    assert plan.next() == [TopicRange("a", 1, 3, 4)]
    kafka.grow("a", 1, 6)
    assert plan.next() == [TopicRange("a", 1, 4, 6)]


def test_a_backlog_is_taken_in_parts() -> None:
    plan = Plan(Kafka(a=[300, 100]), {("a", 0): 0, ("a", 1): 0})
    assert plan.next() == [TopicRange("a", 0, 0, 75), TopicRange("a", 1, 0, 25)]


def test_what_an_earlier_attempt_has_started_comes_first_and_as_it_was() -> None:
    started = SourceRange("kafka", '{"a":{"0":2}}', '{"a":{"0":4,"1":2}}', "before", 7, 12)
    kafka = Kafka(a=[9, 8])
    kafka.first = {("a", 1): 1}
    plan = Plan(kafka, {("a", 0): 2}, started)
    assert plan.next() == [TopicRange("a", 0, 2, 4), TopicRange("a", 1, 1, 2)]
    assert plan.position.timestamp_ms == 12
    assert plan.next() == [TopicRange("a", 0, 4, 9), TopicRange("a", 1, 2, 8)]


def test_a_topic_that_ends_before_the_position_ends_the_query() -> None:
    kafka = Kafka(a=[5])
    plan = Plan(kafka, {("a", 0): 5})
    assert plan.next() is None
    kafka.grow("a", 0, 3)
    with pytest.raises(SourceDataLost, match="ends at offset 3, and the table has everything before 5"):
        plan.next()


def test_a_topic_that_is_gone_ends_the_query(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(reading, "forward_seconds", lambda: now)
    kafka = Kafka(a=[5], b=[1])
    plan = Plan(kafka, {("a", 0): 5, ("b", 0): 1})
    assert plan.next() is None
    kafka.delete("b")
    now += reading.LIST_SECONDS + 1
    with pytest.raises(SourceDataLost, match="the topic b was deleted"):
        plan.next()
