"""How a micro-batch relates to the committed position: next, done, or refused with what to do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.write.errors import RangeConflict
from bucketingest.write.instants.source_range import Relation, SourceRange, canonical_json, kafka_offsets, relate

Offsets = dict[str, dict[str, int]]


def kafka(start: Offsets | None, end: Offsets, *, query: str = "q", batch: int = 0) -> SourceRange:
    return SourceRange("kafka", None if start is None else canonical_json(start), canonical_json(end), query, batch)


def files(end: int, *, query: str = "q", batch: int = 0) -> SourceRange:
    return SourceRange("checkpoint", None, canonical_json({"logOffset": end}), query, batch)


def one(start: int, end: int, **more: Any) -> SourceRange:
    """A range of the only partition of one topic."""
    return kafka({"t": {"0": start}}, {"t": {"0": end}}, **more)


def test_the_first_micro_batch_of_a_pipeline_is_next() -> None:
    assert relate(one(7, 9), None) is Relation.NEXT
    assert relate(files(3, batch=5), None) is Relation.NEXT


def test_a_range_that_starts_at_the_position_is_next() -> None:
    assert relate(one(10, 20), one(0, 10)) is Relation.NEXT


@pytest.mark.parametrize("start", [0, 9])
def test_a_range_that_ends_at_the_position_is_done(start: int) -> None:
    assert relate(one(start, 10), one(0, 10)) is Relation.DONE


@pytest.mark.parametrize(("start", "end"), [(10, 3), (3, 3), (3, 7), (0, 5)])
def test_offsets_that_went_back_are_those_of_another_topic_and_never_count_as_done(start: int, end: int) -> None:
    """As Spark reads under failOnDataLoss=false, after a topic was deleted and created again."""
    with pytest.raises(RangeConflict) as refused:
        relate(one(start, end), one(0, 10))
    assert str(refused.value) == (
        "topic t partition 0: the offsets went back: the table has everything before offset 10, the micro-batch is "
        f"{start} to {end}. The topic was deleted and created again, or truncated, and its rows are not in the table: "
        "give the pipeline another name to ingest all of them"
    )


def test_a_new_partition_whose_offsets_go_back_within_the_micro_batch_is_refused() -> None:
    with pytest.raises(RangeConflict, match="the offsets went back"):
        relate(kafka({"t": {"0": 10, "1": 7}}, {"t": {"0": 12, "1": 3}}), one(0, 10))


def test_another_checkpoint_does_not_change_what_offsets_mean() -> None:
    assert relate(one(0, 10, query="new", batch=0), one(0, 10, query="old", batch=41)) is Relation.DONE
    assert relate(one(10, 12, query="new", batch=0), one(0, 10, query="old", batch=41)) is Relation.NEXT


def test_a_new_topic_partition_is_next() -> None:
    grown = kafka({"t": {"0": 10}}, {"t": {"0": 12, "1": 5}})
    assert relate(grown, one(0, 10)) is Relation.NEXT


def test_a_new_topic_partition_may_begin_anywhere() -> None:
    """Spark does not name it in the start, however many of its messages retention has taken."""
    grown = kafka({"t": {"0": 10}}, {"t": {"0": 10, "1": 1005}})
    assert relate(grown, one(0, 10)) is Relation.NEXT


@pytest.mark.parametrize("end", [3, 5])
def test_a_partition_that_was_read_before_and_that_the_position_does_not_know_is_refused(end: int) -> None:
    with pytest.raises(RangeConflict, match=r"topic t partition 1: .* offsets 0 to 2 would be lost"):
        relate(kafka({"t": {"0": 10, "1": 3}}, {"t": {"0": 12, "1": end}}), one(0, 10))


def test_a_partition_without_rows_says_neither_next_nor_done() -> None:
    position = kafka(None, {"t": {"0": 10, "1": 5}})
    assert relate(kafka({"t": {"0": 10, "1": 5}}, {"t": {"0": 12, "1": 5}}), position) is Relation.NEXT
    assert relate(kafka({"t": {"0": 8, "1": 5}}, {"t": {"0": 10, "1": 5}}), position) is Relation.DONE
    assert relate(kafka({"t": {"0": 8, "2": 0}}, {"t": {"0": 10, "2": 0}}), position) is Relation.DONE


def test_a_rewound_range_that_reaches_beyond_the_position_is_refused() -> None:
    with pytest.raises(RangeConflict) as refused:
        relate(one(6, 15), one(0, 10))
    assert str(refused.value) == (
        "topic t partition 0: the table has everything before offset 10, the micro-batch is 6 to 15; offsets 6 to 9 "
        "would be ingested twice. Start again: each start continues from the table; if the "
        "topic was created again, give the pipeline another name"
    )


def test_a_range_that_leaves_offsets_out_is_refused() -> None:
    with pytest.raises(RangeConflict) as refused:
        relate(one(13, 15), one(0, 10))
    assert str(refused.value) == (
        "topic t partition 0: the table has everything before offset 10, the micro-batch is 13 to 15; offsets 10 to 12 "
        "would be lost. Start again: each start continues from the table; if the topic was "
        "created again, give the pipeline another name"
    )


def test_an_empty_range_beyond_the_position_is_refused_too_because_the_next_one_starts_there() -> None:
    with pytest.raises(RangeConflict, match="offsets 10 to 12 would be lost"):
        relate(one(13, 13), one(0, 10))


def test_a_range_that_is_done_for_one_partition_and_next_for_another_is_refused() -> None:
    with pytest.raises(RangeConflict) as refused:
        relate(kafka({"t": {"0": 5, "1": 5}}, {"t": {"0": 10, "1": 8}}), kafka(None, {"t": {"0": 10, "1": 5}}))
    assert str(refused.value) == (
        'the micro-batch up to {"t":{"0":10,"1":8}} is committed for some partitions of the topic and not for others; '
        'the table has {"t":{"0":10,"1":5}}. Start again: each start continues from the table'
    )


def test_a_pipeline_that_changes_its_kind_of_source_is_refused() -> None:
    with pytest.raises(RangeConflict) as refused:
        relate(files(1), one(0, 10))
    assert str(refused.value) == (
        "the table was last fed from a kafka source, this one is checkpoint: a pipeline keeps its source; "
        "give the new one another name"
    )


def test_a_position_that_is_not_kafkas_is_refused() -> None:
    position = SourceRange("kafka", None, '{"logOffset":3}', "q", 0)
    with pytest.raises(RangeConflict, match="is not one of Kafka's"):
        relate(one(0, 10), position)


@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        ('{"t":{"0":5,"1":7}}', {("t", 0): 5, ("t", 1): 7}),
        ('{"logOffset":3}', None),
        ("17", None),
        ("null", None),
        ("no json", None),
        ('{"t":{"x":5}}', None),
        (None, None),
    ],
)
def test_only_kafka_offsets_are_read(text: str | None, offsets: object) -> None:
    assert kafka_offsets(text) == offsets


def test_micro_batches_of_one_checkpoint_go_by_their_number() -> None:
    position = files(9, batch=4)
    assert relate(files(12, batch=5), position) is Relation.NEXT
    assert relate(files(9, batch=4), position) is Relation.DONE
    assert relate(files(2, batch=1), position) is Relation.DONE


def test_a_replaced_checkpoint_is_refused_where_positions_need_it() -> None:
    with pytest.raises(RangeConflict) as refused:
        relate(files(2, query="new"), files(9, query="old", batch=4))
    assert str(refused.value) == (
        "the table has the rows up to micro-batch 4 of the checkpoint old, but this is new: it was lost or replaced, "
        "and this source cannot be positioned without it. Restore it, or give the pipeline another name to ingest "
        "everything again"
    )


def test_a_rewound_checkpoint_is_refused() -> None:
    with pytest.raises(RangeConflict) as refused:
        relate(files(8, batch=4), files(9, batch=4))
    assert str(refused.value) == (
        'micro-batch 4 ended at {"logOffset":9} when it was committed and now ends at {"logOffset":8}: the checkpoint '
        "was rewound. Restore it, or give the pipeline another name"
    )


def test_the_same_offsets_are_the_same_rows_in_every_checkpoint() -> None:
    assert one(0, 5, query="a", batch=1).same_rows_as(one(0, 5, query="b", batch=9))
    assert not one(0, 5).same_rows_as(one(0, 6))
    assert not one(0, 5).same_rows_as(one(1, 5))


def test_other_positions_are_the_same_rows_only_in_the_same_micro_batch_of_one_checkpoint() -> None:
    assert files(5, batch=1).same_rows_as(files(5, batch=1))
    assert not files(5, batch=1).same_rows_as(files(5, batch=2))
    assert not files(5, query="a").same_rows_as(files(5, query="b"))
    assert not files(5).same_rows_as(files(6))


@pytest.mark.parametrize(
    "source_range", [one(0, 5, query="a", batch=3), kafka(None, {"t": {"10": 1, "9": 2}}), files(3)]
)
def test_a_range_survives_json(source_range: SourceRange) -> None:
    assert SourceRange.from_json(json.loads(json.dumps(source_range.to_json()))) == source_range


@st.composite
def chains(draw: st.DrawFn) -> list[SourceRange]:
    """Ranges as a topic gives them: each begins where the one before ended, partitions may be added, none is empty."""
    ends: dict[str, int] = {"0": draw(st.integers(0, 5))}
    ranges = []
    for number in range(draw(st.integers(1, 6))):
        starts = dict(ends)
        if draw(st.booleans()):
            ends[str(len(ends))] = 0
        for partition in ends:
            ends[partition] += draw(st.integers(0, 4))
        if ends == starts:
            ends["0"] += 1
        ranges.append(kafka({"t": starts}, {"t": dict(ends)}, batch=number))
    return ranges


def has_rows(source_range: SourceRange) -> bool:
    starts, ends = json.loads(source_range.start or "{}").get("t", {}), json.loads(source_range.end)["t"]
    return any(end > starts.get(partition, 0) for partition, end in ends.items())


@given(chains())
def test_each_range_of_a_chain_is_next_and_done_when_it_comes_again(chain: list[SourceRange]) -> None:
    position = None
    for current in chain:
        if position is None or has_rows(current):
            assert relate(current, position) is Relation.NEXT
        position = current
        assert relate(current, position) is Relation.DONE


@given(st.integers(0, 6), st.integers(1, 4), st.integers(0, 10))
def test_no_other_range_of_a_partition_is_taken(start: int, rows: int, known: int) -> None:
    end = start + rows
    position = one(0, known)
    if start == known:
        assert relate(one(start, end), position) is Relation.NEXT
    elif end == known:
        assert relate(one(start, end), position) is Relation.DONE
    else:
        with pytest.raises(RangeConflict):
            relate(one(start, end), position)
