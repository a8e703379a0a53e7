"""Micro-batches that end where transactions of the database do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.decode.kafka.errors import TopicInDoubt
from bucketingest.decode.kafka.ranges import TopicRange
from bucketingest.stream.errors import SourceOptionsRefused, SourceUnreachable, TopicsMissing, TransactionIncomplete
from bucketingest.stream.topics import ends as said_ends
from bucketingest.stream.topics import transactions
from bucketingest.stream.topics.brokers import Topic
from bucketingest.stream.topics.ends import Ends, Message
from bucketingest.stream.topics.transactions import WholeTransactions
from bucketingest.write.instants.source_range import Offsets
from support.decoding.debezium_streams import Stream, records_of

DATA: Final = "shop.inv.t"
ENDS: Final = "shop.transaction"
PLACE: Final = (DATA, 0)
WAIT: Final = 60.0
SECOND: Final = 1000


@dataclass
class Kafka:
    """Two topics that grow, and what was asked for."""

    logs: dict[str, list[tuple[int, bytes | None]]] = field(default_factory=lambda: {DATA: [], ENDS: []})
    read: list[TopicRange] = field(default_factory=list)
    moments: list[int] = field(default_factory=list)
    missing: bool = False
    deleted: int = 0
    """So many of the ENDs are gone."""
    clock: float = 0.0
    waited: list[float] = field(default_factory=list)
    closed: bool = False

    def send(self, topic: str, value: Any, at: int = 0) -> None:
        self.logs[topic].append((at, None if value is None else json.dumps(value).encode()))

    def topics(self) -> dict[str, Topic]:
        if self.missing:
            raise TopicsMissing("there is none", (ENDS,))
        return {ENDS: Topic("id", (0,))}

    def begins(self, topics: Any) -> Offsets:
        return {(name, 0): self.deleted for name in topics}

    def ends(self, topics: Any, *, stable: bool) -> Offsets:
        assert stable
        return {(name, 0): len(self.logs[name]) for name in topics}

    def since(self, topics: Any, timestamp_ms: int) -> Offsets:
        self.moments.append(timestamp_ms)
        log = self.logs[ENDS]
        return {
            (name, 0): next((n for n, (at, _) in enumerate(log) if at >= timestamp_ms), len(log)) for name in topics
        }

    def close(self) -> None:
        self.closed = True

    def messages(self, wanted: TopicRange) -> Iterator[Message]:
        self.read.append(wanted)
        for offset in range(wanted.start, wanted.until):
            yield (offset, *self.logs[wanted.topic][offset])

    def whole(self) -> WholeTransactions:
        ends = Ends(cast("Any", self), self.messages, json.loads, stable=True)
        return WholeTransactions(
            ends, self.messages, json.loads, wait_seconds=WAIT, tell=self.waited.append, clock=lambda: self.clock
        )


def event(id_: int, order: int, op: str = "c") -> dict[str, Any]:
    source = {"connector": "postgresql", "db": "d", "schema": "inv", "table": "t", "snapshot": "false"}
    said = {"id": f"{id_}:{id_ * 1000 + order}", "total_order": order, "data_collection_order": order}
    return {"op": op, "before": None, "after": {"id": 1}, "source": source, "transaction": said}


def end(id_: int, count: int) -> dict[str, Any]:
    tables = [{"data_collection": "inv.other", "event_count": 9}, {"data_collection": "inv.t", "event_count": count}]
    return {"status": "END", "id": f"{id_}:{id_ * 1000 + 999}", "event_count": count + 9, "data_collections": tables}


def send(kafka: Kafka, id_: int, count: int, at: int = 0, *, ends: bool = True) -> None:
    for order in range(1, count + 1):
        kafka.send(DATA, event(id_, order), at)
    if ends:
        kafka.send(ENDS, end(id_, count), at)


def until(kafka: Kafka, whole: WholeTransactions, begin: int, most: int = 1_000_000) -> int:
    last = len(kafka.logs[DATA])
    return whole.until({PLACE: begin}, {PLACE: min(last, begin + most)}, {PLACE: last})[PLACE]


def test_a_micro_batch_ends_before_a_transaction_of_which_there_is_more() -> None:
    kafka = Kafka()
    whole = kafka.whole()
    assert until(kafka, whole, 0) == 0
    send(kafka, 1, 3)
    assert until(kafka, whole, 0) == 3
    send(kafka, 2, 2, ends=False)
    assert until(kafka, whole, 3) == 3, "nobody knows whether that is all"
    kafka.send(ENDS, end(2, 3))
    assert until(kafka, whole, 3) == 3, "one is missing"
    kafka.send(DATA, event(2, 3, "d"))
    kafka.send(DATA, None)
    assert until(kafka, whole, 3) == 7, "with the tombstone"
    send(kafka, 3, 2)
    send(kafka, 4, 2)
    assert until(kafka, whole, 7, most=3) == 9
    assert until(kafka, whole, 7, most=2) == 9


def test_a_transaction_may_be_longer_than_a_micro_batch() -> None:
    kafka = Kafka()
    send(kafka, 1, 5_000)
    send(kafka, 2, 2)
    assert until(kafka, kafka.whole(), 0, most=10) in {5_000, 5_002}
    assert sum(each.until - each.start for each in kafka.read if each.topic == DATA) <= 5_002, "each is read once"


def test_of_a_long_micro_batch_only_the_last_messages_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(said_ends, "READ_AT_ONCE", 100)
    kafka = Kafka()
    for number in range(1, 5_001):
        send(kafka, number, 2, at=number * SECOND)
    whole = kafka.whole()
    assert until(kafka, whole, 0, most=9_001) == 9_000
    assert kafka.moments == [4_501 * SECOND - said_ends.MARGIN_MS]
    read = {topic: sum(e.until - e.start for e in kafka.read if e.topic == topic) for topic in (DATA, ENDS)}
    assert read[DATA] == transactions.WINDOW
    assert read[ENDS] <= said_ends.READ_AT_ONCE
    kafka.read.clear()
    assert until(kafka, whole, 9_000) == 10_000
    assert len(kafka.moments) == 2, "the ENDs between the two are not read"


def test_lost_ends_of_some_transactions_are_no_matter_if_later_ones_are_there() -> None:
    kafka = Kafka()
    for number in range(1, 101):
        send(kafka, number, 2, ends=number > 90)
    whole = kafka.whole()
    assert until(kafka, whole, 0, most=5) == 200


def test_an_end_that_was_passed_is_read_again_for_an_older_transaction() -> None:
    kafka = Kafka()
    send(kafka, 1, 2, at=1_000 * SECOND)
    send(kafka, 2, 2, at=9_000 * SECOND, ends=False)
    whole = kafka.whole()
    assert until(kafka, whole, 0) == 2
    assert kafka.moments == [9_000 * SECOND - said_ends.MARGIN_MS, 1_000 * SECOND - said_ends.MARGIN_MS]


def test_rows_of_snapshots_need_no_transaction(caplog: pytest.LogCaptureFixture) -> None:
    kafka = Kafka(missing=True)
    for at in range(1_000):
        kafka.send(DATA, {"op": "r", "source": {"snapshot": "last" if at == 999 else "true"}, "transaction": None})
    whole = kafka.whole()
    assert until(kafka, whole, 0, most=600) == 600
    for _ in range(1_000):
        kafka.send(DATA, {"op": "r", "source": {"snapshot": "incremental"}, "transaction": None})
    assert until(kafka, whole, 1_000) == 2_000
    assert "name no transaction" not in caplog.text
    kafka.send(DATA, {"op": "c", "source": {"snapshot": "false"}, "transaction": None})
    assert until(kafka, whole, 2_000) == 2_001
    assert "changes name no transaction" in caplog.text


def test_what_waits_too_long_is_said_with_what_is_missing() -> None:
    kafka = Kafka()
    whole = kafka.whole()
    send(kafka, 1, 2, ends=False)
    for kafka.clock in (0.0, WAIT):
        assert until(kafka, whole, 0) == 0
    kafka.send(DATA, event(1, 3))
    kafka.clock += WAIT
    assert until(kafka, whole, 0) == 0, "more has come of it"
    kafka.clock += WAIT
    assert until(kafka, whole, 0) == 0
    assert kafka.waited == [0.0, WAIT, 0.0, WAIT]
    kafka.clock += 1
    with pytest.raises(TransactionIncomplete, match=r"from offset 0 on .* within 60 s.*is 1, with event 3 .*no END"):
        until(kafka, whole, 0)
    kafka.send(ENDS, end(1, 4))
    with pytest.raises(TransactionIncomplete, match=r"its END has the counts .*'inv.t': 4"):
        until(kafka, whole, 0)
    kafka.send(DATA, event(1, 4))
    assert until(kafka, whole, 0) == 4
    assert kafka.waited[-1] == 0.0


def test_ends_that_never_come_are_noticed_although_transactions_do() -> None:
    kafka = Kafka()
    whole = kafka.whole()
    for number in range(1, 62):
        send(kafka, number, 2, ends=False)
        kafka.clock += 1
        assert until(kafka, whole, 0) == 0
    send(kafka, 70, 2, ends=False)
    kafka.clock += WAIT
    with pytest.raises(TransactionIncomplete, match="no END"):
        until(kafka, whole, 0)
    whole.close()
    assert kafka.closed


def test_of_many_transactions_without_an_end_not_all_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "RUNS_MAX", 100)
    kafka = Kafka()
    for number in range(1, 5_001):
        send(kafka, number, 1, ends=False)
    assert until(kafka, kafka.whole(), 0) == 0
    assert sum(each.until - each.start for each in kafka.read if each.topic == DATA) == transactions.WINDOW


def test_a_topic_without_ends_and_one_that_cannot_be_read_are_waited_for() -> None:
    kafka = Kafka(missing=True)
    send(kafka, 1, 1)
    with pytest.raises(SourceUnreachable, match=r"lacks the topic shop.transaction: set Debezium's provide.transact"):
        until(kafka, kafka.whole(), 0)

    def doubted(wanted: TopicRange) -> Iterator[Message]:
        raise TopicInDoubt(f"{wanted}: no message")
        yield

    whole = WholeTransactions(
        Ends(cast("Any", kafka), doubted, json.loads, stable=True), doubted, json.loads, wait_seconds=1
    )
    with pytest.raises(SourceUnreachable, match="no message"):
        until(kafka, whole, 0)
    with pytest.raises(SourceOptionsRefused, match="several partitions"):
        whole.until({}, {}, {PLACE: 1, (DATA, 1): 1})


@pytest.mark.parametrize(
    ("data", "said"), [("postgres.orders", "postgres.transaction"), ("mariadb.orders", "mariadb.transaction")]
)
def test_recorded_topics_are_taken_whole_however_they_come(data: Stream, said: Stream) -> None:
    kafka = Kafka()
    whole = kafka.whole()
    position, taken = 0, []
    ends = iter(records_of(said))
    for _, value in records_of(data):
        kafka.logs[DATA].append((0, value))
        if (found := next(ends, None)) is not None:
            kafka.logs[ENDS].append((0, found[1]))
        if (at := until(kafka, whole, position)) > position:
            position = at
            taken.append(at)
    kafka.logs[ENDS] += [(0, value) for _, value in ends]
    assert until(kafka, whole, position) == len(kafka.logs[DATA])
    parts = {(events["transaction"] or {}).get("id", "").partition(":")[0] for events in _events(kafka, position)}
    before = {(events["transaction"] or {}).get("id", "").partition(":")[0] for events in _events(kafka, 0, position)}
    assert not parts & before - {""}


def _events(kafka: Kafka, start: int, end: int | None = None) -> list[dict[str, Any]]:
    return [json.loads(value) for _, value in kafka.logs[DATA][start:end] if value is not None]


@given(
    st.lists(st.tuples(st.integers(1, 6), st.booleans(), st.integers(0, 3)), min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=40),
    st.integers(1, 8),
    st.sampled_from([1, 2, 256]),
)
def test_random_transactions_are_never_cut(
    made: list[tuple[int, bool, int]], arrivals: list[tuple[int, int]], most: int, window: int
) -> None:
    """Each transaction: events, whether Debezium sends its last ones again, tombstones and rows of an incremental
    snapshot in it. `arrivals`: how many messages come of each topic before a look, as their producer may be slow.
    """
    data: list[Any] = []
    ends: list[Any] = []
    for id_, (count, again, others) in enumerate(made, 1):
        for order in range(1, count + 1):
            data.append(event(id_, order))
            if order <= others:
                data.append(None if order % 2 else {"op": "r", "source": {"snapshot": "incremental"}})
        if again:
            data += [event(id_, order) for order in range(2, count + 1)]
        ends.append(end(id_, count))
    kafka = Kafka()
    whole = kafka.whole()
    position = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transactions, "WINDOW", window)
        patch.setattr(said_ends, "READ_AT_ONCE", window)
        for more, said in [*arrivals, (len(data), len(ends)), *[(0, 0)] * len(data)]:
            for _ in range(min(more, len(data) - len(kafka.logs[DATA]))):
                kafka.send(DATA, data[len(kafka.logs[DATA])])
            for _ in range(min(said, len(ends) - len(kafka.logs[ENDS]))):
                kafka.send(ENDS, ends[len(kafka.logs[ENDS])])
            found = until(kafka, whole, position, most)
            assert found >= position
            assert _is_whole([count for count, _, _ in made], data[:found])
            position = found
    assert position == len(data), "nothing waits once all is there"


def _is_whole(counts: list[int], taken: list[Any]) -> bool:
    """Whether of each transaction all events are there, and the last one of the last transaction comes last."""
    seen: dict[int, set[int]] = {}
    last = 0
    for said in (each["transaction"] for each in taken if each and "transaction" in each):
        last = said["data_collection_order"]
        seen.setdefault(int(said["id"].partition(":")[0]), set()).add(last)
    return all(orders == set(range(1, counts[id_ - 1] + 1)) for id_, orders in seen.items()) and (
        not seen or last == counts[max(seen) - 1]
    )


def test_a_look_says_whether_the_transaction_topic_is_debeziums() -> None:
    kafka = Kafka()
    assert kafka.whole().look(1) == "shop.transaction can be read; it is empty"
    kafka.send(ENDS, {"status": "BEGIN", "id": "7:1", "event_count": None, "data_collections": None})
    for _ in range(said_ends.LOOKED_AT - 1):
        kafka.send(ENDS, None)
    assert kafka.whole().look(1) == "shop.transaction has Debezium's transaction metadata"
    kafka.send(ENDS, {"status": "paid", "id": "7"})
    with pytest.raises(SourceOptionsRefused, match="has no BEGIN or END of Debezium in its 100 newest messages"):
        kafka.whole().look(1)
    kafka.deleted = len(kafka.logs[ENDS]) - 2
    with pytest.raises(SourceOptionsRefused, match="in its 2 newest messages"):
        kafka.whole().look(1)
    kafka.missing = True
    with pytest.raises(SourceUnreachable, match=r"Kafka lacks the topic shop\.transaction"):
        kafka.whole().look(1)
    with pytest.raises(SourceOptionsRefused, match="several partitions"):
        kafka.whole().look(2)
