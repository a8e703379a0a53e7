"""What is known of Kafka at each moment: whether it answers, for how long it has not, which transaction is open."""

from __future__ import annotations

from typing import Any, cast

import pytest

from bucketingest.spec.job_report import SourceReport
from bucketingest.stream.errors import SourceDenied, SourceUnreachable
from bucketingest.stream.topics.brokers import Topic
from bucketingest.stream.topics.watch import PARTITIONS_MAX, GroupPosition, TopicsWatch
from bucketingest.write.instants.source_range import Offsets
from support.jobs.boards import Clock

AWAY = "Kafka at kafka:9092 does not answer within 5 s"


class Cluster:
    """Brokers of one topic."""

    servers = "kafka:9092"

    def __init__(self, partitions: int = 2) -> None:
        self.partitions = partitions
        self.away = False
        self.stable: Offsets = {}
        self.high: Offsets = {}
        self.noted: list[tuple[str, Offsets]] = []
        self.refuses = False

    def note_position(self, group: str, position: Offsets) -> None:
        if self.refuses:
            raise SourceDenied("Kafka at kafka:9092 denies access: not authorized for the group")
        self.noted.append((group, position))

    def topics(self) -> dict[str, Topic]:
        if self.away:
            raise SourceUnreachable(AWAY)
        return {"orders": Topic("id", tuple(range(self.partitions)))}

    def ends(self, _: object, *, stable: bool) -> Offsets:
        return self.stable if stable else self.high


class Watched:
    """A watch that looks when a test says so."""

    def __init__(self, cluster: Cluster, *, committed_only: bool = True, group: GroupPosition | None = None) -> None:
        self.seen: list[SourceReport] = []
        self.clock = Clock()
        self.watch = TopicsWatch(
            cast(Any, cluster),
            self.seen.append,
            committed_only=committed_only,
            group=group,
            clock=self.clock.now,
            forward=self.clock.forward,
        )

    def look(self, after: float = 5.0) -> SourceReport:
        self.clock.seconds += after
        self.watch.look()
        return self.seen[-1]


def test_a_broker_that_is_gone_is_seen_at_once_and_for_how_long(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster()
    watched = Watched(cluster)
    first = watched.look()
    assert (first.answers, first.problem, first.unanswered_seconds, first.open_transaction_seconds) == (
        True,
        None,
        0.0,
        0.0,
    )
    cluster.away = True
    assert [watched.look().unanswered_seconds for _ in range(3)] == [0.0, 5.0, 10.0]
    last = watched.seen[-1]
    assert (last.answers, last.problem, last.answered_at) == (False, AWAY, first.answered_at)
    assert last.answering_seconds == 0.0
    assert last.open_transaction_seconds is None, "nobody knows"
    cluster.away = False
    assert [watched.look().answering_seconds for _ in range(3)] == [0.0, 5.0, 10.0]
    assert watched.seen[-1].answers
    assert [each.message for each in caplog.records if each.levelname == "WARNING"] == ["Kafka does not answer"]


def test_only_a_look_after_the_failure_counts_as_an_answer() -> None:
    watched = Watched(Cluster())
    watched.look()
    failed = watched.clock.forward()
    assert not watched.watch.has_answered_since(failed)
    watched.look()
    assert watched.watch.has_answered_since(failed)


def test_an_open_transaction_is_as_old_as_it_was_first_seen() -> None:
    cluster = Cluster()
    watched = Watched(cluster)
    cluster.stable, cluster.high = {("orders", 0): 10, ("orders", 1): 7}, {("orders", 0): 10, ("orders", 1): 9}
    assert watched.look().open_transaction_seconds == 0.0
    cluster.stable[("orders", 0)], cluster.high[("orders", 0)] = 10, 12
    state = watched.look()
    assert (state.open_transaction_seconds, state.open_transaction) == (5.0, "orders partition 1 at offset 7")
    cluster.stable[("orders", 1)] = 8  # it has ended, and the next one is open
    state = watched.look()
    assert (state.open_transaction_seconds, state.open_transaction) == (5.0, "orders partition 0 at offset 10")
    cluster.stable = dict(cluster.high)
    assert watched.look().open_transaction_seconds == 0.0


def test_of_many_partitions_transactions_are_not_known_and_without_isolation_there_are_none() -> None:
    assert Watched(Cluster(PARTITIONS_MAX + 1)).look().open_transaction_seconds is None
    assert Watched(Cluster(PARTITIONS_MAX + 1), committed_only=False).look().open_transaction_seconds == 0.0


def test_the_offsets_of_a_group_follow_the_tables_position_and_a_refusal_stops_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster, position = Cluster(), dict[tuple[str, int], int]()
    watched = Watched(cluster, group=GroupPosition("lag", lambda: dict(position)))
    watched.look()
    assert cluster.noted == [], "nothing is known yet"
    position[("orders", 0)] = 7
    watched.look()
    watched.look()
    assert cluster.noted == [("lag", {("orders", 0): 7})], "once"
    cluster.refuses = True
    position[("orders", 0)] = 9
    assert [watched.look().answers for _ in range(3)] == [True] * 3
    warned = [each for each in caplog.records if each.levelname == "WARNING"]
    assert [each.message for each in warned] == ["the consumer group does not follow"]
    cluster.refuses = False
    position[("orders", 0)] = 3  # a commit was rolled back
    watched.look()
    assert cluster.noted[-1] == ("lag", {("orders", 0): 3})
