"""Micro-batches of Kafka that are planned here: what comes next, and what is no longer there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from bucketingest.decode.kafka.ranges import TopicRange
from bucketingest.stream.errors import SourceDataLost, SourceUnreachable, TopicsMissing
from bucketingest.stream.report.board import ProgressBoard
from bucketingest.stream.topics import reading
from bucketingest.stream.topics.batch import TopicBatch
from bucketingest.stream.topics.brokers import Topic
from bucketingest.stream.topics.continuity import text_of
from bucketingest.stream.topics.planner import TopicsPlanner
from bucketingest.stream.topics.reading import TopicsRead
from bucketingest.write.coordinator_api import Start, StartVerdict
from bucketingest.write.errors import RangeConflict
from bucketingest.write.instants.source_range import Offsets, Relation, SourceRange, relate


class Kafka:
    """Topics with offsets, as `Brokers` says them."""

    servers = "kafka:9092"

    def __init__(self, **ends: list[int]) -> None:
        self._ends = {topic: dict(enumerate(each)) for topic, each in ends.items()}
        self.ids = {topic: f"id of {topic}" for topic in ends}
        self.named: tuple[str, ...] = ()
        """With a pattern none is missed."""
        self.first: Offsets = {}
        self.asked: list[str] = []

    def grow(self, topic: str, partition: int, end: int) -> None:
        self._ends.setdefault(topic, {})[partition] = end
        self.ids.setdefault(topic, f"id of {topic}")

    def delete(self, topic: str) -> None:
        del self._ends[topic]

    def reads(self, topic: str) -> bool:
        return topic != "left"

    def topics(self) -> dict[str, Topic]:
        self.asked.append("topics")
        if missing := tuple(topic for topic in self.named if topic not in self._ends):
            raise TopicsMissing(f"Kafka lacks {missing}", missing)
        return {topic: Topic(self.ids[topic], tuple(sorted(each))) for topic, each in self._ends.items()}

    def ends(self, topics: dict[str, Topic], *, stable: bool) -> Offsets:
        self.asked.append("stable ends" if stable else "ends")
        if topics.keys() - self._ends.keys():  # the client asks again and again
            raise SourceUnreachable("Kafka does not answer within 10 s")
        return {(name, part): self._ends[name][part] for name, each in topics.items() for part in each.partitions}

    def begins(self, topics: dict[str, Topic]) -> Offsets:
        self.asked.append("begins")
        return {(name, part): self.first.get((name, part), 0) for name in topics for part in self._ends[name]}


class Whole:
    """Where transactions end, as `WholeTransactions` says it."""

    at = 0

    def until(self, begin: Offsets, wanted: Offsets, ends: Offsets) -> Offsets:
        assert begin.keys() == wanted.keys() == ends.keys()
        return dict.fromkeys(ends, self.at)


class Plan:
    """A planner, and the table's position, which moves when a micro-batch is written."""

    def __init__(
        self,
        kafka: Kafka,
        position: Offsets,
        replay: SourceRange | None = None,
        most: int = 100,
        *,
        ids: str | None = None,
        fails: bool = True,
        whole: Whole | None = None,
    ) -> None:
        read = cast("Any", None)
        self.topics = TopicsRead(
            cast("Any", kafka),
            read,
            lambda planned, ranges: TopicBatch(planned, ranges, read, read),
            committed_only=False,
            fails_on_loss=fails,
        )
        self.position = SourceRange("kafka", None, text_of(position), "before", 6, topic_ids=ids)
        start = self.topics.continuing(Start(self.position, replay, StartVerdict.IN_STEP, ""))
        self.told: list[Offsets] = []
        self.board = ProgressBoard()
        self.board.started(self.position, 1)

        def tell(ends: Offsets, begins: Offsets) -> None:
            self.told.append(ends)
            self.board.source_ends(ends, begins)

        self.planner = TopicsPlanner(
            self.topics, lambda: self.position, start.replay, most=most, tell=tell, whole=cast("Any", whole)
        )

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
    kafka.grow("b", 0, 9)
    kafka.first = {("b", 0): 7}
    assert plan.next() is None
    now += reading.LIST_SECONDS + 1
    assert plan.next() == [TopicRange("a", 1, 0, 4), TopicRange("b", 0, 7, 9)]
    kafka.grow("a", 1, 6)
    assert plan.next() == [TopicRange("a", 1, 4, 6)]


