"""A sync adds what is missing, leaves what others have set, refuses what is not ours, and goes on after any crash."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from bucketingest.catalog.changes import altered, same_place
from bucketingest.catalog.columns import Column
from bucketingest.catalog.errors import CatalogError, CatalogRefused
from bucketingest.catalog.sync import HudiTarget
from bucketingest.catalog.table_state import TableState, hadoop_location
from bucketingest.catalog.wanted import CatalogTable, wanted_tables
from bucketingest.storage import Storage, open_storage
from support.catalogs.memory import MemoryCatalog
from support.catalogs.tables import SyncedTable, rows

SCHEMA = pa.schema(
    [pa.field("id", pa.string(), nullable=False), ("region", pa.string()), ("at", pa.timestamp("us", "UTC"))]
)
TABLE = SyncedTable(("region",), "")
MORE = pa.schema([*SCHEMA, ("note", pa.string())])


def state_of(storage: Storage) -> TableState:
    state = TableState.read(storage)
    assert state is not None
    return state


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    TABLE.write(tmp_path / "t", SCHEMA, ("a", "b", "c"))
    return open_storage(str(tmp_path / "t"))


def target(catalog: MemoryCatalog) -> HudiTarget:
    return HudiTarget("", catalog.opened(), "t", "all")


def sync(storage: Storage, catalog: MemoryCatalog, *, dry_run: bool = False) -> str:
    return str(target(catalog).sync(storage, state_of(storage), dry_run=dry_run))


def test_a_second_sync_changes_nothing_and_a_dry_run_says_the_same_as_the_sync(storage: Storage) -> None:
    catalog = MemoryCatalog()
    told = sync(storage, catalog, dry_run=True)
    assert not catalog.changes
    assert sync(storage, catalog) == told == "created t_ro, t_rt, t; 9 partitions added"
    before = list(catalog.changes)
    assert sync(storage, catalog) == "nothing to do"
    assert catalog.changes == before


@pytest.mark.parametrize("first", [0, 1], ids=["new", "changed"])
def test_wherever_a_sync_ends_the_next_one_completes_it(storage: Storage, tmp_path: Path, first: int) -> None:
    def begun() -> MemoryCatalog:
        catalog = MemoryCatalog()
        for state in states[:first]:
            for table in wanted_tables(state.facts, "t", "all"):
                catalog.tables[table.name] = table
                catalog.partitions_of[table.name] = {(path,): state.location(path) for path in ("a", "b", "c")}
        return catalog

    states = [state_of(storage)]
    if first:
        TABLE.write(tmp_path / "t", MORE, ("d", "e"))
        states.append(state_of(storage))
    before, whole = begun(), begun()
    sync(storage, whole)
    assert len(whole.changes) > len(before.changes) + 3
    for calls in range(len(before.changes), len(whole.changes)):
        catalog = begun()
        catalog.fails_after = calls
        with pytest.raises(CatalogError):
            sync(storage, catalog)
        for name, table in catalog.tables.items():  # Hudi's sync takes this for "all partitions are there"
            complete = catalog.partitions_of[name] == whole.partitions_of[name]
            assert first or complete or "last_commit_time_sync" not in table.parameters
        catalog.fails_after = None
        sync(storage, catalog)
        assert (catalog.tables, catalog.partitions_of) == (whole.tables, whole.partitions_of)


def test_new_commits_do_not_change_the_parameters_but_their_partitions_and_columns_appear(tmp_path: Path) -> None:
    writer = TABLE.write(tmp_path, SCHEMA, ("a",))
    storage, catalog = open_storage(str(tmp_path)), MemoryCatalog()
    sync(storage, catalog)
    writer.commit(rows(SCHEMA, ("a",)))
    assert sync(storage, catalog) == "nothing to do"
    TABLE.write(tmp_path, MORE, ("b",))
    assert sync(storage, catalog) == "altered t_ro, t_rt, t; 3 partitions added"
    assert [column.name for column in catalog.tables["t"].columns][-2:] == ["at", "note"]
    assert sync(storage, catalog) == "nothing to do"


def test_a_partition_that_was_once_missed_is_found_by_the_folders(storage: Storage) -> None:
    catalog = MemoryCatalog()
    sync(storage, catalog)
    del catalog.partitions_of["t_rt"]["b",]
    assert sync(storage, catalog) == "1 partitions added"
    assert set(catalog.partitions_of["t_rt"]) == {("a",), ("b",), ("c",)}


def test_a_check_finds_and_mends_what_a_sync_takes_for_right(storage: Storage) -> None:
    catalog = MemoryCatalog()
    sync(storage, catalog)
    right = dict(catalog.partitions_of["t"])
    catalog.partitions_of["t"]["a",] = "file:/elsewhere/a"
    catalog.columns_of["t_ro", ("b",)] = catalog.tables["t_ro"].columns[:-1]
    del catalog.partitions_of["t_rt"]["c",]

    def check(*, dry_run: bool = False) -> str:
        return str(target(catalog).sync(storage, state_of(storage), paths=(), dry_run=dry_run, check=True))

    told = check(dry_run=True)
    assert check() == told == "1 partitions added; 2 partitions corrected"
    assert catalog.partitions_of["t"] == right
    assert not catalog.columns_of
    assert check() == "nothing to do"


def test_only_named_partitions_are_looked_at_when_they_are_given(storage: Storage) -> None:
    catalog = MemoryCatalog()
    sync(storage, catalog)
    catalog.partitions_of["t"].clear()
    catalog.lists.clear()
    target(catalog).sync(storage, state_of(storage), paths={"b"})
    assert set(catalog.partitions_of["t"]) == {("b",)}
    assert not catalog.lists, "a sync costs what has changed, not what is there"


def test_a_table_that_somebody_dropped_is_registered_again_with_all_its_partitions(storage: Storage) -> None:
    catalog = MemoryCatalog()
    sync(storage, catalog)
    catalog.drop("t")
    assert str(target(catalog).sync(storage, state_of(storage), paths={"b"})) == "created t; 3 partitions added"


def test_a_value_with_slashes_of_another_writer_is_one_partition(tmp_path: Path) -> None:
    TABLE.write(tmp_path, SCHEMA, ("a",))
    (tmp_path / "a").rename(tmp_path / "moved")
    (tmp_path / "2026" / "01").mkdir(parents=True)
    (tmp_path / "moved").rename(tmp_path / "2026" / "01" / "02")
    catalog = MemoryCatalog()
    sync(open_storage(str(tmp_path)), catalog)
    assert catalog.partitions_of["t"] == {("2026/01/02",): f"file:{tmp_path}/2026/01/02"}


def test_a_value_that_the_catalog_cannot_store_is_named_and_keeps_no_other_partition_back(tmp_path: Path) -> None:
    TABLE.write(tmp_path, SCHEMA, ("a", "b" * 31, "c"))
    catalog = MemoryCatalog()
    for _ in range(2):
        with pytest.raises(CatalogRefused, match=r"1 partitions have a value of more than 30 .* registered: b{31};"):
            sync(open_storage(str(tmp_path)), catalog)
        assert [set(each) for each in catalog.partitions_of.values()] == [{("a",), ("c",)}] * 3
    assert "last_commit_time_sync" not in catalog.tables["t"].parameters, "Hudi's own sync would pass it over"


FOUND = CatalogTable("t", "file:/other", "org.apache.hudi.hadoop.HoodieParquetInputFormat", ())


@pytest.mark.parametrize(
    ("there", "what"),
    [
        (replace(FOUND, input_format="org.apache.hadoop.mapred.TextInputFormat"), "no Hudi table: give this table"),
        (FOUND, "is registered for file:/other, not for .*: give this table another name"),
    ],
)
def test_a_table_that_is_not_ours_is_left_alone_with_all_others(
    storage: Storage, there: CatalogTable, what: str
) -> None:
    catalog = MemoryCatalog({"t": there}, {"t": {}})
    for act in (lambda: sync(storage, catalog), lambda: target(catalog).drop(hadoop_location(storage.url))):
        with pytest.raises(CatalogRefused, match=what):
            act()
    assert not catalog.changes


def test_what_cannot_be_altered_is_refused_with_the_command_that_takes_it_off(storage: Storage) -> None:
    catalog = MemoryCatalog()
    sync(storage, catalog)
    catalog.tables["t"] = replace(catalog.tables["t"], partition_keys=())
    with pytest.raises(CatalogRefused, match=r"partitioned by nothing.*--drop"):
        sync(storage, catalog)
    dropped = target(catalog).drop(hadoop_location(storage.url))
    assert str(dropped) == "dropped t_ro, t_rt, t"
    assert sync(storage, catalog) == "created t_ro, t_rt, t; 9 partitions added"


WANTED = CatalogTable(
    "t",
    "s3://lake/t",
    "f",
    (Column("a", "int"), Column("at", "timestamp"), Column("new", "string"), Column("b", "int")),
)


def test_columns_keep_their_place_and_new_ones_come_last() -> None:
    found = replace(WANTED, columns=(Column("b", "int"), Column("a", "int"), Column("at", "timestamp")))
    changed = altered(WANTED, found)
    assert changed is not None
    assert [column.name for column in changed.columns] == ["b", "a", "at", "new"]


def test_a_timestamp_that_hudis_tool_registered_as_a_number_and_comments_of_people_stay() -> None:
    columns = tuple(
        replace(column, type="bigint", comment="by hand") if column.name == "at" else column
        for column in WANTED.columns
    )
    assert altered(WANTED, replace(WANTED, columns=columns)) is None


def test_parameters_of_others_stay_and_a_schema_that_got_shorter_leaves_no_part() -> None:
    parts = {"spark.sql.sources.schema.part.0": "x", "spark.sql.sources.schema.numParts": "1"}
    wanted = replace(WANTED, parameters=parts | {"last_commit_time_sync": "2"})
    found = replace(
        wanted,
        parameters={**parts, "spark.sql.sources.schema.part.1": "y", "last_commit_time_sync": "1", "owner": "me"},
    )
    changed = altered(wanted, found)
    assert changed is not None
    assert changed.parameters == {**parts, "last_commit_time_sync": "1", "owner": "me"}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("s3://lake/t", "s3a://lake/t/", True),
        ("file:/lake/t", "file:///lake/t", True),
        ("file:/lake/t", "/lake/t", True),
        ("s3://lake/t", "s3://lake/t2", False),
    ],
)
def test_one_place_has_several_names(one: str, other: str, *, same: bool) -> None:
    assert same_place(one, other) is same
