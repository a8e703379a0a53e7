"""`inspect` on tables that Hudi wrote, on damaged ones, and on what is not a table."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bucketingest.cli.inspection import findings
from bucketingest.exit_codes import ExitCode
from bucketingest.hudi.bucket_rules.counts import BucketCounts, BucketRule
from bucketingest.hudi.bucket_rules.hashing_config import FIRST_INSTANT, HashingConfig, path_of_config
from bucketingest.hudi.naming import LogFileName, deterministic_file_id
from bucketingest.hudi.table.file_view import load_file_view
from bucketingest.hudi.table.table import TableDefinition, create_table
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant_time import format_time
from bucketingest.hudi.timeline.timeline import Timeline, complete, create_inflight, create_requested
from bucketingest.lease.record import LeaseOwner
from bucketingest.lease.table_lease import TableLease
from bucketingest.spec.partition_pattern import literal_pattern
from bucketingest.storage import Storage, open_storage
from bucketingest.write.instants.journal import Journal
from support.jobs.commands import Command
from support.tables.fixtures import unpack_fixture
from support.tables.local_writer import PIPELINE, LocalWriter
from support.tables.other_writers import upgrade_table
from support.tables.table_runs import TestTable, offsets
from support.tables.write_plans import row

OLD = format_time(datetime.now(UTC) - timedelta(hours=2))
YOUNG = format_time(datetime.now(UTC) - timedelta(seconds=5))


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    """An empty table of bucketingest."""
    storage = open_storage(str(tmp_path / "orders"))
    create_table(storage, TableDefinition("orders", ("id",), ("region",), "ts", buckets=4))
    return storage


def report_of(command: Command, storage: Storage | Path, *arguments: str) -> dict[str, Any]:
    url = storage if isinstance(storage, Path) else storage.url
    ended = command("inspect", url, "--json", *arguments)
    report: dict[str, Any] = json.loads(ended.out or "{}")
    assert ended.code == (ExitCode.FINDINGS if report.get("findings") else ExitCode.OK), ended.err
    return report


@pytest.mark.parametrize("fixture", ["java_v8_parquet", "java_v9_avro"])
def test_a_table_of_hudis(command: Command, tmp_path: Path, fixture: str) -> None:
    report = report_of(command, unpack_fixture(fixture, tmp_path))
    assert report["properties"]["record_key"] == ["id"]
    assert report["properties"]["ordering_fields"] == ["ts"]
    assert report["properties"]["buckets"] is None
    assert [(line["action"], line["state"], line["rows"], line["deletes"]) for line in report["timeline"]] == [
        ("deltacommit", "COMPLETED", 10, 0),
        ("deltacommit", "COMPLETED", 12, 0),
        ("deltacommit", "COMPLETED", 0, 2),
    ]
    files = report["files"]
    assert (files["partitions"], files["file_groups"], files["slices"], files["base_files"]) == (2, 6, 6, 6)
    assert files["sizes"]["total"] == files["all_bytes"]
    assert report["findings"] == report["pending"] == report["uncommitted"] == report["pipelines"] == []


def test_the_commits_that_changed_the_columns_are_named(command: Command, tmp_path: Path) -> None:
    deep = [pa.field("s", pa.struct([pa.field("x", pa.int32())])), pa.field("n", pa.int32())]
    first = pa.schema([("id", pa.string()), *deep])
    second = pa.schema([("id", pa.string()), deep[0], ("n", pa.int64()), ("note", pa.string())])
    definition = TableDefinition("t", ("id",), (), None, buckets=1)
    for schema in (first, second, second):
        LocalWriter(tmp_path, definition, schema).commit(schema.empty_table().from_pylist([{"id": "a"}], schema))
    report = report_of(command, tmp_path)
    times = [each["time"] for each in report["timeline"] if each["action"] == "deltacommit"]
    (change,) = report["schema_changes"]
    assert report["columns"] == 4
    assert (change["time"], change["added"], change["widened"]) == (times[1], ["note"], ["n"])
    text = command("inspect", tmp_path).out
    assert f"columns changed with {times[1]} by pipeline {PIPELINE}: new note; wider n" in text


def test_only_as_many_instants_as_asked_for_are_listed_the_newest_last(command: Command, tmp_path: Path) -> None:
    table = unpack_fixture("java_v9_avro", tmp_path)
    every = report_of(command, table)["timeline"]
    assert [line["time"] for line in report_of(command, table, "--instants", "2")["timeline"]] == [
        line["time"] for line in every[-2:]
    ]


def test_the_text_has_the_same_figures(command: Command, tmp_path: Path) -> None:
    ended = command("inspect", unpack_fixture("java_v9_avro", tmp_path))
    assert ended.code == ExitCode.OK
    for text in (
        "MERGE_ON_READ, version 9",
        "6 file groups in 2 partitions",
        "3 completed, 0 pending",
        "Nothing wrong",
    ):
        assert text in ended.out
    assert "\x1b" not in ended.out


@pytest.mark.parametrize(("time", "hangs"), [(OLD, True), (YOUNG, False)], ids=["old", "young"])
def test_a_pending_instant_hangs_when_it_is_old_and_its_owner_is_named(
    command: Command, storage: Storage, time: str, hangs: bool
) -> None:
    create_requested(storage, time)
    metadata = CommitMetadata(extra_metadata={"bucketingest.pipeline": "shop/orders", "bucketingest.epoch": "3"})
    create_inflight(storage, time, content=metadata.encode())
    report = report_of(command, storage)
    (pending,) = report["pending"]
    assert pending["hangs"] is hangs
    assert (pending["pipeline"], pending["epoch"], pending["heartbeat_age"]) == ("shop/orders", "3", None)
    assert ("start pipeline shop/orders" in pending["advice"]) is hangs
    assert any(time in finding for finding in report["findings"]) is hangs


def test_a_hanging_instant_with_a_heartbeat_is_left_alone(command: Command, storage: Storage) -> None:
    create_requested(storage, OLD)
    storage.put(f".hoodie/.heartbeat/{OLD}", b"")
    (pending,) = report_of(command, storage)["pending"]
    assert pending["heartbeat_age"] < 60
    assert "heartbeat is recent" in pending["advice"]


def test_the_limit_can_be_chosen(command: Command, storage: Storage) -> None:
    create_requested(storage, OLD)
    assert report_of(command, storage, "--pending-limit", "3h")["pending"][0]["hangs"] is False


def test_a_pending_compaction_is_hudis_business(command: Command, storage: Storage) -> None:
    create_requested(storage, OLD, "compaction")
    (pending,) = report_of(command, storage)["pending"]
    assert "bucketingest compact finishes it" in pending["advice"]


def test_leftovers_files_being_written_and_unmarked_partitions_are_reported(command: Command, tmp_path: Path) -> None:
    table = unpack_fixture("java_v9_avro", tmp_path)
    gone = table / "eu" / f".00000000-0000-0000-0000-000000000000-0_{YOUNG}.log.1_0-0-0"
    gone.write_bytes(b"12345")
    (table / "us" / ".hoodie_partition_metadata").unlink()
    report = report_of(command, table)
    (file,) = report["uncommitted"]
    assert (file["path"], file["size_bytes"], file["pending"]) == (f"eu/{gone.name}", 5, False)
    assert report["unmarked_partitions"] == ["us"]
    assert len(report["findings"]) == 2
    create_requested(open_storage(str(table)), YOUNG)
    assert report_of(command, table)["uncommitted"][0]["pending"] is True


def test_two_file_groups_of_one_bucket_are_named(command: Command, tmp_path: Path) -> None:
    table = unpack_fixture("java_v9_avro", tmp_path)
    with (table / ".hoodie/hoodie.properties").open("a") as properties:
        properties.write("bucketingest.bucket.count=4\n")
    committed = report_of(command, table)["timeline"][0]["time"]
    (table / "eu" / f".00000000-0000-0000-0000-000000000000-0_{committed}.log.1_0-0-0").write_bytes(b"")
    (finding,) = report_of(command, table)["findings"]
    assert "bucket 0 of partition eu has 2 file groups" in finding
    assert "00000000-0000-0000-0000-000000000000-0" in finding


def test_a_metadata_table_is_reported_with_the_remedy(command: Command, storage: Storage, tmp_path: Path) -> None:
    with (tmp_path / "orders/.hoodie/hoodie.properties").open("a") as properties:
        properties.write("hoodie.table.metadata.partitions=files\n")
    (finding,) = report_of(command, storage)["findings"]
    assert "set table.metadataTable to drop" in finding


def test_pipelines_are_known_by_their_claims(command: Command, storage: Storage) -> None:
    journal = Journal(storage, "shop/orders")
    journal.claim_epoch("host-a (process 1)")
    journal.claim_epoch("host-b (process 2)")
    (pipeline,) = report_of(command, storage)["pipelines"]
    assert (pipeline["name"], pipeline["epoch"], pipeline["claimant"]) == ("shop/orders", 2, "host-b (process 2)")
    assert pipeline["position"] is None


@pytest.mark.parametrize("path", ["", "nowhere"])
def test_a_path_that_is_not_a_table_is_named(command: Command, tmp_path: Path, path: str) -> None:
    ended = command("inspect", tmp_path / path)
    assert ended.code == ExitCode.TABLE_REFUSED
    assert ended.err == (
        f"error: {(tmp_path / path)} is not a Hudi table: .hoodie/hoodie.properties is missing; check the path\n"
    )


def test_a_timeline_of_version_6_cannot_be_read(command: Command, tmp_path: Path) -> None:
    ended = command("inspect", unpack_fixture("java_v6_avro", tmp_path))
    assert ended.code == ExitCode.TABLE_REFUSED
    assert "upgrade it with Hudi's upgrade_table procedure" in ended.err


def test_a_table_that_a_newer_hudi_has_upgraded_is_named_as_such_with_the_way_back(
    command: Command, storage: Storage
) -> None:
    upgrade_table(storage)
    ended = command("inspect", storage.url)
    assert ended.code == ExitCode.TABLE_REFUSED
    for part in (
        "hoodie.table.version=10: this release knows only table versions 8 and 9",
        "CALL downgrade_table(table => 'orders', to_version => 'NINE')",
        "hoodie.write.auto.upgrade=false",
    ):
        assert part in ended.err


def test_an_unknown_kind_of_storage_is_bad_input(command: Command) -> None:
    ended = command("inspect", "hdfs://namenode/orders")
    assert ended.code == ExitCode.BAD_INPUT
    assert "cannot open hdfs:// storages" in ended.err


def test_the_lease_of_the_table_is_not_a_pipeline(command: Command, storage: Storage) -> None:
    TableLease.acquire(storage, LeaseOwner("shop/orders"), wait=timedelta(0)).release()
    assert report_of(command, storage)["pipelines"] == []


def test_bucket_rules_are_shown_without_those_that_keep_counts(command: Command, storage: Storage) -> None:
    rules = (BucketRule(literal_pattern("old"), 4), BucketRule("^us", 16), BucketRule(".*", 4))
    config = HashingConfig(FIRST_INSTANT, BucketCounts(4, rules), kept=1)
    storage.create(config.path, config.encode())
    for path in ("old", "us"):
        create_log_file(storage, path)
    report = report_of(command, storage)
    assert report["properties"]["bucket_rules"] == ["^us 16", ".* 4"]
    assert report["files"]["bucket_counts"] == {"old": 4, "us": 16}
    text = " ".join(command("inspect", storage.url).out.split())
    assert "bucket rules ^us 16, .* 4" in text
    assert "buckets: 4 in 1 partitions, 16 in 1 partitions" in text


def create_log_file(storage: Storage, partition_path: str) -> None:
    """A committed file group; all tables share the instant."""
    if not Timeline.load(storage).instants:
        create_requested(storage, OLD)
        create_inflight(storage, OLD)
        complete(storage, OLD, YOUNG, CommitMetadata().encode())
    storage.create(f"{partition_path}/{LogFileName(deterministic_file_id(0), OLD, 1)}", b"x")


def test_bucket_rules_that_cannot_be_read_are_a_finding(command: Command, storage: Storage) -> None:
    storage.create(path_of_config(FIRST_INSTANT), b"{")
    assert ["restore it" in finding for finding in report_of(command, storage)["findings"]] == [True]


def test_a_file_group_that_is_far_too_large_is_a_finding(
    command: Command, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(findings, "_GROUP_BYTES_MAX", 0)
    create_log_file(storage, "us")
    assert ["table.index.partitionBuckets" in finding for finding in report_of(command, storage)["findings"][-1:]] == [
        True
    ]


@pytest.mark.parametrize(("limit", "is_found"), [(1, True), (2, False)])
def test_a_timeline_with_far_too_many_instants_is_a_finding(
    command: Command, storage: Storage, monkeypatch: pytest.MonkeyPatch, limit: int, is_found: bool
) -> None:
    monkeypatch.setattr(findings, "_INSTANTS_MAX", limit)
    for time in (OLD, YOUNG):
        create_requested(storage, time)
        complete(storage, time, str(int(time) + 1), CommitMetadata().encode())
    assert any("services.clean.retain" in finding for finding in report_of(command, storage)["findings"]) is is_found


def test_a_file_that_was_deleted_or_cut_is_a_finding_with_its_rows_and_ways_out(
    command: Command, tmp_path: Path
) -> None:
    table, storage = TestTable(), open_storage(str(tmp_path / "damaged"))
    table.storage = storage
    attempt = table.attempt()
    attempt.run(offsets(0, 100), [row("k0"), row("k1")])
    attempt.run(offsets(100, 150), [row("k0", at=2)])
    deleted = next(each for each in load_file_view(storage, table.timeline()).groups if len(each.slices[0].files) == 2)
    file = deleted.slices[0].log_files[-1]
    content = storage.get(file.path)
    storage.delete(file.path)
    (finding,) = report_of(command, storage)["findings"]
    assert finding.startswith(
        f"file group {deleted.file_id} of partition {deleted.partition_path} lacks rows: {file.path} of instant "
        f"{file.instant}: it is gone; its commit wrote 1 rows into it. Restore the file under this name"
    )
    assert """startingOffsets: '{"orders":{"0":100}}' by bucketingest run --once""" in finding
    assert f"bucketingest compact --all --accept-damage {storage.url}" in finding
    storage.create(file.path, content[:-1])
    (damaged,) = report_of(command, storage)["damaged"]
    assert (damaged["size_bytes"], damaged["found_bytes"]) == (len(content), len(content) - 1)
    assert (damaged["path"], damaged["rows"], damaged["offsets"]) == (file.path, 1, '{"orders":{"0":100}}')
    ended = command("compact", "--all", "--dry-run", "--json", storage.url)
    assert deleted.file_id not in {each["file_id"] for each in json.loads(ended.out)["due"]}
    storage.delete(file.path)
    assert command("compact", "--all", "--accept-damage", storage.url).code == ExitCode.OK
    assert report_of(command, storage)["findings"] == []


def test_a_time_that_is_days_ahead_is_a_finding(command: Command, storage: Storage) -> None:
    ahead = datetime.now(UTC) + timedelta(days=3)
    create_requested(storage, format_time(ahead))
    create_inflight(storage, format_time(ahead))
    complete(storage, format_time(ahead), format_time(ahead + timedelta(seconds=1)), CommitMetadata().encode())
    assert ["a writer's clock was ahead" in finding for finding in report_of(command, storage)["findings"]] == [True]
