from __future__ import annotations

import pyarrow as pa
import pytest

from support.oracle.expected import ExpectedTable, MergeRules, expected_table

RULES = MergeRules(key=["id"], partition_by=["region"], ordering="ts", deleted="gone")


def rows(*changes: tuple[str, int | None, str], region: str = "eu", gone: bool | None = False) -> pa.Table:
    return pa.table(
        {
            "id": [key for key, _, _ in changes],
            "region": [region] * len(changes),
            "ts": pa.array([ts for _, ts, _ in changes], pa.int64()),
            "name": [name for _, _, name in changes],
            "gone": pa.array([gone] * len(changes), pa.bool_()),
        }
    )


def names(*commits: pa.Table, rules: MergeRules = RULES) -> list[str]:
    return sorted(expected_table(commits, rules)["name"].to_pylist())


def test_a_higher_ordering_value_wins() -> None:
    assert names(rows(("a", 1, "old")), rows(("a", 2, "new"))) == ["new"]


def test_a_late_row_loses() -> None:
    assert names(rows(("a", 2, "first")), rows(("a", 1, "late"))) == ["first"]


def test_at_equal_ordering_values_the_later_row_wins_across_and_within_commits() -> None:
    assert names(rows(("a", 1, "first")), rows(("a", 1, "second"), ("a", 1, "third"))) == ["third"]


def test_a_key_is_its_own_in_each_partition() -> None:
    assert names(rows(("a", 1, "eu")), rows(("a", 1, "us"), region="us")) == ["eu", "us"]


def test_a_delete_removes_earlier_and_equal_rows_but_not_higher_ones() -> None:
    commits = [rows(("a", 1, "x"), ("b", 5, "y"), ("c", 6, "z")), rows(*((key, 5, "") for key in "abc"), gone=True)]

    assert names(*commits) == ["z"]


def test_a_late_row_does_not_revive_a_deleted_key_but_a_newer_one_does() -> None:
    deleted = [rows(("a", 1, "x")), rows(("a", 5, ""), gone=True)]

    assert names(*deleted, rows(("a", 4, "late"))) == []
    assert names(*deleted, rows(("a", 6, "again"))) == ["again"]


def test_compaction_forgets_deletes() -> None:
    table = ExpectedTable(RULES)
    table.apply(rows(("a", 5, ""), gone=True))
    table.compact()
    table.apply(rows(("a", 4, "late")))

    assert table.table()["name"].to_pylist() == ["late"]


def test_a_null_delete_flag_deletes_nothing() -> None:
    assert names(rows(("a", 1, "x"), gone=None)) == ["x"]


def test_rows_without_an_ordering_value_are_left_out() -> None:
    assert names(rows(("a", None, "x"), ("b", 1, "y")), rows(("b", None, "z"))) == ["y"]


def test_without_an_ordering_column_the_later_row_wins() -> None:
    by_commit = MergeRules(key=["id"], partition_by=["region"], deleted="gone")

    assert names(rows(("a", 9, "first")), rows(("a", 1, "second")), rules=by_commit) == ["second"]


def test_columns_that_came_later_are_null_in_earlier_rows() -> None:
    later = rows(("b", 1, "y")).append_column("extra", pa.array([7]))

    table = expected_table([rows(("a", 1, "x")), later], RULES)

    assert sorted(table["extra"].to_pylist(), key=str) == [7, None]


@pytest.mark.parametrize("key_columns", [["id"], ["region", "id"]])
def test_the_identity_names_no_column_twice(key_columns: list[str]) -> None:
    assert MergeRules(key=key_columns, partition_by=["region"]).identity == ["region", "id"]
