"""`bucketingest compact`, `clean` and `archive`: what they say, as text and as JSON. A dry run changes nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bucketingest.exit_codes import ExitCode
from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.timeline.instant import COMMIT
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.lease.record import LeaseOwner
from bucketingest.lease.table_lease import TableLease
from bucketingest.services.compaction.choose import CompactionTriggers
from bucketingest.storage import Storage, open_storage
from support.jobs.commands import Command
from support.tables.services.aged_table import AgedTable
from support.tables.services.snapshot import snapshot

MERGED, NOT_MERGED = 22, 3
NEVER = timedelta(days=9)


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("aged") / "orders"
    two_days_ago = utc_now() - timedelta(days=2)
    table = AgedTable(open_storage(str(path)), two_days_ago, look_every=NEVER, tidy_every=NEVER, keys=2)
    for commits in (2, MERGED - 2):
        table.run(commits)
        table.compact(CompactionTriggers(log_files=1))
    table.run(NOT_MERGED)
    return path


@pytest.fixture
def old(made_once: Path, tmp_path: Path) -> Storage:
    """A table with two file groups, two compactions, and some commits on top, all of two days ago."""
    return open_storage(str(shutil.copytree(made_once, tmp_path / "orders")))


@contextmanager
def nothing_changes(table: Storage) -> Iterator[None]:
    """Also beside a job that holds the table."""
    with TableLease.acquire(table, LeaseOwner("a job"), wait=timedelta(0)):
        before = {info.path: info.modified for info in table.list()}
        yield
        assert {info.path: info.modified for info in table.list()} == before


def asked(command: Command, *arguments: object) -> dict[str, Any]:
    ended = command(*arguments, "--json")
    assert ended.code == ExitCode.OK, ended.err
    answer: dict[str, Any] = json.loads(ended.out)
    return answer


def test_compact_names_what_is_due_and_why_and_then_does_it(old: Storage, command: Command) -> None:
    rows = snapshot(old)
    with nothing_changes(old):
        shown = command("compact", old.url, "--dry-run")
        answer = asked(command, "compact", old.url, "--dry-run")
    assert "2 file groups are due" in shown.out
    assert (answer["table"], answer["dry_run"], answer["compactions"]) == (old.url, True, [])
    assert [each["partition"] for each in answer["due"]] == ["eu", "us"]
    for each in answer["due"]:
        assert each["file_id"][:12] in shown.out
        assert each["log_files"] == NOT_MERGED
        assert 86_400 < each["oldest_log_seconds"] < 3 * 86_400
        assert "log" in each["why"]

    answer = asked(command, "compact", old.url)
    (done,) = answer["compactions"]
    assert (answer["dry_run"], answer["due"]) == (False, [])
    assert (done["end"], done["file_groups"], done["rows"]) == ("completed", 2, len(rows))
    assert Timeline.load(old).find(done["instant"], COMMIT) is not None
    assert snapshot(old) == rows
    assert asked(command, "compact", old.url, "--dry-run")["due"] == []
    assert "nothing is due" in command("compact", old.url, "--dry-run").out
    assert "nothing is due" in command("compact", old.url).out


def test_clean_and_archive_say_what_goes_what_stays_and_why(old: Storage, command: Command) -> None:
    rows = snapshot(old)
    with nothing_changes(old):
        kept = asked(command, "clean", old.url, "--dry-run")
        shown = command("clean", old.url, "--dry-run", "--retain", "0s")
        deletes = asked(command, "clean", old.url, "--dry-run", "--retain", "0s")
        pinned = asked(command, "archive", old.url, "--dry-run")
        pins = command("archive", old.url, "--dry-run")
    assert kept["files"] == 0
    assert kept["earliest_retained"] < deletes["earliest_retained"]
    assert "within the time to retain" in kept["limited_by"]
    assert deletes["files"] == 2 * (MERGED + 1)
    assert f"{deletes['files']} files would be deleted" in shown.out
    assert pinned["instants"] == []
    assert any("log file" in each["why"] for each in pinned["kept_by"])
    assert "0 instants would be archived" in pins.out
    assert pinned["kept_by"][0]["why"] in pins.out

    assert asked(command, "clean", old.url, "--retain", "0s")["files"] == deletes["files"]
    with nothing_changes(old):
        going = asked(command, "archive", old.url, "--dry-run")["instants"]
        shown = command("archive", old.url, "--dry-run")
        fewer = asked(command, "archive", old.url, "--dry-run", "--commits", "24")["instants"]
        assert asked(command, "archive", old.url, "--dry-run", "--retain", "72h")["instants"] == []
    assert going[: len(fewer)] == fewer != going
    assert f"{len(going)} instants would be archived" in shown.out
    archived = asked(command, "archive", old.url)
    assert archived["instants"][: len(going)] == going != []
    assert (archived["table"], archived["dry_run"]) == (old.url, False)
    assert not {*going} & {each.file_name for each in Timeline.load(old).instants}
    assert snapshot(old) == rows


def test_an_archive_of_younger_instants_is_refused(old: Storage, command: Command) -> None:
    ended = command("archive", old.url, "--retain", "59m")
    assert ended.code == ExitCode.BAD_INPUT
    assert "--retain: at least 1h" in ended.err


def test_without_a_dry_run_they_leave_a_table_to_the_job_that_holds_it(old: Storage, command: Command) -> None:
    for name in ("compact", "clean", "archive"):
        with nothing_changes(old):
            ended = command(name, old.url)
        assert ended.code == ExitCode.TABLE_LOCKED
        assert "a job" in ended.err
