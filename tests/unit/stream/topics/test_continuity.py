"""Whether Kafka can continue a position: other topics of the same names, messages that are gone, by their places."""

from __future__ import annotations

import pytest

from bucketingest.stream.topics.continuity import (
    behind,
    check_same_topics,
    deleted,
    eaten,
    held_back,
    offsets_of,
    within,
    without,
)
from bucketingest.write.errors import RangeConflict
from bucketingest.write.instants.source_range import SourceRange, relate, topic_ids

POSITION = SourceRange("kafka", None, '{"a":{"0":5,"1":7},"b":{"0":9}}', "q", 3, topic_ids='{"a":"A","b":"B"}')


def test_a_topic_with_another_id_is_another_topic_and_one_without_is_not_known_to_be() -> None:
    check_same_topics(POSITION, {"a": "A", "b": "B", "c": "C"})
    check_same_topics(POSITION, {"a": "", "b": ""})
    check_same_topics(None, {"a": "A"})
    with pytest.raises(RangeConflict, match=r"topic b was deleted and made again: .* id B, .* id X now") as refused:
        check_same_topics(POSITION, {"a": "A", "b": "X"})
    assert "Give the pipeline another name" in str(refused.value)


def test_a_range_of_another_topic_does_not_continue_the_position() -> None:
    later = SourceRange("kafka", POSITION.end, '{"a":{"0":6,"1":7},"b":{"0":9}}', "q", 4, topic_ids='{"a":"X"}')
    with pytest.raises(RangeConflict, match="topic a was deleted and made again"):
        relate(later, POSITION)
    assert not later.same_rows_as(SourceRange("kafka", later.start, later.end, "q", 4, topic_ids='{"a":"A"}'))
    assert later.same_rows_as(SourceRange("kafka", later.start, later.end, "q", 4)), "an id that is not known"


def test_ids_are_kept_with_the_range() -> None:
    assert SourceRange.from_json(POSITION.to_json()) == POSITION


def test_what_is_gone_is_counted_and_named() -> None:
    assert eaten(offsets_of(POSITION), {("a", 0): 5, ("a", 1): 0, ("b", 0): 9, ("c", 0): 100}) is None
    said = str(eaten(offsets_of(POSITION), {("a", 0): 6, ("b", 0): 20}))
    assert "at most 12: topic a partition 0: offsets 5 to 5; topic b partition 0: offsets 9 to 19 are gone" in said
    assert "runbook" in said
    many = {("a", number): 0 for number in range(9)}
    assert "and of 4 more partitions" in str(eaten(many, dict.fromkeys(many, 1)))


def test_a_topic_that_ends_before_the_position_was_cut() -> None:
    assert behind(offsets_of(POSITION), {("a", 0): 5, ("b", 0): 100}) is None
    assert "topic b partition 0 ends at offset 8, and the table has everything before 9" in str(
        behind(offsets_of(POSITION), {("b", 0): 8})
    )


def test_a_position_within_an_open_transaction_waits_for_its_end() -> None:
    assert held_back(offsets_of(POSITION), {("a", 0): 5}) is None
    assert "a transaction is open since offset 4" in (held_back(offsets_of(POSITION), {("a", 0): 4}) or "")


def test_only_a_deleted_topic_that_was_read_is_lost() -> None:
    assert deleted(POSITION, ("c",)) is None
    assert deleted(None, ("a",)) is None
    assert "the topic a was deleted" in str(deleted(POSITION, ("a", "c")))


def test_a_topic_that_is_no_longer_read_stays_in_the_position_and_is_kept_from_spark() -> None:
    left = {("b", 0): 9}
    spark = without(POSITION, left)
    assert spark.end == '{"a":{"0":5,"1":7}}'
    planned = SourceRange("kafka", spark.end, '{"a":{"0":8,"1":7}}', "q", 4)
    made = within(planned, left, {"a": "A", "b": "B", "c": "C"})
    assert made.end == '{"a":{"0":8,"1":7},"b":{"0":9}}'
    assert made.start == POSITION.end
    assert topic_ids(made) == {"a": "A", "b": "B"}
    assert without(POSITION, {}) is POSITION


def test_a_range_without_known_ids_names_none() -> None:
    planned = SourceRange("kafka", None, '{"a":{"0":8}}', "q", 4)
    assert within(planned, {}, {"a": ""}) == planned
