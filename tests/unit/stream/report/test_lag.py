"""How far the table is behind its source: offsets and seconds, from what was seen of the source and committed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bucketingest.stream.report.lag import Lag, source_end


def at(offset: int, partition: int = 0) -> dict[tuple[str, int], int]:
    return {("t", partition): offset}


def test_nothing_is_claimed_before_a_first_look() -> None:
    backlog = Lag()
    assert (backlog.offsets, backlog.seconds(5.0)) == (None, None)


def test_the_age_counts_from_when_rows_beyond_the_commit_were_first_seen() -> None:
    backlog = Lag()
    backlog.begin_at(at(0))
    backlog.seen(10.0, at(100))
    backlog.seen(20.0, at(150))
    assert (backlog.offsets, backlog.seconds(25.0)) == (150, 15.0)

    backlog.committed(at(100))
    assert (backlog.offsets, backlog.seconds(25.0)) == (50, 5.0)

    backlog.committed(at(150))
    assert (backlog.offsets, backlog.seconds(25.0)) == (0, 0.0)


def test_a_commit_in_the_middle_of_a_sighting_leaves_its_age() -> None:
    backlog = Lag()
    backlog.begin_at(at(0))
    backlog.seen(10.0, at(100))
    backlog.committed(at(60))
    assert (backlog.offsets, backlog.seconds(12.0)) == (40, 2.0)


def test_seeing_the_same_end_again_makes_nothing_younger() -> None:
    backlog = Lag()
    backlog.begin_at(at(0))
    backlog.seen(10.0, at(100))
    backlog.seen(50.0, at(100))
    assert backlog.seconds(60.0) == 50.0


def test_partitions_add_up_and_one_that_is_ahead_hides_no_other() -> None:
    backlog = Lag()
    backlog.committed({**at(50, 0), **at(9, 1)})
    backlog.seen(1.0, {**at(20, 0), **at(12, 1), **at(4, 2)})
    assert backlog.offsets == 3 + 4


def test_a_beginning_never_replaces_what_is_committed() -> None:
    backlog = Lag()
    backlog.committed(at(50))
    backlog.begin_at({**at(10), **at(7, 1)})
    backlog.seen(1.0, {**at(60), **at(8, 1)})
    assert backlog.offsets == 10 + 1


def test_without_any_commit_memory_stays_bounded_and_the_age_right() -> None:
    backlog = Lag()
    backlog.begin_at(at(0))
    for second in range(1, 10_001):
        backlog.seen(float(second), at(second))
    assert len(backlog._sightings) <= 1000
    assert backlog.seconds(10_000.0) == 9_999.0


def spark_progress(*sources: tuple[str | None, str | None]) -> Any:
    return SimpleNamespace(sources=[SimpleNamespace(endOffset=end, latestOffset=latest) for end, latest in sources])


@pytest.mark.parametrize(
    ("last", "end"),
    [
        (None, None),
        (spark_progress(), None),
        (spark_progress(('{"t":{"0":5}}', '{"t":{"0":9,"1":7}}')), {("t", 0): 9, ("t", 1): 7}),
        (spark_progress(('{"logOffset":3}', "null")), None),  # files
        (spark_progress(("17", None)), None),  # generated rows
        (spark_progress((None, None)), None),
    ],
)
def test_the_end_of_the_source_is_what_spark_last_saw(last: Any, end: object) -> None:
    assert source_end(last) == end
