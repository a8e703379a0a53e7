"""`rollback` as a user types it: what it says and with which exit code, and that a dry run changes nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bucketingest.cli import rollback as rollback_command
from bucketingest.exit_codes import ExitCode
from bucketingest.hudi.naming import PROPERTIES_PATH, LogFileName, deterministic_file_id, join
from bucketingest.hudi.rollback.markers import create_marker
from bucketingest.hudi.table.table import TableDefinition, create_table
from bucketingest.hudi.timeline import heartbeat
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant_time import format_time
from bucketingest.hudi.timeline.timeline import Timeline, complete, create_inflight, create_requested
from bucketingest.lease.record import LeaseOwner
from bucketingest.lease.table_lease import TableLease
from bucketingest.storage import Storage, open_storage
from bucketingest.write.instants.journal import Journal
from support.jobs.commands import Command
from support.tables.other_writers import upgrade_table

PIPELINE = "shop/orders"
NOW = datetime.now(UTC)
OURS, FOREIGN, DONE, DONE_AT = (format_time(NOW - timedelta(minutes=minutes)) for minutes in (40, 30, 20, 19))
TEN_MINUTES_AGO = (NOW - timedelta(minutes=10)).timestamp()


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    """A table with our own instant and one of another writer, both pending and long dead, and a completed one."""
    storage = open_storage(str(tmp_path / "orders"))
    create_table(storage, TableDefinition("orders", ("id",), ("region",), "ts", buckets=4))
    for instant, extra in ((OURS, {"bucketingest.pipeline": PIPELINE}), (FOREIGN, {}), (DONE, {})):
        heartbeat.beat(storage, instant)
        create_requested(storage, instant)
        create_inflight(storage, instant, content=CommitMetadata(extra_metadata=extra).encode())
        name = str(LogFileName(deterministic_file_id(1), instant, 1))
        create_marker(storage, instant, "eu", name)
        storage.create(join("eu", name), b"rows")
    complete(storage, DONE, DONE_AT, CommitMetadata().encode())
    for file in (tmp_path / "orders").rglob("*"):
        os.utime(file, (TEN_MINUTES_AGO, TEN_MINUTES_AGO))
    return storage


def paths(storage: Storage) -> dict[str, bytes]:
    return {info.path: storage.get(info.path) for info in storage.list("")}


def records(text: str) -> list[dict[str, Any]]:
    """The JSON log lines of stderr; other lines are left out."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def test_it_rolls_back_our_instants_and_says_what_it_left(command: Command, storage: Storage) -> None:
    ended = command("rollback", storage.url)
    assert ended.code == ExitCode.OK, ended.err
    assert ended.out == ""
    lines = {record["event"]: record for record in records(ended.err)}
    done = lines["rolled back"]
    assert (done["instant"], done["pipeline"], done["deleted_files"]) == (OURS, PIPELINE, 1)
    assert lines["claimed"]["pipeline"] == PIPELINE
    left = lines["left alone"]
    assert (left["instant"], left["what"]) == (FOREIGN, "not asked for")
    assert "--instant" in left["reason"]
    assert not [path for path in paths(storage) if OURS in path and ".bucketingest" not in path]
    assert [path for path in paths(storage) if FOREIGN in path]


def test_the_second_run_finds_nothing(command: Command, storage: Storage) -> None:
    command("rollback", storage.url)
    before = paths(storage)
    ended = command("rollback", storage.url)
    assert ended.code == ExitCode.OK
    assert "nothing to roll back" in [record["event"] for record in records(ended.err)]
    assert paths(storage) == before


def test_a_dry_run_shows_the_plan_and_changes_nothing(command: Command, storage: Storage) -> None:
    before = paths(storage)
    ended = command("rollback", storage.url, "--dry-run")
    assert ended.code == ExitCode.OK
    (planned,) = [record for record in records(ended.err) if record["event"] == "would be done"]
    assert (planned["instant"], planned["what"], planned["files"]) == (OURS, "roll back", 1)
    assert paths(storage) == before


def test_json_has_plan_and_result(command: Command, storage: Storage) -> None:
    planned = json.loads(command("rollback", storage.url, "--dry-run", "--json").out)
    assert planned["dry_run"] is True
    own, foreign = planned["instants"]
    assert (own["instant"], own["state"], own["step"], own["left"]) == (OURS, "INFLIGHT", "roll back", None)
    assert (own["done"], own["rollback"], len(own["files"])) == (None, None, 1)
    assert (foreign["step"], foreign["left"], foreign["pipeline"]) == ("nothing", "not asked for", None)
    result = json.loads(command("rollback", storage.url, "--json").out)["instants"][0]
    assert (result["done"], result["deleted"]) == ("roll back", own["files"])
    assert Timeline.load(storage).find(result["rollback"], "rollback") is not None


