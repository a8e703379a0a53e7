"""Which messages are of a range, and which gaps may be losses."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.decode.kafka.errors import TopicInDoubt
from bucketingest.decode.kafka.ranges import Cursor, TopicRange

WANTED = TopicRange("orders", 3, 10, 20)


def take(cursor: Cursor, offsets: Sequence[int]) -> int:
    return cursor.take(len(offsets), offsets.__getitem__)


@given(
    offsets=st.sets(st.integers(0, 40)).map(sorted),
    start=st.integers(0, 30),
    length=st.integers(1, 15),
    sizes=st.lists(st.integers(1, 5), min_size=45, max_size=45),
)
def test_in_whatever_pieces_messages_come_those_of_the_range_are_taken(
    offsets: list[int], start: int, length: int, sizes: list[int]
) -> None:
    cursor = Cursor(TopicRange("t", 0, start, start + length))
    coming = [each for each in offsets if each >= start]
    wanted = [each for each in coming if each < start + length]
    taken: list[int] = []
    for size in sizes:
        some, coming = coming[:size], coming[size:]
        taken += some[: take(cursor, some)]
        if cursor.at_end or not coming:
            break
    if not cursor.at_end:
        cursor.ended_at(41)
    assert taken == wanted
    assert cursor.at_end is (start + length <= 41)
    missing = sorted(set(range(start, min(start + length, 41))) - set(wanted))
    assert cursor.gap == (missing[0] if missing else None)


def test_a_gap_is_a_loss_only_before_the_beginning_of_the_topic() -> None:
    cursor = Cursor(WANTED)
    assert take(cursor, [12, 13, 21]) == 2
    cursor.check(10)
    with pytest.raises(TopicInDoubt, match="orders-3 from 10 to 20: no message at 10, and the topic begins at 11 now"):
        cursor.check(11)


def test_without_a_gap_nothing_is_lost_wherever_the_topic_begins() -> None:
    cursor = Cursor(WANTED)
    assert take(cursor, range(10, 21)) == 10
    cursor.check(100)


def test_an_end_within_the_range_is_not_its_end() -> None:
    cursor = Cursor(WANTED)
    cursor.ended_at(15)
    assert not cursor.at_end
    cursor.ended_at(12)
    assert cursor.next == 15
    cursor.ended_at(20)
    assert cursor.at_end


def test_offsets_that_go_back_are_in_doubt() -> None:
    cursor = Cursor(WANTED)
    take(cursor, [10, 11])
    with pytest.raises(TopicInDoubt, match="offset 11 came when 12 was due"):
        take(cursor, [11, 12])
