"""What `inspect` says of table services: what is not merged, what is pending, what is due by which limits."""

from __future__ import annotations

import json
import tempfile
from datetime import timedelta
from pathlib import Path

import pytest

from bucketingest.cli.inspection.command import inspected
from bucketingest.cli.inspection.report import ServicesReport
from bucketingest.cli.inspection.services import OLDEST_SHOWN, Rules
from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.timeline.instant import CLEAN
from bucketingest.hudi.timeline.instant_time import format_time
from bucketingest.hudi.timeline.timeline import create_requested
from bucketingest.services.clean.choose import Retention
from bucketingest.services.clean_and_archive import archive_plan
from bucketingest.services.clustering.choose import ClusteringTriggers
from bucketingest.services.compaction.choose import CompactionTriggers
from bucketingest.services.protocol.holder import Guarded
from bucketingest.storage import Storage, open_storage
from support.jobs.commands import Command
from support.tables.fixtures import unpack_fixture
from support.tables.other_writers import schedule_compaction
from support.tables.services.aged_table import AgedTable
from support.tables.services.clustered import current_groups
from support.tables.services.compactions import compact, finish, started, written
from support.tables.state.tables import state_table
from support.tables.table_runs import TestTable, offsets
from support.tables.write_plans import row

TWO_FILES = Rules(CompactionTriggers(log_files=2, log_ratio=1000.0))


def services(storage: Storage, rules: Rules = TWO_FILES) -> ServicesReport:
    return inspected(storage, rules, instants=10, pending_limit=timedelta(minutes=10)).services


def test_log_files_that_are_not_merged_and_their_age() -> None:
    given = written(base_files=False)
    found = services(given.storage)
    logs = [info for info in given.storage.list() if ".log." in info.path]
    assert (found.log_files, found.log_bytes) == (len(logs), sum(each.size for each in logs))
    assert (found.unmerged_groups, found.without_base, found.base_bytes) == (4, 4, 0)
    assert found.read_optimized_age == found.oldest[0].oldest_log_age > 0
    assert found.snapshot_age is not None
    assert 0 < found.snapshot_age <= found.read_optimized_age
    assert found.due.compaction_file_groups == 4


def test_after_a_compaction_nothing_is_due_until_something_is_written() -> None:
    given = written(base_files=False)
    compact(given.storage)
    found = services(given.storage)
    assert (found.unmerged_groups, found.log_files, found.read_optimized_age) == (0, 0, None)
    assert found.due.compaction_file_groups == 0
    assert found.base_bytes == sum(i.size for i in given.storage.list() if i.path.endswith(".parquet"))
    given.table.attempt().run(offsets(9, 11), [row("k0", at=50)])
    found = services(given.storage)
    assert (found.unmerged_groups, found.without_base) == (1, 0)
    assert found.oldest[0].base_bytes is not None
    assert services(given.storage, Rules()).due.compaction_file_groups == 0
    for number in range(11, 14):
        given.table.attempt().run(offsets(number, number + 1), [row("k0", at=number)])
    assert services(given.storage, Rules()).due.compaction_file_groups == 1, "tiny: by four log files"


def test_only_the_file_groups_with_the_oldest_log_files_are_named() -> None:
    table = TestTable()
    attempt = table.attempt()
    for number in range(OLDEST_SHOWN + 2):
        attempt.run(offsets(number, number + 1), [row("k", region=f"r{number}")])
    found = services(table.storage)
    assert found.unmerged_groups == OLDEST_SHOWN + 2
    assert [each.partition_path for each in found.oldest] == [f"r{number}" for number in range(OLDEST_SHOWN)]


def test_file_groups_of_a_pending_plan_are_not_due_and_its_planner_is_named() -> None:
    given = written(base_files=False)
    started(given.storage)
    found = services(given.storage)
    (plan,) = found.pending
    assert (plan.action, plan.file_groups, plan.by) == ("compaction", 4, "bucketingest")
    assert found.due.compaction_file_groups == 0
    finish(given.storage)
    assert services(given.storage).pending == ()


def test_another_writers_plan_is_named_as_such() -> None:
    given = written(base_files=False)
    schedule_compaction(given.table)
    assert [each.by for each in services(given.storage).pending] == ["another writer"]


