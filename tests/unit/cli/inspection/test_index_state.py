"""What `inspect` says of an index's state: its size, and what the next start would load. It writes nothing."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path

import pytest
from rich.console import Console

from bucketingest.cli.inspection.command import inspected
from bucketingest.cli.inspection.render import show
from bucketingest.cli.inspection.report import IndexState, TableReport
from bucketingest.cli.inspection.services import Rules
from bucketingest.index.state.store import STATE_DIRECTORY, forget_state
from support.tables.services.compactions import compact
from support.tables.state.tables import insert_by_another, state_table
from support.tables.table_runs import TestTable, offsets
from support.tables.write_plans import row


@pytest.fixture(params=[False, True], ids=["partitions", "global"])
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> TestTable:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return state_table(is_global=request.param)


def report(table: TestTable) -> TableReport:
    return inspected(table.storage, Rules(), instants=10, pending_limit=timedelta(minutes=10))


def state(table: TestTable) -> IndexState:
    before = sorted(info.path for info in table.storage.list())
    found = report(table).index_state
    assert sorted(info.path for info in table.storage.list()) == before
    assert found is not None
    return found


def groups(table: TestTable) -> int:
    return report(table).files.file_groups


def test_what_came_after_it_was_stored_counts_as_changed(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.run(offsets(0, 2), [row("a"), row("b", region="us")])
    attempt.run(offsets(2, 3), [row("a", at=1)])
    found = state(table)
    assert (found.known_groups, found.changed_groups, found.problem) == (1, 1, None)
    assert groups(table) == 2
    assert found.runs >= 1
    assert found.size_bytes > 0
    assert found.known_up_to is not None


def test_what_another_writer_made_counts_as_changed(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.run(offsets(0, 2), [row("a"), row("b", region="us")])
    attempt.run(offsets(2, 3), [row("a", at=1)])
    before = state(table).changed_groups
    insert_by_another(table, [row("new")])
    assert state(table).changed_groups == before + 1


def test_without_a_state_all_counts_as_changed(table: TestTable) -> None:
    table.attempt().run(offsets(0, 2), [row("a"), row("b", region="us")])
    forget_state(table.storage)
    assert state(table) == IndexState(changed_groups=groups(table), missing_partitions=2)


def test_partitions_that_are_not_loaded_are_counted(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.run(offsets(0, 1), [row("a")])
    attempt.run(offsets(1, 2), [row("a", at=1)])
    assert state(table).missing_partitions == 0
    insert_by_another(table, [row("new", region="us")], region="us")
    assert state(table).missing_partitions == 1
    console = Console(width=200, record=True)
    show(report(table), console)
    assert "1 partitions are not loaded" in console.export_text()


def test_new_keys_in_log_files_are_named_until_they_are_compacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    table = state_table(inserts="log")
    table.attempt().run(offsets(0, 2), [row("a"), row("b", region="us")])
    compact(table.storage)
    attempt = table.attempt()
    assert state(table).log_key_groups == 0
    attempt.run(offsets(2, 3), [row("a", at=1)])
    assert state(table).log_key_groups == 0, "a known key"
    attempt.run(offsets(3, 5), [row("c"), row("d", region="ap")])
    assert state(table).log_key_groups == 2, "with and without a base file"
    console = Console(width=400, record=True)
    show(report(table), console)
    assert "run bucketingest handover before such a writer writes" in console.export_text()
    compact(table.storage)
    assert state(table).log_key_groups == 0


def test_a_lost_run_and_a_damaged_format_are_named(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.run(offsets(0, 2), [row("a"), row("b", region="us")])
    attempt.run(offsets(2, 3), [row("a", at=1)])
    paths = [info.path for info in table.storage.list(STATE_DIRECTORY)]
    table.storage.delete_many([path for path in paths if "/run/" in path])
    found = state(table)
    assert found.lost_runs == found.runs > 0
    assert found.known_groups == 0
    table.storage.put(f"{STATE_DIRECTORY}/format", b"x")
    assert "format" in (state(table).problem or "")
    console = Console(width=200, record=True)
    show(report(table), console)
    assert "index state: cannot be read" in console.export_text()


def test_a_table_with_buckets_has_none() -> None:
    table = TestTable()
    table.attempt().run(offsets(0, 1), [row("a")])
    assert report(table).index_state is None