def test_another_writers_instant_is_rolled_back_by_name(command: Command, storage: Storage) -> None:
    assert command("rollback", storage.url, "--instant", FOREIGN).code == ExitCode.OK
    assert [instant.request_time for instant in Timeline.load(storage).pending] == [OURS]
    again = command("rollback", storage.url, "--instant", FOREIGN, "--json")
    assert again.code == ExitCode.OK
    assert [each["left"] for each in json.loads(again.out)["instants"]] == ["done"]


def test_a_completed_instant_is_refused_and_then_nothing_else_is_done_either(
    command: Command, storage: Storage
) -> None:
    before = paths(storage)
    ended = command("rollback", storage.url, "--instant", DONE, "--instant", FOREIGN)
    assert ended.code == ExitCode.TABLE_REFUSED
    assert f"error: not rolled back:\n  - instant {DONE}: it is completed" in ended.err
    assert paths(storage) == before


def test_a_compaction_is_refused_by_name_and_left_otherwise(command: Command, storage: Storage) -> None:
    time = format_time(NOW - timedelta(minutes=5))
    create_requested(storage, time, "compaction", b"plan")
    ended = command("rollback", storage.url, "--instant", time, "--force")
    assert ended.code == ExitCode.TABLE_REFUSED
    assert f"instant {time}: it is a compaction: only deltacommits" in ended.err
    assert command("rollback", storage.url).code == ExitCode.OK
    assert Timeline.load(storage).find(time, "compaction") is not None


def test_an_unknown_instant_is_refused(command: Command, storage: Storage) -> None:
    ended = command("rollback", storage.url, "--instant", "20200101000000000")
    assert ended.code == ExitCode.TABLE_REFUSED
    assert "it is older than the active timeline" in ended.err
    time = format_time(NOW - timedelta(minutes=1))
    ended = command("rollback", storage.url, "--instant", time)
    assert ended.code == ExitCode.TABLE_REFUSED
    assert "there is no such instant" in ended.err


@pytest.mark.parametrize("text", ["yesterday", "2026", "202611210817130041"])
def test_what_is_not_an_instant_time_is_a_wrong_command_line(command: Command, storage: Storage, text: str) -> None:
    ended = command("rollback", storage.url, "--instant", text)
    assert ended.code == ExitCode.BAD_INPUT
    assert "17 digits" in ended.err


def test_an_instant_with_a_sign_of_life_is_left_with_a_code_of_its_own_unless_forced(
    command: Command, storage: Storage
) -> None:
    heartbeat.beat(storage, OURS)
    ended = command("rollback", storage.url)
    assert ended.code == ExitCode.INSTANT_HELD
    assert f"error: left alone:\n  - instant {OURS}: its writer gave a sign of life" in ended.err
    assert "nothing to roll back" not in ended.err
    assert Timeline.load(storage).find(OURS) is not None
    assert command("rollback", storage.url, "--force").code == ExitCode.OK
    assert Timeline.load(storage).find(OURS) is None


def test_a_table_that_a_job_holds_is_left_unless_forced(command: Command, storage: Storage) -> None:
    with TableLease.acquire(storage, LeaseOwner(PIPELINE), wait=timedelta(0)):
        ended = command("rollback", storage.url)
        assert ended.code == ExitCode.INSTANT_HELD
        assert f"the table is held by pipeline {PIPELINE}" in ended.err
        forced = command("rollback", storage.url, "--force")
        assert forced.code == ExitCode.OK
        assert "continuing although the table is held" in forced.err
    assert Timeline.load(storage).find(OURS) is None


def test_the_command_releases_the_table(command: Command, storage: Storage) -> None:
    assert command("rollback", storage.url).code == ExitCode.OK
    TableLease.acquire(storage, LeaseOwner(PIPELINE), wait=timedelta(0)).release()


