"""Another writer adds columns beside a running job: hudi-rs must read log files of before and after."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock

import pyarrow as pa
import pytest

from bucketingest.hudi.errors import UnsupportedTable
from bucketingest.hudi.table.layout_warnings import LogBlock
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.services.errors import PlanOutdated
from bucketingest.storage import open_storage
from bucketingest.stream import held_table
from bucketingest.write.errors import ColumnsChanged, LogFilesLeft
from support.oracle import hudi_rs
from support.tables.local_writer import LocalWriter
from support.tables.other_writers import add_column, planned_compaction, request_compaction

DEFINITION = TableDefinition("beside", ("id",), buckets=1)
ITEMS = pa.list_(pa.field("element", pa.int32()))


def rows(*ids: str, **more: Any) -> pa.Table:
    columns = {name: pa.array(values) for name, values in more.items()}
    return pa.table({"id": pa.array(ids, pa.string()), "items": pa.array([[1]] * len(ids), ITEMS), **columns})


def other(path: Path) -> Any:
    """What the support for another writer asks of a table."""
    storage = open_storage(str(path))

    def timeline() -> Timeline:
        return Timeline.load(storage)

    return SimpleNamespace(
        storage=storage, timeline=timeline, completed=lambda: [path_of(each) for each in timeline().completed_commits]
    )


def read(path: Path) -> list[dict[str, Any]]:
    found = hudi_rs.snapshot(path)
    return found.select(["id", "items", "note"]).sort_by("id").to_pylist()


@pytest.mark.parametrize("block", ["avro", "parquet"])
def test_log_files_get_a_column_that_another_writer_added_after_it_merged_ours(tmp_path: Path, block: LogBlock) -> None:
    ours = LocalWriter(tmp_path, DEFINITION, rows().schema, log_block=block)
    ours.commit(rows("a"))
    more = rows("b", note=["new"])
    LocalWriter(tmp_path, DEFINITION, more.schema, pipeline="other", log_block=block).commit(more)
    with pytest.raises(ColumnsChanged, match="another writer added or widened note"):
        ours.commit(rows("c"))
    LocalWriter(tmp_path, DEFINITION, rows().schema, log_block=block).commit(rows("c"))
    notes = {"a": None, "b": "new", "c": None}
    assert read(tmp_path) == [{"id": key, "items": [1], "note": note} for key, note in notes.items()]


def test_log_files_of_before_are_merged_when_the_table_is_opened_again(tmp_path: Path) -> None:
    ours = LocalWriter(tmp_path, DEFINITION, rows().schema, log_block="avro")
    ours.commit(rows("a"))
    add_column(other(tmp_path), "note")
    with pytest.raises(hudi_rs.HudiRsError):
        read(tmp_path)
    with pytest.raises(ColumnsChanged):
        ours.commit(rows("b"))
    LocalWriter(tmp_path, DEFINITION, rows().schema, log_block="avro").commit(rows("b"))
    assert [each["id"] for each in read(tmp_path)] == ["a", "b"]


@pytest.mark.parametrize("block", ["avro", "parquet"])
def test_a_newer_row_does_not_keep_the_older_ones_value_of_a_column_that_another_writer_added(
    tmp_path: Path, block: LogBlock
) -> None:
    """hudi-rs takes what a newer block lacks from the row that it replaces."""
    plain, more = rows("a").select(["id"]), rows("a", note=["theirs"]).select(["id", "note"])
    ours = LocalWriter(tmp_path, DEFINITION, plain.schema, log_block=block)
    ours.commit(plain)
    LocalWriter(tmp_path, DEFINITION, more.schema, pipeline="other", log_block=block).commit(more)
    with pytest.raises(ColumnsChanged):
        ours.commit(plain)
    LocalWriter(tmp_path, DEFINITION, plain.schema, log_block=block).commit(plain)
    assert hudi_rs.snapshot(tmp_path).select(["id", "note"]).to_pylist() == [{"id": "a", "note": None}]


def test_while_another_writers_compaction_is_pending_the_job_goes_on_and_does_not_grow(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its own new columns wait; those that the other writer added are there already, and the job writes on."""
    LocalWriter(tmp_path, DEFINITION, rows().schema, log_block="avro").commit(rows("a"))
    table = other(tmp_path)
    request_compaction(table, *planned_compaction(table))
    with pytest.raises(LogFilesLeft, match="note of"):
        LocalWriter(tmp_path, DEFINITION, rows(note=pa.array([], pa.string())).schema, log_block="avro")
    add_column(table, "note")
    LocalWriter(tmp_path, DEFINITION, rows().schema, log_block="avro").commit(rows("b"))
    assert "log files are older than columns of another writer" in caplog.text


@pytest.mark.parametrize("error", [PlanOutdated("a pause"), UnsupportedTable("/t", ["clustering 1 is pending"])])
def test_what_keeps_log_files_from_being_merged_is_said_and_is_no_word_about_the_columns(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    monkeypatch.setattr(held_table, "compact_now", MagicMock(side_effect=error))
    held_table.HeldTable.merge_logs(cast(Any, MagicMock()), MagicMock(), tasks=1)
    assert "log files could not be merged" in caplog.text
