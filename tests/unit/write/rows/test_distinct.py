"""Keys that are surely distinct are not looked up; what may be there twice always is."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from bucketingest.write.rows.merging import surely_distinct

PLACES = [pa.array(["t"] * 4), pa.array([0, 1, 0, 1], pa.int32()), pa.array([7, 7, 8, 9], pa.int64())]
AGAIN = [*PLACES[:2], pa.array([7, 7, 8, 7], pa.int64())]
FAR = pa.array([-(2**63), 2**63 - 1], pa.int64())


@pytest.mark.parametrize(
    ("key", "distinct"),
    [
        (PLACES, True),
        (AGAIN, False),
        ([PLACES[2]], False),
        ([pa.array([3, 1, 2], pa.int8())], True),
        ([pa.array(["a", "b"]), pa.array([1, 2])], False),
        ([pa.array([None, None], pa.string()), pa.array([1, 2])], False),
        ([pa.array(["a", None]), pa.array([1, 2])], False),
        ([pa.array([None, 1], pa.int64())], False),
        ([FAR], False),
        ([pa.array([2**64 - 1, 2**63], pa.uint64())], False),
        ([pa.array([0, 2**40]), pa.array([0, 2**40])], False),
        ([pa.array([1.0, 2.0])], False),
        ([pa.array([5])], True),
    ],
)
def test_only_what_is_plain_to_see_is_said(key: list[pa.Array], *, distinct: bool) -> None:
    assert surely_distinct(key) is distinct


def test_packed_numbers_are_never_equal_by_accident() -> None:
    chance = np.random.default_rng(3)
    for _ in range(200):
        columns = [chance.integers(-span, span + 1, 20) for span in (1, 3, 5)]
        rows = set(zip(*[column.tolist() for column in columns], strict=True))
        assert surely_distinct([pa.array(column) for column in columns]) is (len(rows) == 20)
