"""Which commits are one moment of the database, and the object that says so."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from bucketingest.decode.debezium.transactions import Run
from bucketingest.decode.kafka.ranges import TopicRange
from bucketingest.storage import open_storage
from bucketingest.stream.errors import SourceOptionsRefused, SourceUnreachable
from bucketingest.stream.tables.consistent import keeper as keeping
from bucketingest.stream.tables.consistent.cuts import JOIN_TURNS, At, ConsistentSet, Cuts
from bucketingest.stream.tables.consistent.ends import EndsInOrder
from bucketingest.stream.tables.consistent.keeper import SetKeeper
from bucketingest.stream.tables.consistent.places import Named, Place
from bucketingest.stream.tables.consistent.set_file import KEPT, Said, SetFile, SetFileUnreadable, folder_of
from bucketingest.stream.topics.brokers import Topic
from bucketingest.stream.topics.ends import Message
from support.consistent.database import ENDS, Kafka
from support.consistent.job import PATH

TABLES = ("inv.t", "t")


def end(kafka: Kafka, id_: str, at: int = 0, **counts: int) -> None:
    said = [{"data_collection": f"inv.{table}", "event_count": count} for table, count in counts.items()]
    kafka.send(ENDS, at, {"status": "END", "id": id_, "data_collections": said})


def ends_of(kafka: Kafka) -> EndsInOrder:
    return EndsInOrder(cast("Any", kafka), kafka.messages, json.loads, stable=True)


def place(number: int, **named: str) -> Place:
    ended = {f"inv.{table}": Named(id_, 1, int(id_), int(id_)) for table, id_ in named.items()}
    return Place("id", number + 1, 1, ended, Named(str(number), 0, number, number))


def at(id_: str | None, instant: str | None = "i", order: int = 1) -> At:
    run = None if id_ is None else Run(0, int(id_), id_, TABLES, order)
    return At(9, run, instant)


def test_a_table_that_has_a_part_of_the_last_transaction_is_not_there() -> None:
    """It was written before its commits had whole ones."""
    now = place(5, t="5")
    assert now.is_of("shop.inv.t", at("5").run, has_all=False)
    assert not replace(now, named={"inv.t": Named("5", 2, 5, 5)}).is_of("shop.inv.t", at("5").run, has_all=True)


def test_a_table_whose_events_are_on_their_way_is_not_there_whatever_its_topic_is_called() -> None:
    assert not place(5, t="5").is_of("shop.inv.t", at("4").run, has_all=True)
    assert not place(5, t="5").is_of("another-name", Run(0, 1, None, TABLES), has_all=True), "a row of a snapshot"
    assert not place(5, t="5").is_of("shop.inv.t", None, has_all=True), "its topic is empty yet"
    assert place(5, t="5").is_of("shop.inv.u", None, has_all=True), "no transaction has changed it"
    assert not place(5, t="5").is_of("shop.inv.u", None, has_all=False), "there may be rows of a snapshot"


def test_a_new_table_is_waited_for_but_not_for_ever() -> None:
    cuts = Cuts()
    cuts.at("old", at("1"))
    topics = {"old", "new"}
    cuts.move(place(1, t="1"))
    for number in range(2, JOIN_TURNS + 1):
        assert cuts.choose(topics) is None
        cuts.move(replace(place(1, t="1"), offset=number + 1, last=Named(str(number), 0, number, number)))
    cuts.move(replace(place(1, t="1"), offset=99, last=Named("99", 0, 99, 99)))
    found = cuts.choose(topics)
    assert found is not None
    assert (found.last.id, dict(found.tables)) == ("1", {"old": "i"})
    cuts.at("new", at("1", "j"))
    found = cuts.choose(topics)
    assert found is not None
    assert (found.last.id, dict(found.tables)) == ("99", {"old": "i", "new": "j"})


def test_what_was_in_a_set_is_in_all_later_ones_until_its_topic_is_gone() -> None:
    cuts = Cuts()
    cuts.newest = ConsistentSet("id", Named("0", 0, 0, 0), {"a": "i", "parked": "j"})
    cuts.at("a", at("1"))
    for number in range(1, 3 * JOIN_TURNS):
        cuts.move(replace(place(number, t="1")))
    assert cuts.choose({"a", "parked"}) is None
    found = cuts.choose({"a"})
    assert found is not None
    assert found.tables == {"a": "i"}


def test_a_start_knows_which_transactions_come_again() -> None:
    kafka = Kafka()
    for number in range(3):
        end(kafka, str(number), t=1)
    ends = ends_of(kafka)
    ends.read_on()
    again = ends_of(kafka)
    again.begin(ends.place)
    end(kafka, "1", t=1)
    again.read_on()
    assert again.place.is_again
    end(kafka, "2", t=1)
    again.read_on()
    assert not again.place.is_again
    assert again.place.last == Named("2", 0, 4, 0)


def test_ends_that_are_deleted_before_they_were_read_say_nothing() -> None:
    kafka = Kafka()
    for number in range(9):
        end(kafka, str(number), at=number, **{f"t{number}": 1})
    ends = ends_of(kafka)
    ends.begin(Place("id", 2, 1, {"inv.t0": Named("0", 1, 0, 0)}))
    kafka.begin[ENDS] = 5
    ends.read_on()
    assert sorted(ends.place.named) == ["inv.t5", "inv.t6", "inv.t7", "inv.t8"]
    assert ends.place.since == 5


def test_a_topic_that_was_made_again_is_read_from_its_beginning() -> None:
    kafka = Kafka()
    end(kafka, "7", t=1)
    ends = ends_of(kafka)
    ends.begin(Place("old id", 1000, 1, {"inv.u": Named("0", 1, 0, 0)}))
    ends.read_on()
    assert (ends.place.topic_id, ends.place.offset, sorted(ends.place.named)) == ("id", 1, ["inv.t"])


def test_a_topic_that_ends_before_what_was_read_is_waited_for() -> None:
    kafka = Kafka()
    end(kafka, "7", t=1)
    ends = ends_of(kafka)
    ends.begin(Place("id", 3))
    with pytest.raises(SourceUnreachable, match="ends at offset 1, and was read up to 3"):
        ends.read_on()


def test_ends_in_several_partitions_have_no_order() -> None:
    class Several(Kafka):
        def topics(self) -> dict[str, Topic]:
            return {ENDS: Topic("id", (0, 1))}

    with pytest.raises(SourceOptionsRefused, match="several partitions"):
        ends_of(Several()).read_on()


def test_what_could_not_be_read_whole_is_read_again() -> None:
    kafka = Kafka()
    for number in range(4):
        end(kafka, str(number), t=1)
    fails = [True]

    def read(wanted: TopicRange) -> Iterator[Message]:
        for message in kafka.messages(wanted):
            if message[0] == 2 and fails:
                fails.clear()
                raise SourceUnreachable("away")
            yield message

    ends = EndsInOrder(cast("Any", kafka), read, json.loads, stable=True)
    with pytest.raises(SourceUnreachable):
        ends.read_on()
    assert (ends.place.offset, ends.place.named) == (0, {})
    ends.read_on()
    assert (ends.place.offset, ends.place.is_again) == (4, False)


def test_the_brokers_are_asked_one_question_at_a_time() -> None:
    """By the thread that reads on, and by those of tables."""
    kafka = Kafka()
    asked: list[bool] = []

    def topics() -> dict[str, Topic]:
        asked.append(ends._asking.locked())
        return Kafka.topics(kafka)

    cast("Any", kafka).topics = topics
    ends = ends_of(kafka)
    ends.read_on()
    ends.look_for(Run(0, 0, "1", TABLES, 1))
    ends.look()
    assert asked == [True] * 3


@pytest.fixture
def file(tmp_path: Path) -> Callable[[], SetFile]:
    return lambda: SetFile(open_storage(str(tmp_path)), PATH)


def said(number: int, **tables: str) -> Said:
    return Said(place(number, t=str(number)), ConsistentSet("id", Named(str(number), 0, number, 0), tables))


def test_an_object_is_read_as_it_was_written_and_old_ones_go(file: Callable[[], SetFile], tmp_path: Path) -> None:
    for number in range(9):
        assert file().say(said(number, a="i"))
    assert file().newest() == said(8, a="i")
    assert sorted(path.name for path in tmp_path.glob("*.json")) == [f"{n:012d}.json" for n in range(10 - KEPT, 10)]
    found = json.loads((tmp_path / "000000000009.json").read_text())
    assert found["set"]["tables"] == {"a": {"path": "/lake/a", "instant": "i"}}


def test_a_stale_driver_moves_nothing_back(file: Callable[[], SetFile]) -> None:
    new, stale = file(), file()
    assert new.say(said(5, a="i"))
    assert not stale.say(said(4, a="h"))
    assert new.newest() == said(5, a="i")
    further = replace(said(4, a="h"), place=place(7, t="7"))
    assert stale.say(further), "it has read further"
    assert new.newest() == replace(said(5, a="i"), place=place(7, t="7")), "and the set stays"


def test_of_two_drivers_one_takes_the_next_number(file: Callable[[], SetFile], monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = file(), file()
    assert one.say(said(1, a="i"))
    looked = other._newest()
    assert one.say(said(3, a="j"))
    monkeypatch.setattr(other, "_newest", lambda: looked)  # it was paused between its look and its request
    assert not other.say(said(2, a="x"))
    assert one.newest() == said(3, a="j")


@pytest.mark.parametrize("content", [b"{", b"[]", b"{}", b'{"version": 1, "set": null, "read": 3}', b'{"version": 2}'])
def test_what_cannot_be_read_says_what_to_do(file: Callable[[], SetFile], tmp_path: Path, content: bytes) -> None:
    (tmp_path / "000000000001.json").write_bytes(content)
    with pytest.raises(SetFileUnreadable, match=r"000000000001\.json .*delete the folder"):
        file().newest()


def test_the_folder_is_beside_the_tables() -> None:
    assert folder_of("s3://lake/{topic}", "shop/lake") == "s3://lake/~sets/shop~lake"
    assert folder_of("s3://lake/raw/x-{topic}/t", "lake") == "s3://lake/raw/~sets/lake"
    assert folder_of("/{topic}", "lake") == "/~sets/lake"


def test_tables_wait_for_the_transaction_topic_and_are_told_why_after_a_while(file: Callable[[], SetFile]) -> None:
    kafka, now = Kafka(), [0.0]
    end(kafka, "1", t=1)
    brokers: Any = kafka
    away: list[Exception] = [SourceUnreachable("no answer")]

    def topics() -> dict[str, Topic]:
        if away:
            raise away[0]
        return Kafka.topics(kafka)

    brokers.topics = topics
    keeper = SetKeeper(ENDS, ends_of(kafka), file(), interval=30.0, read=kafka.messages, clock=lambda: now[0])
    keeper.turn()
    assert (keeper.problem, keeper.cuts.turn, keeper.has_all) == ("", 0, False)
    now[0] += keeping.PATIENCE_SECONDS
    keeper.turn()
    assert "no answer" in keeper.problem
    away.clear()
    keeper.turn()
    assert (keeper.problem, keeper.cuts.turn) == ("", 1)
    away.append(SourceOptionsRefused("several partitions"))
    keeper.turn()
    assert (keeper.problem, keeper.cuts.turn) == ("", 1), "it is not time yet"
    now[0] += 30
    keeper.turn()
    assert "several partitions" in keeper.problem, "waiting does not help"
    away[0] = KeyError("a defect")
    keeper.turn()
    assert "a defect" in keeper.problem, "and the thread goes on"
