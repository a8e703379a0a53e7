"""What of each topic the next tasks read."""

from dataclasses import replace

from bucketingest.decode.kafka.ranges import TopicRange
from bucketingest.stream.tables.shares import (
    TopicOffsets,
    due,
    fair_shares,
    next_range,
    ranges_of,
    waiting,
    went_back,
)
from bucketingest.write.instants.source_range import Relation, SourceRange, relate

T = "orders"


def there(ends: dict[int, int], begins: dict[int, int] | None = None) -> TopicOffsets:
    return TopicOffsets("id", begins or dict.fromkeys(ends, 0), ends)


def at(text: str) -> SourceRange:
    return SourceRange("kafka", None, text, "q", 7)


def test_a_backlog_gets_what_the_others_leave() -> None:
    assert fair_shares({"big": 10_000, "small": 10, "middle": 300}, 1000) == {"small": 10, "middle": 300, "big": 690}
    assert fair_shares({"a": 10_000, "b": 10_000}, 1000) == {"a": 500, "b": 500}
    assert fair_shares({"a": 5, "b": 5, "c": 5}, 2) == {"a": 1, "b": 1, "c": 1}


def test_a_table_is_due_by_its_age_or_its_backlog_and_takes_along_what_would_soon_be() -> None:
    amounts = {"old": 5, "soon": 5, "young": 5, "idle": 0}
    ages = {"old": 30.0, "soon": 16.0, "young": 3.0, "idle": 99.0}

    assert due(amounts, ages, interval=30, most=1000) == {"old": 5, "soon": 5}
    assert due(amounts, ages | {"old": 29.0}, interval=30, most=1000) == {}
    assert due(amounts | {"young": 250}, ages | {"old": 0.0, "soon": 0.0}, interval=30, most=1000) == {"young": 250}
    assert due({}, {}, interval=30, most=1000) == {}


def test_the_first_range_begins_where_the_topic_does() -> None:
    first = next_range(None, T, there({0: 10, 1: 20}, {0: 4, 1: 0}), 100, 1)

    assert (first.start, first.end) == ('{"orders":{"0":4,"1":0}}', '{"orders":{"0":10,"1":20}}')
    assert ranges_of(first, T, {0: 4, 1: 0}) == [TopicRange(T, 0, 4, 10), TopicRange(T, 1, 0, 20)]


def test_a_share_is_taken_of_each_partition_in_proportion() -> None:
    now = there({0: 100, 1: 300, 2: 5})
    position = at('{"orders":{"0":0,"1":0,"2":5}}')

    taken = next_range(position, T, now, 40, 1)

    assert waiting(position, T, now) == 400
    assert taken.end == '{"orders":{"0":10,"1":30,"2":5}}'
    assert relate(taken, position) is Relation.NEXT


def test_a_new_partition_is_not_in_the_start_and_is_read_from_its_beginning() -> None:
    now = there({0: 5, 1: 9}, {0: 0, 1: 6})

    taken = next_range(at('{"orders":{"0":5}}'), T, now, 100, 1)

    assert (taken.start, taken.end) == ('{"orders":{"0":5}}', '{"orders":{"0":5,"1":9}}')
    assert ranges_of(taken, T, now.begins) == [TopicRange(T, 1, 6, 9)]


def test_a_partition_that_kafka_does_not_show_stays_in_the_range() -> None:
    assert next_range(at('{"orders":{"0":5,"1":3}}'), T, there({0: 7}), 9, 1).end == '{"orders":{"0":7,"1":3}}'


def test_offsets_that_went_back_are_nothing_to_read() -> None:
    position = at('{"orders":{"0":50}}')

    assert waiting(position, T, there({0: 7})) == 0
    assert next_range(position, T, there({0: 7}), 9, 1).end == '{"orders":{"0":50}}'


def test_a_table_that_has_more_than_its_topic_is_looked_into_unless_loss_is_accepted() -> None:
    position = at('{"orders":{"0":50},"moved":{"0":99}}')

    assert went_back(position, T, there({0: 7}))
    assert not went_back(position, T, there({0: 50, 1: 3}))
    assert not went_back(None, T, there({0: 7}))

    known = replace(position, topic_ids='{"orders":"id"}')
    assert not went_back(known, T, there({0: 50}))
    assert not went_back(known, T, TopicOffsets("", {0: 0}, {0: 50})), "the broker gives none"
    assert went_back(known, T, TopicOffsets("other", {0: 0}, {0: 70}))
