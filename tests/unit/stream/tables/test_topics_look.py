"""A look at the topics of many tables: what cannot be answered of one topic is not asked with the others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

from bucketingest.errors import BucketIngestError
from bucketingest.spec.fields.source import KafkaSource
from bucketingest.stream.errors import SourceDenied, SourceUnreachable
from bucketingest.stream.report.board import ProgressBoard
from bucketingest.stream.tables import topics_look
from bucketingest.stream.tables.topics_look import TopicsLook
from bucketingest.stream.topics.brokers import Topic, leaderless
from bucketingest.write.instants.source_range import Offsets

SOURCE = KafkaSource.model_validate({"bootstrapServers": "kafka:9092", "topicPattern": ".*"})


class Brokers:
    """Does not answer if a partition without leader is asked for."""

    servers = "kafka:9092"
    away = False
    problem: BucketIngestError = SourceUnreachable("away")

    def __init__(self, topics: dict[str, Topic]) -> None:
        self._topics = topics
        self.lists = 0

    def topics(self) -> Mapping[str, Topic]:
        if self.away:
            raise self.problem
        self.lists += 1
        return self._topics

    def begins(self, topics: Mapping[str, Topic]) -> Offsets:
        assert not any(topic.leaderless for topic in topics.values())
        return {(name, part): 0 for name, topic in topics.items() for part in topic.partitions}

    def ends(self, topics: Mapping[str, Topic], *, stable: bool, seconds: float) -> Offsets:
        assert stable
        if self.away or not topics.keys() <= self._topics.keys():
            raise self.problem
        return dict.fromkeys(self.begins(topics), 7)


def test_a_topic_without_leader_is_named_and_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers({"led": Topic("A", (0, 1)), "not": Topic("B", (0, 1, 2), (0, 2))})
    monkeypatch.setattr(topics_look, "Brokers", lambda *_: brokers)
    session: Any = None

    found = TopicsLook(session, SOURCE, ProgressBoard(), math.inf).look()

    assert found is not None
    assert (found["led"].ends, found["led"].silent) == ({0: 7, 1: 7}, "")
    assert found["not"].ends == {}
    assert found["not"].silent.startswith("the topic not has no leader for partitions 0, 2: start the brokers")


def test_a_topic_that_goes_between_two_lists_keeps_no_other_from_being_looked_at(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The brokers have no answer for it: they are asked which topics there are, and nobody says that Kafka is away."""
    topics = {"stays": Topic("A", (0,)), "goes": Topic("B", (0,))}
    brokers = Brokers(topics)
    monkeypatch.setattr(topics_look, "Brokers", lambda *_: brokers)
    session: Any = None
    look = TopicsLook(session, SOURCE, ProgressBoard(), math.inf)
    assert look.look() is not None
    assert look.look() is not None
    assert brokers.lists == 1
    del topics["goes"]

    found = look.look()

    assert found is not None
    assert found.keys() == {"stays"}
    assert caplog.messages == []


def test_partitions_without_leader_are_those_of_their_topic() -> None:
    """As kafka-clients 4.1 says it."""
    node = "127.0.0.1:9092 (id: 1 rack: null isFenced: false)"

    def partition(number: int, leader: str) -> str:
        return f"(partition={number}, leader={leader}, replicas={node}, isr={node}, elr=, lastKnownElr=)"

    text = ", ".join(
        f"{name}=(name={name}, internal=false, partitions={','.join(parts)}, authorizedOperations=null)"
        for name, parts in {
            "shop.a": [partition(0, node), partition(1, node)],
            "shop.b": [partition(0, "null"), partition(1, node), partition(2, "null")],
        }.items()
    )

    assert leaderless(f"{{{text}}}") == {"shop.b": [0, 2]}


def test_brokers_that_are_away_are_said_once_each_time_also_at_a_start(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    brokers = Brokers({"led": Topic("A", (0,))})
    monkeypatch.setattr(topics_look, "Brokers", lambda *_: brokers)
    session: Any = None
    look = TopicsLook(session, SOURCE, ProgressBoard(), math.inf)

    def said(*, away: bool) -> int:
        brokers.away = away
        caplog.clear()
        look.look()
        return caplog.messages.count("Kafka does not answer")

    assert [said(away=each) for each in (True, True, False, True, True)] == [1, 0, 0, 1, 0]


def test_brokers_that_are_away_for_too_long_end_a_run_that_ends_with_its_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    brokers, now = Brokers({"led": Topic("A", (0,))}), 0.0
    monkeypatch.setattr(topics_look, "Brokers", lambda *_: brokers)
    monkeypatch.setattr(topics_look, "forward_seconds", lambda: now)
    session: Any = None
    look = TopicsLook(session, SOURCE, ProgressBoard(), 60.0)
    brokers.away = True
    assert look.look() is None
    now = 60.0
    assert look.look() is None
    brokers.away, now = False, 61.0
    assert look.look() is not None
    brokers.away, now = True, 100.0
    assert look.look() is None

    now = 161.0

    with pytest.raises(SourceUnreachable, match="away"):
        look.look()


def test_what_no_waiting_mends_is_raised_by_the_first_look_only(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers({"led": Topic("A", (0,))})
    brokers.problem = SourceDenied("wrong password")
    monkeypatch.setattr(topics_look, "Brokers", lambda *_: brokers)
    session: Any = None
    look = TopicsLook(session, SOURCE, ProgressBoard(), math.inf)
    brokers.away = True
    with pytest.raises(SourceDenied):
        look.look()
    brokers.away = False
    assert look.look() is not None
    brokers.away = True
    assert look.look() is None
