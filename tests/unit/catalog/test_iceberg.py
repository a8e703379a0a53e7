"""The table as an Iceberg table: engines read exactly the base files, whatever happened before and in between."""

from __future__ import annotations

import datetime as dt
import os
import random
import socket
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.table import Table

from bucketingest.catalog.errors import CatalogRefused, CatalogUnavailable
from bucketingest.catalog.iceberg import commit, difference, opening
from bucketingest.catalog.iceberg.base_files import base_files, row_counts
from bucketingest.catalog.iceberg.commit import INSTANT
from bucketingest.catalog.table_state import TableState, listed_partitions
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.services.clean.choose import Retention
from bucketingest.services.clean_and_archive import clean
from bucketingest.services.protocol.holder import Guarded
from bucketingest.storage import open_storage
from support.catalogs.iceberg import IcebergLake
from support.catalogs.tables import SCHEMA, rows
from support.tables.local_writer import LocalWriter
from support.tables.services.clustered import cluster, planned
from support.tables.services.compactions import compact
from support.tables.services.snapshot import snapshot
from support.tables.state.tables import state_table
from support.tables.table_runs import offsets
from support.tables.write_plans import row

STEPS = int(os.environ.get("BUCKETINGEST_ICEBERG_STEPS", "12"))


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    return IcebergLake(tmp_path / "lake")


class Pipeline:
    """A table with an index with a state, so that inserts are base files and small groups are merged."""

    def __init__(self, lake: IcebergLake) -> None:
        self.table = state_table()
        self.storage = self.table.storage = open_storage(str(lake.base))
        self.attempt = self.table.attempt()
        self.offset = self.merges = 0

    def commit(self, *keys: str) -> None:
        self.offset += 10
        made = [row(key, region=f"r{int(key[1:]) % 3}", amount=self.offset, at=self.offset) for key in keys]
        self.attempt.run(offsets(self.offset - 10, self.offset), made)

    def compact(self) -> None:
        compact(self.storage)

    def merge(self) -> None:
        if planned(self.storage) is not None:
            cluster(self.storage)
            self.merges += 1

    def clean(self) -> None:
        clean(Guarded(self.storage), Retention(versions=1))