@pytest.mark.parametrize("running", [True, False], ids=["while it runs", "while it does not"])
def test_a_partition_that_comes_and_whose_first_messages_are_gone_has_lost_them(
    running: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(reading, "forward_seconds", lambda: now)
    kafka = Kafka(a=[5])
    plan = Plan(kafka, {("a", 0): 5})
    kafka.grow("a", 1, 4)
    kafka.first = {("a", 1): 3}
    now += reading.LIST_SECONDS + 1
    with pytest.raises(SourceDataLost, match="topic a partition 1: offsets 0 to 2 are gone"):
        plan.next() if running else Plan(kafka, {("a", 0): 5})
    assert Plan(kafka, {("a", 0): 5}, fails=False).next() == [TopicRange("a", 1, 3, 4)]


def test_a_micro_batch_ends_where_transactions_do_and_what_waits_is_no_lag() -> None:
    kafka, whole = Kafka(a=[9]), Whole()
    plan = Plan(kafka, {("a", 0): 2}, most=3, whole=whole)
    whole.at = 2
    assert plan.next() is None
    whole.at = 7  # a transaction is longer than a micro-batch
    assert plan.next() == [TopicRange("a", 0, 2, 7)]
    assert plan.told == [{("a", 0): 2}, {("a", 0): 9}]


def test_a_backlog_is_taken_in_parts() -> None:
    plan = Plan(Kafka(a=[300, 100]), {("a", 0): 0, ("a", 1): 0})
    assert plan.next() == [TopicRange("a", 0, 0, 75), TopicRange("a", 1, 0, 25)]


def test_what_an_earlier_attempt_has_started_comes_first_and_as_it_was() -> None:
    started = SourceRange("kafka", '{"a":{"0":2}}', '{"a":{"0":4,"1":2}}', "before", 7, 12)
    kafka = Kafka(a=[9, 8])
    kafka.first = {("a", 1): 1}
    plan = Plan(kafka, {("a", 0): 2}, started, fails=False)
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


def test_a_named_topic_that_is_deleted_ends_the_query_though_its_end_is_only_not_answered() -> None:
    """Nobody would wait for it: the look beside the query finds no topic either, and so no answer."""
    kafka = Kafka(a=[5], b=[1])
    kafka.named = ("a", "b")
    plan = Plan(kafka, {("a", 0): 5, ("b", 0): 1})
    kafka.delete("b")
    with pytest.raises(SourceDataLost, match="the topic b was deleted"):
        plan.next()


def test_brokers_that_are_away_are_waited_for() -> None:
    kafka = Kafka(a=[5])
    plan = Plan(kafka, {("a", 0): 5})
    kafka.delete("a")
    with pytest.raises(SourceUnreachable):
        plan.next()


def test_a_topic_that_is_gone_for_a_while_comes_back_as_the_same_one_or_not_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the first messages of the new one would be skipped, as many as the old one had."""
    now = 100.0
    monkeypatch.setattr(reading, "forward_seconds", lambda: now)
    kafka = Kafka(a=[5])
    plan = Plan(kafka, {("a", 0): 4, ("b", 0): 3}, ids='{"a":"id of a","b":"id of b"}', fails=False)
    assert plan.next() == [TopicRange("a", 0, 4, 5)]
    assert plan.position.topic_ids == '{"a":"id of a","b":"id of b"}'
    kafka.grow("b", 0, 9)
    kafka.ids["b"] = "id of another b"
    now += reading.LIST_SECONDS + 1
    with pytest.raises(RangeConflict, match="topic b was deleted and made again"):
        plan.next()


STARTED = SourceRange(
    "kafka", '{"a":{"0":2}}', '{"a":{"0":4},"c":{"0":2}}', "before", 7, 12, '{"a":"id of a","c":"id of c"}'
)
"""A micro-batch with a topic of which the table has nothing yet."""


def test_a_topic_that_went_while_its_first_micro_batch_was_open_is_lost_or_left_out() -> None:
    with pytest.raises(SourceDataLost, match="the topic c was deleted"):
        Plan(Kafka(a=[9]), {("a", 0): 2}, STARTED)
    plan = Plan(Kafka(a=[9]), {("a", 0): 2}, STARTED, fails=False)
    assert plan.next() == [TopicRange("a", 0, 2, 9)]


def test_a_topic_that_was_taken_out_while_its_first_micro_batch_was_open_is_not_lost() -> None:
    assert STARTED.topic_ids is not None
    started = replace(STARTED, end=STARTED.end.replace("c", "left"), topic_ids=STARTED.topic_ids.replace("c", "left"))
    plan = Plan(Kafka(a=[9]), {("a", 0): 2}, started)
    assert plan.next() == [TopicRange("a", 0, 2, 9)]


def test_a_topic_that_was_made_again_while_its_first_micro_batch_was_open_is_read_anew() -> None:
    kafka = Kafka(a=[9], c=[1])
    kafka.ids["c"] = "id of another c"
    plan = Plan(kafka, {("a", 0): 2}, STARTED)
    assert plan.next() == [TopicRange("a", 0, 2, 9), TopicRange("c", 0, 0, 1)]


def test_a_partition_whose_messages_are_all_gone_is_no_lag() -> None:
    kafka = Kafka(a=[5, 1000])
    kafka.first = {("a", 1): 1000}
    plan = Plan(kafka, {("a", 0): 5}, fails=False)
    assert plan.next() is None
    now = plan.board.snapshot()
    assert (now.lag_offsets, now.lag_seconds, now.idle) == (0, 0.0, True)
