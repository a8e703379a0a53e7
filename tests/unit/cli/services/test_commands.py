"""`bucketingest compact`, `clean` and `archive`: their limits, what they show before they act, and what they did."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from bucketingest.exit_codes import ExitCode
from bucketingest.storage import open_storage
from support.jobs.commands import Command
from support.tables.services.compactions import compact
from support.tables.table_runs import TestTable, offsets
from support.tables.write_plans import row


@pytest.fixture
def table(tmp_path: Path) -> TestTable:
    """Two file groups, one of them with two log files."""
    its = TestTable()
    its.storage = open_storage(str(tmp_path / uuid.uuid4().hex))
    attempt = its.attempt()
    attempt.run(offsets(0, 2), [row("k0"), row("k1", region="us")])
    attempt.run(offsets(2, 3), [row("k0", at=2)])
    return its


def answer(command: Command, *arguments: object) -> dict[str, Any]:
    ended = command(*arguments, "--json")
    assert ended.code == ExitCode.OK, ended.err
    found: dict[str, Any] = json.loads(ended.out)
    return found


@pytest.mark.parametrize(
    ("limits", "due"),
    [
        ((), 0),
        (("--log-files", "2"), 1),
        (("--log-age", "0s"), 2),
        (("--log-percent", "10"), 2),
        (("--log-percent", "20"), 1),
        (("--all",), 2),
    ],
)
def test_compact_takes_what_is_due_by_its_options(
    command: Command, table: TestTable, limits: tuple[str, ...], due: int
) -> None:
    before = table.timeline().instants
    planned = answer(command, "compact", table.storage.url, "--dry-run", *limits)
    assert (planned["dry_run"], len(planned["due"])) == (True, due)
    assert table.timeline().instants == before
    compactions = answer(command, "compact", table.storage.url, *limits)["compactions"]
    assert [each["file_groups"] for each in compactions] == ([due] if due else [])


def test_clean_keeps_as_many_versions_as_it_is_asked_to(command: Command, table: TestTable) -> None:
    compact(table.storage)
    table.attempt().run(offsets(3, 4), [row("k0", at=3)])
    compact(table.storage)
    url = table.storage.url
    assert answer(command, "clean", url, "--dry-run")["files"] == 0, "within 24 hours"
    assert answer(command, "clean", url, "--versions", "3", "--dry-run")["files"] == 0
    assert answer(command, "clean", url, "--versions", "2", "--dry-run")["files"] == 2, "the log files of before"
    assert answer(command, "clean", url, "--versions", "1")["files"] == 5
    assert answer(command, "clean", url, "--versions", "1")["files"] == 0
    assert "0 files deleted" in command("clean", url, "--versions", "1").out


def test_clean_is_by_time_or_by_versions(command: Command, table: TestTable) -> None:
    ended = command("clean", table.storage.url, "--retain", "1h", "--versions", "2")
    assert ended.code == ExitCode.BAD_INPUT
    assert "give either --retain or --versions" in ended.err


def test_archive_says_what_it_would_take_and_what_keeps_the_others(command: Command, table: TestTable) -> None:
    before = table.timeline().instants
    found = answer(command, "archive", table.storage.url, "--dry-run")
    assert (found["dry_run"], found["instants"], found["kept_by"]) == (True, [], [])
    assert table.timeline().instants == before
    assert "0 instants would be archived" in command("archive", table.storage.url, "--dry-run").out
