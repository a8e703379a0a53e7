"""Which tables are merged here, and how: their properties decide, also if another writer changes them later."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pytest

from bucketingest.hudi.errors import UnsupportedTable
from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.merge.merge_rules import IS_DELETED, OPERATION, merge_rules
from bucketingest.hudi.merge.unavailable import FILL_PROPERTIES
from bucketingest.hudi.naming import PROPERTIES_PATH
from bucketingest.hudi.table import properties as java_properties
from bucketingest.hudi.table.table import HoodieTable, load_table
from bucketingest.services.compaction.propose import propose
from bucketingest.services.compaction.rounds import RoundExecutor
from bucketingest.storage import Storage, open_storage
from support.tables.services.compactions import ALL, finish, started, written

SCHEMA = pa.schema([("id", pa.string()), ("at", pa.int64()), ("what", pa.string())])
BY_TIME = {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING", "hoodie.table.ordering.fields": "at"}
CUSTOM = {"hoodie.record.merge.mode": "CUSTOM"}
PARTIAL = {"hoodie.table.partial.update.mode": "KEEP_VALUES"}
OF_MERGE = {"hoodie.record.merge.property.hoodie.payload.delete.field": "what"}


def table(properties: Mapping[str, str]) -> HoodieTable:
    return HoodieTable(open_storage("memory://merge-rules"), {**BY_TIME, **properties})


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        (CUSTOM, "merge.mode is CUSTOM"),
        ({"hoodie.record.merge.mode": ""}, "merge.mode is not set"),
        (PARTIAL, "partial.update.mode is KEEP_VALUES"),
        (FILL_PROPERTIES, "partial.update.mode is FILL_UNAVAILABLE"),  # with an ordering field
        (OF_MERGE, "payload.delete.field is set, which Hudi's readers understand differently"),
        ({"hoodie.table.ordering.fields": "at,id"}, "names 2 columns"),
        ({"hoodie.table.ordering.fields": ""}, "names 0 columns"),
        ({"hoodie.table.ordering.fields": "gone"}, "'gone' is not in the schema"),
    ],
)
def test_a_table_whose_merge_is_not_built_here_is_refused_by_name(properties: dict[str, str], why: str) -> None:
    with pytest.raises(UnsupportedTable, match=why):
        merge_rules(table(properties), SCHEMA)


def test_without_an_ordering_the_latest_row_wins_whatever_the_ordering_fields_say() -> None:
    assert merge_rules(table({}), SCHEMA).ordering_field == "at"
    assert merge_rules(table({"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}), SCHEMA).ordering_field is None


def test_columns_of_text_may_have_placeholders() -> None:
    properties = {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING", "hoodie.table.ordering.fields": ""}
    assert merge_rules(table({**properties, **FILL_PROPERTIES}), SCHEMA).fills == ("id", "what")
    assert merge_rules(table(properties), SCHEMA).fills == ()


def test_the_tables_own_delete_marker_is_known() -> None:
    column, value = "hoodie.payload.delete.field", "hoodie.payload.delete.marker"
    assert merge_rules(table({column: "what", value: "gone"}), SCHEMA).delete_marker == ("what", "gone")
    assert merge_rules(table({column: "what"}), SCHEMA).delete_marker is None, "Hudi needs both"
    assert merge_rules(table({column: "other", value: "gone"}), SCHEMA).delete_columns == ()


def test_the_columns_that_delete_are_those_of_the_table() -> None:
    flags = [pa.field(IS_DELETED, pa.bool_()), pa.field(OPERATION, pa.string())]
    marker = {"hoodie.payload.delete.field": "what", "hoodie.payload.delete.marker": "gone"}
    assert merge_rules(table(marker), pa.schema([*SCHEMA, *flags])).delete_columns == (IS_DELETED, OPERATION, "what")


def set_properties(storage: Storage, properties: Mapping[str, str]) -> None:
    """What another writer does."""
    changed = {**load_table(storage).properties, **properties}
    storage.put(PROPERTIES_PATH, java_properties.serialise(changed).encode("ascii"))


@pytest.mark.parametrize("properties", [CUSTOM, PARTIAL, OF_MERGE])
def test_a_table_that_became_one_for_hudi_is_neither_planned_nor_merged(properties: dict[str, str]) -> None:
    """Also if it was planned before: its rows would be merged by other rules than its readers'."""
    given = written(base_files=True)
    before = given.storage.get(PROPERTIES_PATH)
    work = started(given.storage)
    set_properties(given.storage, properties)
    there = {info.path for info in given.storage.list()}
    with pytest.raises(UnsupportedTable):
        RoundExecutor(given.storage, work.number, work.round_number)
    with pytest.raises(UnsupportedTable):
        propose(given.storage, ALL, utc_now())
    assert {info.path for info in given.storage.list()} == there
    given.storage.put(PROPERTIES_PATH, before)
    assert finish(given.storage) == ["completed"]
    given.unchanged()