def test_what_cannot_be_read_is_said_and_hides_nothing_else() -> None:
    given = written(base_files=False)
    create_requested(given.storage, format_time(utc_now()), "compaction")
    found = services(given.storage)
    assert found.pending[0].file_groups is None
    assert found.unmerged_groups == 4
    assert (found.due.compaction_file_groups, found.due.clean_files) == (None, None)
    assert [each.partition(":")[0] for each in found.due.unknown] == ["compaction", "clean"]


def test_what_a_clean_would_delete_and_one_that_is_pending() -> None:
    given = written(base_files=True)
    compact(given.storage)
    given.table.attempt().run(offsets(9, 11), [row("k0", at=50)])
    rules = Rules(retention=Retention(retain=timedelta(0)))
    assert services(given.storage).due.clean_files == 0, "within 24 hours"
    assert (services(given.storage, rules).due.clean_files or 0) > 0
    create_requested(given.storage, format_time(utc_now()), CLEAN)
    (pending,) = services(given.storage).pending
    assert (pending.action, pending.files) == (CLEAN, None)


def test_what_keeps_instants_on_the_timeline_that_are_old_enough_to_leave_it(tmp_path: Path, command: Command) -> None:
    storage = open_storage(str(tmp_path / "aged"))
    AgedTable(storage, utc_now() - timedelta(hours=3), keys=2, look_every=timedelta(days=1)).run(23)
    before = {info.path for info in storage.list()}
    due = services(storage).due
    assert due.archive_instants == 3
    first = archive_plan(Guarded(storage)).pins[0]
    assert (due.archive_pins[0].instant, due.archive_pins[0].why) == (first.instant, first.why)
    assert "a log file of it is in a slice that is not cleaned" in first.why
    text = command("inspect", storage.url).out
    assert f"the archive leaves instants from {first.first_kept} on: {first.instant}: {first.why}" in text
    assert {info.path for info in storage.list()} == before
    assert services(written(base_files=False).storage).due.archive_pins == (), "nothing is old enough"


def test_the_limits_are_those_of_a_resource(command: Command, tmp_path: Path, resource_file: Path) -> None:
    limits = {"compaction": {"logAge": "6h", "logFiles": 200}, "clean": {"retain": "48h"}}
    with resource_file.open("a") as file:
        file.write(f"  services: {json.dumps({'mode': 'inline', **limits})}\n")
    table = unpack_fixture("java_v9_avro", tmp_path)
    ended = command("inspect", table, "--json", "--resource", resource_file)
    assert ended.code == 0, ended.err
    due = json.loads(ended.out)["services"]["due"]
    assert (due["log_age"], due["log_files"], due["log_ratio"], due["retain"]) == (21600.0, 200, 0.5, 172800.0)
    text = command("inspect", table, "--resource", resource_file).out
    assert "a log file of 6 h 0 min, 200 log files, or logs that cost 50% of the base file" in text
    assert "superseded for 2 d 0 h" in text
    resource_file.write_text(resource_file.read_text().replace('"retain": "48h"', '"versions": 3'))
    assert "(older than 3 versions)" in command("inspect", table, "--resource", resource_file).out


def test_small_file_groups_of_a_table_with_a_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    table = state_table()
    attempt = table.attempt()
    for number in range(3):
        attempt.run(offsets(number, number + 1), [row(f"k{number}", at=1)])
    groups = sum(map(len, current_groups(table.storage).values()))
    rules = Rules(clustering=ClusteringTriggers(10**6, min_groups=groups), clusters=True)
    found = services(table.storage, rules).due.small_groups
    assert found is not None
    assert (found.groups, found.most, found.due, found.limit, found.merged) == (groups, groups, groups, 500_000, True)
    fewer = services(table.storage, Rules(clustering=ClusteringTriggers(10**6, min_groups=groups + 1))).due.small_groups
    assert fewer is not None
    assert (fewer.groups, fewer.due, fewer.merged) == (groups, 0, False)
    assert services(TestTable().attempt().opened.storage, rules).due.small_groups is None, "buckets have one group each"
