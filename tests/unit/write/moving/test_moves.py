from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketingest.hudi.merge.current_rows import CurrentRows
from bucketingest.hudi.table.ordering import comparable
from bucketingest.write.moving.moves import older_than_current, settle

ROWS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 2), st.integers(0, 3), st.booleans()), min_size=1, max_size=12
)
"""Key, partition, ordering value, whether it is a delete."""


@settings(max_examples=300)
@given(rows=ROWS, home=st.sampled_from([None, 0]), ordered=st.booleans())
def test_of_a_keys_rows_in_several_partitions_one_is_left_and_it_is_the_newest(
    rows: list[tuple[str, int, int, bool]], home: int | None, ordered: bool
) -> None:
    keys = pa.array([key for key, *_ in rows])
    partitions = np.array([partition for _, partition, *_ in rows], np.int64)
    ordering = pa.array([at for *_, at, _ in rows], pa.int64()) if ordered else None
    settled = settle(keys, partitions, home, ordering, np.array([each[3] for each in rows], np.bool_))
    moving = set(settled.moving.tolist())
    for key in {key for key, *_ in rows}:
        numbers = [number for number, each in enumerate(rows) if each[0] == key]
        kept = [number for number in numbers if settled.kept[number]]
        places = {rows[number][1] for number in numbers} | ({home} if home is not None else set())
        if len(places) == 1:
            assert kept == numbers
            continue
        newest = max(numbers, key=lambda number: (rows[number][2] if ordered else 0, number))
        leaves = home is not None and rows[newest][1] != home and not rows[newest][3]
        assert (kept, moving.intersection(numbers)) == (([], {newest}) if leaves else ([newest], set()))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), (1, 2)),
        (pa.string(), ("1", "2")),
        (pa.float64(), (-0.0, 0.0)),
        (pa.timestamp("us", tz="UTC"), (datetime(2027, 1, 1, tzinfo=UTC), datetime(2027, 1, 2, tzinfo=UTC))),
    ],
)
def test_only_a_row_with_a_smaller_ordering_value_is_older(kind: pa.DataType, values: tuple[object, object]) -> None:
    less, more = values
    current = CurrentRows(
        pa.array(["a", "b", "c", "d"]), comparable(pa.array([more, more, less, None], kind)), np.ones(4, np.bool_)
    )
    rows = pa.array(["b", "a", "c", "d", "new"]), pa.array([less, more, more, less, less], kind)
    assert older_than_current(*rows, current).tolist() == [True, False, False, False, False]


def test_without_an_ordering_no_row_is_older() -> None:
    current = CurrentRows(pa.array(["a"]), None, np.ones(1, np.bool_))
    assert older_than_current(pa.array(["a"]), pa.array([1]), current).tolist() == [False]