def test_it_has_exactly_the_rows_of_the_base_files_after_every_step(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice, pipeline = random.Random(7), Pipeline(lake)
    pipeline.commit("k1", "k2")
    real, crashes, changes, older = Table._do_commit, 0, 0, 0
    kinds = ["commit", "merge", "commit", "compact", "clean"]
    for step in range(STEPS):
        match kinds[step] if step < len(kinds) else dice.choice(kinds):
            case "commit":
                pipeline.commit(*(f"k{dice.randrange(30)}" for _ in range(dice.randrange(1, 8))))
            case "clean":
                lake.sync()  # a job's own clean waits for it
                pipeline.clean()
            case kind:
                getattr(pipeline, kind)()
        crash = dice.choice(["", "", "before", "after"])

        def crashing(table: Table, *given: Any, crash: str = crash, **named: Any) -> None:
            if crash != "before":
                real(table, *given, **named)
            if crash:
                raise OSError("the process was ended")

        monkeypatch.setattr(Table, "_do_commit", crashing)
        try:
            changed = lake.sync()
        except CatalogUnavailable:
            crashes += 1
            monkeypatch.setattr(Table, "_do_commit", real)
            changed = lake.sync()
        changes += bool(changed.files_added or changed.files_removed)
        assert all(Path(file).exists() for file in lake.files())
        shown = lake.rows()
        assert shown == lake.base_rows() == lake.rows_of_duckdb() == lake.rows_of_polars()
        assert len(shown) == lake.counted()
        older += {each["id"]: each["amount"] for each in shown} != {
            key: each["amount"] for key, each in snapshot(pipeline.storage).items()
        }
    monkeypatch.setattr(Table, "_do_commit", real)
    assert str(lake.sync()) == "nothing to do"
    assert min(crashes, changes, older, pipeline.merges) > 0, "chance left something out"


def test_each_change_of_the_base_files_is_one_snapshot_that_names_the_instant(lake: IcebergLake) -> None:
    pipeline = Pipeline(lake)
    pipeline.commit("k1", "k2", "k3")
    assert str(lake.sync()) == "created orders; 3 files added"
    assert lake.table.current_snapshot().summary[INSTANT] == newest(pipeline)  # type: ignore[union-attr, index]
    pipeline.commit("k1")
    assert str(lake.sync()) == "nothing to do", "a log file is no change"
    pipeline.compact()
    assert str(lake.sync(dry_run=True)) == "1 files added; 1 files removed"
    assert str(lake.sync()) == "1 files added; 1 files removed"
    assert len(lake.table.snapshots()) == 2
    assert lake.table.current_snapshot().summary[INSTANT] == newest(pipeline)  # type: ignore[union-attr, index]


def newest(pipeline: Pipeline) -> str:
    return Timeline.load(pipeline.storage).completed_commits[-1].request_time


def test_manifests_do_not_become_more_with_each_change(lake: IcebergLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(difference, "MANIFESTS_MAX", 3)
    pipeline = Pipeline(lake)
    pipeline.commit("k1", "k2", "k3")
    lake.sync()
    for step in range(5):
        pipeline.commit(f"k{step % 3}")
        pipeline.compact()
        lake.sync()
        snapshot = lake.table.current_snapshot()
        assert snapshot is not None
        assert len(snapshot.manifests(lake.table.io)) <= 3
        assert lake.rows() == lake.base_rows()
    snapshots = lake.table.snapshots()
    used = {each.manifest_path for snapshot in snapshots for each in snapshot.manifests(lake.table.io)}
    used |= {each.manifest_list for each in snapshots}
    assert {f"file://{file}" for file in (lake.root / "warehouse").rglob("*.avro")} == used


def test_only_the_partitions_that_changed_are_looked_at(lake: IcebergLake) -> None:
    pipeline = Pipeline(lake)
    pipeline.commit("k1", "k2", "k3")
    lake.sync()
    before = Timeline.load(pipeline.storage).completed_commits
    pipeline.commit("k4")
    pipeline.commit("k2")
    new = Timeline.load(pipeline.storage).completed_commits[len(before) :]
    assert lake.target.touched(pipeline.storage, new) == {"r1"}, "k2 got a log file"
    assert str(lake.sync(paths=set())) == "nothing to do"
    assert str(lake.sync(paths={"r1"})) == "1 files added"


def test_old_snapshots_end_before_a_clean_may_delete_their_files(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline, now = Pipeline(lake), dt.datetime.now(dt.UTC)
    for amount in range(3):
        pipeline.commit("k1", "k2")
        pipeline.compact()
        lake.sync()
        assert len(lake.table.snapshots()) == amount + 1
    monkeypatch.setattr(commit, "utc_now", lambda: now + timedelta(hours=11))
    lake.sync()
    assert len(lake.table.snapshots()) == 3
    monkeypatch.setattr(commit, "utc_now", lambda: now + timedelta(hours=13))
    lake.sync()
    assert len(lake.table.snapshots()) == 1
    snapshot = lake.table.current_snapshot()
    assert snapshot is not None
    used = {snapshot.manifest_list, *(each.manifest_path for each in snapshot.manifests(lake.table.io))}
    left = {f"file://{file}" for file in (lake.root / "warehouse").rglob("*.avro")}
    assert left == used, "what only old snapshots had is deleted"
    assert lake.rows() == lake.base_rows()


def test_old_metadata_that_cannot_be_deleted_does_not_make_a_sync_fail(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = Pipeline(lake)
    for _ in range(2):
        pipeline.commit("k1")
        pipeline.compact()
        lake.sync()

    def denied(*_: object) -> None:
        raise PermissionError("it may not")

    monkeypatch.setattr(PyArrowFileIO, "delete", denied)
    monkeypatch.setattr(commit, "utc_now", lambda: dt.datetime.now(dt.UTC) + lake.kept_for)
    lake.sync()
    assert len(lake.table.snapshots()) == 1
    assert "left over" in caplog.text


def test_after_an_engine_went_back_to_an_older_snapshot_it_keeps_its_manifests(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = Pipeline(lake)
    for keys in (("k1", "k2", "k3"), ("k1",), ("k1",), ("k2", "k3")):
        pipeline.commit(*keys)
        pipeline.compact()
        lake.sync()
    _, second, _, last = lake.table.snapshots()
    lake.table.manage_snapshots().set_current_snapshot(snapshot_id=second.snapshot_id).commit()
    now = dt.datetime.fromtimestamp(last.timestamp_ms / 1000, dt.UTC) + lake.kept_for / 2
    monkeypatch.setattr(commit, "utc_now", lambda: now)
    lake.sync()
    assert lake.rows() == lake.base_rows()
    assert {each.snapshot_id for each in lake.table.snapshots()} >= {second.snapshot_id}
    assert lake.table.scan(snapshot_id=second.snapshot_id).to_arrow().num_rows == 3


def test_a_file_that_an_engine_added_again_is_there_once(lake: IcebergLake) -> None:
    Pipeline(lake).commit("k1", "k2", "k3")
    lake.sync()
    first = next(iter(lake.table.scan().plan_files())).file
    with lake.table.transaction() as transaction, transaction.update_snapshot().fast_append() as update:
        update.append_data_file(first)
    assert lake.rows() != lake.base_rows()
    assert str(lake.sync()) == "1 files added; 2 files removed"
    assert lake.rows() == lake.base_rows()
    assert str(lake.sync()) == "nothing to do"


def test_a_check_mends_what_the_metadata_says_of_a_file(lake: IcebergLake) -> None:
    Pipeline(lake).commit("k1", "k2", "k3")
    lake.sync()
    first = next(iter(lake.table.scan().plan_files())).file
    wrong = IcebergFile.from_args(
        content=DataFileContent.DATA,
        file_format=FileFormat.PARQUET,
        spec_id=lake.table.spec().spec_id,
        file_path=first.file_path,
        partition=first.partition,
        record_count=7,
        file_size_in_bytes=first.file_size_in_bytes,
    )
    with lake.table.transaction() as transaction:
        difference.replace_files(transaction, [wrong], [first], {})
    assert lake.counted() == 9
    assert str(lake.sync()) == "nothing to do"
    assert str(lake.sync(check=True, dry_run=True)) == "1 files added; 1 files removed"
    assert str(lake.sync(check=True)) == "1 files added; 1 files removed"
    assert lake.counted() == 3
    assert lake.rows() == lake.base_rows()
    assert str(lake.sync(check=True)) == "nothing to do"


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_partitions_that_another_writer_marked_by_a_base_file_are_there(lake: IcebergLake, kind: str) -> None:
    Pipeline(lake).commit("k1", "k2", "k3")
    for mark in list(lake.base.rglob(".hoodie_partition_metadata")):
        mark.rename(mark.with_name(f"{mark.name}.{kind}"))
    assert str(lake.sync()) == "created orders; 3 files added"
    assert set(listed_partitions(open_storage(str(lake.base)), 1, lambda _: False)) == {"r0", "r1", "r2"}


def test_what_guards_the_files_is_set_again(lake: IcebergLake) -> None:
    Pipeline(lake).commit("k1")
    lake.sync()
    guards = {"gc.enabled": "false", "commit.retry.num-retries": "0"}
    with lake.table.transaction() as transaction:
        transaction.set_properties({"gc.enabled": "true", "mine": "1"})
        transaction.remove_properties("commit.retry.num-retries")
    lake.sync()
    assert lake.table.properties.items() >= {**guards, "mine": "1"}.items()


def test_a_commit_of_another_process_in_between_makes_ours_fail(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = Pipeline(lake)
    pipeline.commit("k1")
    lake.sync()
    pipeline.commit("k2")

    def slow(*given: Any) -> Any:
        found = base_files(*given)
        monkeypatch.setattr(commit, "base_files", base_files)
        pipeline.commit("k3")
        lake.sync()
        return found

    monkeypatch.setattr(commit, "base_files", slow)
    with pytest.raises(CatalogUnavailable, match="CommitFailedException"):
        lake.sync()
    assert lake.rows() == lake.base_rows()
    assert len(lake.files()) == 3


TYPED = TableDefinition(
    "made", ("id",), ("region", "day", "small", "flag", "price"), "at", buckets=1, hive_style_partitioning=True
)


def test_every_type_and_partition_value_is_what_was_written(lake: IcebergLake) -> None:
    writer = LocalWriter(lake.base, TYPED, SCHEMA)
    written = rows(SCHEMA, ("north", None, "a b", "ü", "50 %", "=&+"))
    writer.commit(written)
    compact(open_storage(str(lake.base)))
    lake.sync()
    assert [field.name for field in lake.table.spec().fields] == ["region", "day", "small", "flag"], "price is decimal"
    shown = lake.table.scan(selected_fields=tuple(SCHEMA.names)).to_arrow().sort_by("id")
    assert shown.to_pylist() == written.to_pylist()
    assert lake.rows() == lake.rows_of_duckdb() == lake.rows_of_polars()
    assert lake.counted() == written.num_rows
    found = lake.table.scan(row_filter="region is null and day = '2026-01-02' and flag = true").to_arrow()
    assert found["id"].to_pylist() == ["1"]
    (task,) = lake.table.scan(row_filter="region = '50 %'").plan_files()
    assert "50 %" in task.file.file_path, "found by the partition alone"


def test_rows_are_counted_by_the_commit_or_where_it_is_archived_by_the_files(lake: IcebergLake) -> None:
    definition = TableDefinition("made", ("id",), ("region",), "at", buckets=1)
    writer = LocalWriter(lake.base, definition, SCHEMA, deleted="gone")
    made = rows(SCHEMA, ("north", "south", "north", "north"))
    writer.commit(made.append_column("gone", pa.array([False] * 4)))
    compact(open_storage(str(lake.base)))
    writer.commit(made.append_column("gone", pa.array([True, False, False, False])))
    storage = open_storage(str(lake.base))
    compact(storage)
    timeline = Timeline.load(storage)
    files = base_files(storage, timeline)
    expected = {path: 2 if path.startswith("north") else 1 for path in files}
    assert row_counts(storage, timeline, files.values()) == expected
    assert row_counts(storage, Timeline.of_file_names(()), files.values()) == expected


def test_new_columns_are_added_and_wider_types_taken_and_others_refused(lake: IcebergLake) -> None:
    writer = LocalWriter(lake.base, TableDefinition("made", ("id",), (), "at", buckets=1), SCHEMA)
    writer.commit(rows(SCHEMA, ("north",)).set_column(5, "small", pa.array([7], pa.int32())))
    storage = open_storage(str(lake.base))
    compact(storage)
    lake.sync()
    state = TableState.read(storage)
    assert state is not None

    def with_types(**types: Any) -> TableState:
        fields = [{**each, "type": types.get(each["name"], each["type"])} for each in state.facts.schema["fields"]]
        fields += [{"name": name, "type": kind} for name, kind in types.items() if name == "added"]
        return replace(state, facts=replace(state.facts, schema={**state.facts.schema, "fields": fields}))

    wider = with_types(small=["null", "long"], added=["null", "string"])
    assert str(lake.target.sync(storage, wider)) == "altered orders"
    assert str(lake.target.sync(storage, wider)) == "nothing to do"
    assert str(lake.sync()) == "nothing to do", "an older look narrows nothing"
    (shown,) = lake.rows()
    assert (shown["small"], shown["added"]) == (7, None)
    assert str(lake.table.schema().find_type("small")) == "long"
    with pytest.raises(CatalogRefused, match=r"does not take a change of the columns.*--drop"):
        lake.target.sync(storage, with_types(small=["null", "string"]))


def test_a_column_that_came_after_the_look_at_the_table_is_there_with_its_files(lake: IcebergLake) -> None:
    definition = TableDefinition("made", ("id",), (), "at", buckets=1)
    LocalWriter(lake.base, definition, SCHEMA).commit(made := rows(SCHEMA, ("north",)))
    storage = open_storage(str(lake.base))
    compact(storage)
    state = TableState.read(storage)
    assert state is not None
    wider = made.append_column("added", pa.array(["new"]))
    LocalWriter(lake.base, definition, wider.schema).commit(wider)
    compact(storage)
    lake.target.sync(storage, state)
    (shown,) = lake.rows()
    assert shown["added"] == "new"


def test_what_is_not_ours_is_refused_and_drop_takes_ours_off_without_deleting(lake: IcebergLake) -> None:
    pipeline = Pipeline(lake)
    pipeline.commit("k1")
    table = lake.catalog.create_table("lake.orders", pa.schema([("id", pa.string())]))
    with pytest.raises(CatalogRefused, match=r"not made by bucketingest.*field table"):
        lake.sync()
    with table.transaction() as transaction:
        transaction.set_properties({commit.OURS: "s3://other/place"})
    with pytest.raises(CatalogRefused, match=r"is made of s3://other/place.*drop that one by hand"):
        lake.target.drop(f"file:{lake.base}")
    lake.catalog.drop_table("lake.orders")
    lake.sync()
    files = lake.files()
    assert str(lake.target.drop(f"file:{lake.base}", dry_run=True)) == "dropped orders"
    assert str(lake.target.drop(f"file:{lake.base}")) == "dropped orders"
    assert str(lake.target.drop(f"file:{lake.base}")) == "nothing to do"
    assert all(Path(file).exists() for file in files)
    lake.catalog.drop_namespace("lake")
    with pytest.raises(CatalogRefused, match="no database lake: create it"):
        lake.sync()


def test_a_catalog_that_does_not_answer_says_nothing_secret(lake: IcebergLake, monkeypatch: pytest.MonkeyPatch) -> None:
    Pipeline(lake).commit("k1")
    monkeypatch.setenv("PYICEBERG_CATALOG__OTHER__TOKEN", "a-secret-token")
    target = replace(lake.target, entry=lake.entry.model_copy(update={"uri": "sqlite:////nowhere/a-secret-token.db"}))
    state = TableState.read(open_storage(str(lake.base)))
    assert state is not None
    with pytest.raises(CatalogUnavailable, match=r"iceberg sql .* lake\.orders: OperationalError") as error:
        target.sync(open_storage(str(lake.base)), state)
    assert "a-secret-token" not in str(error.value)


@pytest.mark.parametrize(("kind", "scheme"), [("rest", "http"), ("hive", "thrift")])
def test_a_service_that_takes_the_call_and_does_not_answer_holds_nobody_for_ever(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch, kind: Any, scheme: str
) -> None:
    monkeypatch.setattr(opening, "ANSWER_WITHIN_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"{scheme}://127.0.0.1:{silent.getsockname()[1]}"
        target = replace(lake.target, entry=lake.entry.model_copy(update={"type": kind, "uri": uri}))
        with pytest.raises(CatalogUnavailable, match=r"(?i)timed out|timeout"):
            target.drop("file:/anywhere")