def test_after_a_rollback_heartbeats_still_count(command: Command, storage: Storage) -> None:
    command("rollback", storage.url)
    time = format_time(NOW - timedelta(minutes=5))
    heartbeat.beat(storage, time)
    create_requested(storage, time)
    content = CommitMetadata(extra_metadata={"bucketingest.pipeline": PIPELINE}).encode()
    create_inflight(storage, time, content=content)
    assert command("rollback", storage.url).code == ExitCode.INSTANT_HELD


def test_a_driver_that_is_fenced_out_names_the_rollback(command: Command, storage: Storage) -> None:
    journal = Journal(storage, PIPELINE)
    epoch = journal.claim_epoch("a driver")
    assert command("rollback", storage.url).code == ExitCode.OK
    with pytest.raises(Exception, match="rollback on "):
        journal.check_epoch(epoch)


def test_what_is_not_a_table_is_reported(command: Command, tmp_path: Path) -> None:
    ended = command("rollback", tmp_path)
    assert ended.code == ExitCode.TABLE_REFUSED
    assert ended.err.startswith("error: ")


def test_a_table_with_a_metadata_table_is_refused(command: Command, storage: Storage) -> None:
    properties = storage.get(PROPERTIES_PATH) + b"hoodie.table.metadata.partitions=files\n"
    storage.put(PROPERTIES_PATH, properties)
    ended = command("rollback", storage.url)
    assert ended.code == ExitCode.TABLE_REFUSED
    assert "metadata table is on" in ended.err


def test_a_table_of_a_version_that_is_not_known_yet_is_refused(command: Command, storage: Storage) -> None:
    upgrade_table(storage)
    ended = command("rollback", storage.url)
    assert ended.code == ExitCode.TABLE_REFUSED
    assert "a newer Hudi writer has upgraded it" in ended.err


def test_a_pending_rollback_without_a_plan_is_reported(command: Command, storage: Storage) -> None:
    time = format_time(NOW - timedelta(minutes=1))
    create_requested(storage, time, "rollback", b"")
    ended = command("rollback", storage.url)
    assert ended.code == ExitCode.OK
    assert f"{time}.rollback.requested is empty" in ended.err


@pytest.mark.parametrize(
    ("option", "message"),
    [("durable", "must be of the form NAME=VALUE"), ("=x", "must be of the form NAME=VALUE"), ("colour=red", "colour")],
)
def test_a_wrong_storage_option_is_reported_without_its_value(
    command: Command, storage: Storage, option: str, message: str
) -> None:
    ended = command("rollback", storage.url, "--storage-option", option)
    assert ended.code == ExitCode.BAD_INPUT
    assert message in ended.err
    assert "red" not in ended.err


def test_storage_options_reach_the_storage(command: Command, storage: Storage) -> None:
    assert command("rollback", storage.url, "--storage-option", "durable=false").code == ExitCode.OK


def test_hudis_lock_is_taken_as_the_command_line_says(command: Command, storage: Storage) -> None:
    ended = command("rollback", storage.url, "--lock", "zookeeper")
    assert ended.code == ExitCode.BAD_INPUT
    assert "must be one of auto, storage, fileSystem, none" in ended.err
    ended = command("rollback", storage.url, "--lock", "storage")
    assert ended.code == ExitCode.TABLE_REFUSED
    assert "needs compare-and-swap" in ended.err
    assert command("rollback", storage.url, "--lock", "fileSystem").code == ExitCode.OK


def test_in_a_terminal_a_table_is_shown(command: Command, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollback_command, "Console", lambda: Console(force_terminal=True, width=200))
    planned = command("rollback", storage.url, "--dry-run").out
    for text in (OURS, "deltacommit INFLIGHT", PIPELINE, "roll back", "not asked for", "nothing was changed"):
        assert text in planned
    assert "rolled back" in command("rollback", storage.url).out
    storage.delete_many([path for path in paths(storage) if FOREIGN in path])
    assert "Nothing to roll back" in command("rollback", storage.url).out


def test_help_shows_every_option(command: Command) -> None:
    out = command("rollback", "--help").out
    for option in ("--instant", "--force", "--dry-run", "--json", "--lock", "--storage-option"):
        assert option in out


def test_it_needs_nothing_of_spark(storage: Storage) -> None:
    script = (
        "import sys; from bucketingest.cli.main import call; code = call(sys.argv[1:]); "
        "print(code, sorted({'pyspark', 'py4j', 'pandas'} & set(sys.modules)))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, "rollback", storage.url], capture_output=True, text=True, check=False
    )
    assert ended.stdout == "0 []\n", ended.stderr
