"""What the soak expects of its own rows is what the judge of all other tests expects."""

from typing import Any

import pyarrow as pa
import pytest

from soak.traffic import REGIONS, SCHEMA, Traffic, hudi_rows
from support.oracle.compare import diff_tables
from support.oracle.expected import ExpectedTable, MergeRules, expected_table

RULES = MergeRules(key=["id"], partition_by=["region"], ordering="ts", deleted="deleted")


@pytest.fixture
def sent() -> tuple[Traffic, list[dict[str, Any]]]:
    """Traffic that was never connected, and the rows it would have sent."""
    traffic = Traffic("127.0.0.1:1", seed=1, rows_per_second=10)
    rows = []
    for _ in range(20_000):
        partition, row = traffic._next_row()
        traffic._ends[partition] += 1
        rows.append(row)
    return traffic, rows


def test_its_expected_table_is_that_of_the_merge_rules(sent: tuple[Traffic, list[dict[str, Any]]]) -> None:
    traffic, rows = sent
    assert all(count > 0 for count in traffic.counts.values())
    expected = expected_table([pa.Table.from_pylist(rows, SCHEMA)], RULES)
    diff = diff_tables(traffic.expected(), expected, ["id"])
    assert diff.same, diff


def test_its_expected_table_does_not_depend_on_when_a_compaction_forgets_deletes(
    sent: tuple[Traffic, list[dict[str, Any]]],
) -> None:
    traffic, rows = sent
    expected = ExpectedTable(RULES)
    for first in range(0, len(rows), 500):
        expected.apply(pa.Table.from_pylist(rows[first : first + 500], SCHEMA))
        expected.compact()
    diff = diff_tables(traffic.expected(), expected.table(), ["id"])
    assert diff.same, diff


def test_every_row_has_an_offset_of_its_own_and_a_key_keeps_its_place(
    sent: tuple[Traffic, list[dict[str, Any]]],
) -> None:
    _, rows = sent
    assert len({(row["kafka_partition"], row["kafka_offset"]) for row in rows}) == len(rows)
    assert len({(row["id"], row["region"], row["kafka_partition"]) for row in rows}) == len({row["id"] for row in rows})


def test_a_row_of_hudi_keeps_its_partition_from_write_to_write() -> None:
    regions: dict[str, set[str]] = {}
    for number in range(1, 20):
        for row in hudi_rows(number).to_pylist():
            regions.setdefault(row["id"], set()).add(row["region"])
    assert all(len(places) == 1 for places in regions.values())
    assert {region for places in regions.values() for region in places} == {f"r{each}" for each in range(REGIONS)}
