from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from support.oracle.compare import TableDiff, assert_same_rows, diff_tables


def table(**columns: list[Any]) -> pa.Table:
    return pa.table(columns)


def diff(actual: pa.Table, expected: pa.Table) -> TableDiff:
    return diff_tables(actual, expected, key=["id"])


def test_order_of_rows_and_columns_and_hudis_meta_columns_do_not_matter() -> None:
    actual = table(_hoodie_commit_time=["1", "2"], name=["y", "x"], id=[2, 1])

    assert diff(actual, table(id=[1, 2], name=["x", "y"])).same


def test_a_missing_row_is_shown() -> None:
    found = diff(table(id=[1]), table(id=[1, 2]))

    assert found.counts == (1, 0, 0)
    assert found.missing == ["id=2"]


def test_an_extra_row_is_shown() -> None:
    found = diff(table(id=[1, 2]), table(id=[1]))

    assert found.counts == (0, 1, 0)
    assert found.extra == ["id=2"]


def test_a_doubled_row_is_extra_and_called_so() -> None:
    found = diff(table(id=[1, 1], name=["x", "x"]), table(id=[1], name=["x"]))

    assert found.counts == (0, 1, 0)
    assert found.extra == ["id=1, name='x' (the key is doubled)"]


def test_a_different_row_shows_only_the_cells_that_differ() -> None:
    found = diff(table(id=[1], name=["x"], n=[5]), table(id=[1], name=["x"], n=[6]))

    assert found.different == ["id=1: n is 5, expected 6"]


def test_at_most_five_examples_are_shown_but_all_are_counted() -> None:
    found = diff(table(id=list(range(100))), table(id=[0]))

    assert found.counts == (0, 99, 0)
    assert len(found.extra) == 5
    assert "99 extra rows:" in str(found)
    assert "... and 94 more" in str(found)


def test_missing_extra_and_retyped_columns_are_named() -> None:
    found = diff(table(id=[1], n=["5"], odd=[1]), table(id=[1], n=[5], name=["x"]))

    assert found.columns == ["column name is missing", "column odd is extra", "column n is string, expected int64"]
    assert not found.same


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (pa.array(["x"], pa.large_string()), pa.array(["x"])),
        (pa.array(["x"]).dictionary_encode(), pa.array(["x"])),
        (pa.array([0], pa.timestamp("us", "+00:00")), pa.array([0], pa.timestamp("us", "UTC"))),
        (
            pa.array([["x"]], pa.list_(pa.field("element", pa.string()))),
            pa.array([["x"]], pa.list_(pa.field("item", pa.large_string()))),
        ),
        (
            pa.array([[("b", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64())),
            pa.array([[("a", 2), ("b", 1)]], pa.map_(pa.string(), pa.int64())),
        ),
        (pa.array([float("nan")]), pa.array([float("nan")])),
    ],
    ids=["large", "dictionary", "utc", "list-field-name", "map-order", "nan"],
)
def test_spellings_of_the_same_value_are_the_same(left: pa.Array, right: pa.Array) -> None:
    assert diff(pa.table({"id": [1], "v": left}), pa.table({"id": [1], "v": right})).same


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (pa.array([1], pa.int32()), pa.array([1], pa.int64())),
        (pa.array([0], pa.timestamp("us")), pa.array([0], pa.timestamp("us", "UTC"))),
        (pa.array([None], pa.string()), pa.array([""], pa.string())),
        (pa.array([["a", "b"]]), pa.array([["b", "a"]])),
        (pa.array([[None]], pa.list_(pa.string())), pa.array([None], pa.list_(pa.string()))),
        (pa.array([Decimal("1.00")]), pa.array([Decimal("1.01")])),
    ],
    ids=["width", "zone", "null", "list-order", "null-element", "decimal"],
)
def test_values_that_differ_differ(left: pa.Array, right: pa.Array) -> None:
    assert not diff(pa.table({"id": [1], "v": left}), pa.table({"id": [1], "v": right})).same


def test_a_failed_assertion_tells_the_difference() -> None:
    with pytest.raises(AssertionError, match=r"(?s)1 rows, expected 2.*1 missing row:.*id=2"):
        assert_same_rows(table(id=[1]), table(id=[1, 2]), key=["id"])


def test_a_difference_has_no_truth_value() -> None:
    with pytest.raises(TypeError, match="Ask `same`"):
        bool(diff(table(id=[1]), table(id=[1])))
