"""What another writer puts onto a table's timeline, in Hudi's own form: compactions, replaced file groups, columns."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bucketingest.hudi.naming import HISTORY_DIRECTORY, PROPERTIES_PATH, TIMELINE_DIRECTORY, LogFileName
from bucketingest.hudi.plans.clean_plan import CleanMetadata
from bucketingest.hudi.rollback.plan import RollbackMetadata, RollbackPlan
from bucketingest.hudi.table import properties as java_properties
from bucketingest.hudi.table.file_view import load_file_view
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import (
    CLEAN,
    CLUSTERING,
    COMMIT,
    COMPACTION,
    DELTA_COMMIT,
    REPLACE_COMMIT,
    ROLLBACK,
    Instant,
    State,
)
from bucketingest.hudi.timeline.instant_time import format_time, parse_time
from bucketingest.hudi.timeline.timeline import complete, create_inflight, create_requested, path_of
from bucketingest.hudi.timeline.write_stat import WriteStat
from bucketingest.storage import Storage
from support.simulation.records import container
from support.tables.table_runs import TestTable
from support.tables.write_plans import row

ROWS = [row("k0", amount=1), row("k1", amount=2)]
"""The pipeline's own rows, between which other writers come."""
KEYS = ["k0", "k1"]


def later(time: str) -> str:
    """The next instant time."""
    return format_time(parse_time(time) + timedelta(milliseconds=1))


def earlier(time: str) -> str:
    """The instant time before."""
    return format_time(parse_time(time) - timedelta(milliseconds=1))


def next_time(table: TestTable, after: str = "") -> str:
    """A time after now, after every one on the timeline, and after `after`."""
    newest = max(table.timeline().newest_time or "", format_time(datetime.now(UTC)), after)
    return later(newest)


def schedule_compaction(table: TestTable, *, time: str | None = None, without: Sequence[str] = ()) -> str:
    """Request a compaction of every file group, which leaves out the logs of the instants `without`; its time."""
    return request_compaction(table, *planned_compaction(table, time=time, without=without))


def planned_compaction(
    table: TestTable, *, time: str | None = None, without: Sequence[str] = ()
) -> tuple[str, dict[str, Any]]:
    """The time and the plan of such a compaction, which is not requested yet."""
    time = time or next_time(table)
    operations: list[dict[str, Any]] = []
    for group in load_file_view(table.storage, table.timeline()).groups:
        latest = group.latest
        logs = [file for file in (latest.log_files if latest else ()) if file.instant not in without]
        if latest is not None and logs:
            base = latest.base_file
            operations.append(
                {
                    "baseInstantTime": base.instant if base is not None else min(file.instant for file in logs),
                    "deltaFilePaths": [str(file.name) for file in logs],
                    "dataFilePath": str(base.name) if base is not None else None,
                    "fileId": group.file_id,
                    "partitionPath": group.partition_path,
                    "metrics": {},
                }
            )
    plan = {"operations": operations, "extraMetadata": {}, "version": 2, "missingSchedulePartitions": []}
    return time, plan


def request_compaction(table: TestTable, time: str, plan: dict[str, Any]) -> str:
    """Request a planned compaction; its time."""
    create_requested(table.storage, time, COMPACTION, container("HoodieCompactionPlan", plan))
    return time


def commit(table: TestTable, metadata: CommitMetadata) -> str:
    """A whole instant of another writer; its request time."""
    time = next_time(table)
    create_requested(table.storage, time)
    create_inflight(table.storage, time)
    complete(table.storage, time, next_time(table), metadata.encode())
    return time


def add_column(table: TestTable, name: str) -> str:
    """A commit whose schema has one more column than the table's; its request time."""
    newest = table.timeline().completed_commits[-1]
    (path,) = [path for path in table.completed() if newest.request_time in path]
    schema = json.loads(CommitMetadata.decode_extra(table.storage.get(path), path)["schema"])
    schema["fields"].append({"name": name, "type": ["null", "string"], "default": None})
    return commit(table, CommitMetadata(extra_metadata={"schema": json.dumps(schema)}))


def replace_file_groups(table: TestTable, replaced: Mapping[str, Sequence[str]]) -> str:
    """What delete_partition leaves: partition path -> file ids that nobody reads from now on; the request time."""
    time = next_time(table)
    record: dict[str, Any] = {"partitionToWriteStats": {}, "partitionToReplaceFileIds": dict(replaced)}
    create_requested(table.storage, time, REPLACE_COMMIT, b"")
    create_inflight(table.storage, time, REPLACE_COMMIT)
    content = container("HoodieReplaceCommitMetadata", record)
    complete(table.storage, time, next_time(table), content, REPLACE_COMMIT)
    return time


def plan_clean(table: TestTable, *partitions: str, files_of: Sequence[str] = ()) -> str:
    """What Hudi plans when everything in these partitions was replaced; the request time. `files_of`: partitions whose
    files it names.
    """
    time = next_time(table)
    plan: dict[str, Any] = {
        "earliestInstantToRetain": None,
        "lastCompletedCommitTimestamp": "",
        "policy": "KEEP_LATEST_BY_HOURS",
        "filesToBeDeletedPerPartition": {},
        "version": 2,
        "filePathsToBeDeletedPerPartition": {
            partition: [{"filePath": info.path, "isBootstrapBaseFile": False} for info in table.storage.list(partition)]
            for partition in files_of
        },
        "partitionsToBeDeleted": list(partitions),
        "extraMetadata": {},
    }
    create_requested(table.storage, time, CLEAN, container("HoodieCleanerPlan", plan))
    create_inflight(table.storage, time, CLEAN)
    return time


def finish_clean(table: TestTable, time: str) -> None:
    complete(table.storage, time, next_time(table), CleanMetadata(time, {}, "", "").encode(), CLEAN)


def archive(table: TestTable, *, rollbacks: bool = True, only: str | None = None) -> None:
    """Take every completed instant off the timeline into the history, as Hudi's archival does; `rollbacks`: those too,
    which it keeps while they are newer; `only`: those of one action.
    """
    done = [
        instant
        for instant in table.timeline().completed
        if (rollbacks or instant.action != ROLLBACK) and only in (None, instant.action)
    ]
    columns = {
        "instantTime": [instant.request_time for instant in done],
        "completionTime": [instant.completion_time for instant in done],
        "action": [instant.action for instant in done],
        "metadata": [table.storage.get(path_of(instant)) for instant in done],
        "plan": [_plan(table, instant) for instant in done],
    }
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    name = f"{done[0].request_time}_{done[-1].request_time}_0.parquet"
    table.storage.create(f"{HISTORY_DIRECTORY}/{name}", sink.getvalue())
    table.storage.create(f"{HISTORY_DIRECTORY}/manifest_1", json.dumps({"files": [{"fileName": name}]}).encode())
    table.storage.create(f"{HISTORY_DIRECTORY}/_version_", b"1")
    times = tuple(instant.request_time for instant in done)
    for info in table.storage.list_level(TIMELINE_DIRECTORY).objects:
        if info.path.rpartition("/")[2].startswith(times):
            table.storage.delete(info.path)


def _plan(table: TestTable, instant: Instant) -> bytes | None:
    requested = {COMMIT: COMPACTION, CLEAN: CLEAN, REPLACE_COMMIT: CLUSTERING}.get(instant.action)
    if requested is None:
        return None
    path = path_of(Instant(instant.request_time, requested, State.REQUESTED))
    return table.storage.get(path) if table.storage.exists(path) else None


def roll_back_completed(table: TestTable, instant: str, action: str = DELTA_COMMIT) -> None:
    """What Hudi's EAGER writer does to an instant that completed during its rollback."""
    time = next_time(table)
    plan = RollbackPlan(instant, action, ())
    content = RollbackMetadata(time, plan).encode(table.storage.absolute)
    complete(table.storage, time, next_time(table, time), content, ROLLBACK)


def switch_on_metadata_table(table: TestTable) -> None:
    """What a Hudi writer with default options does, without the files."""
    set_property(table.storage, "hoodie.table.metadata.partitions", "files")


def upgrade_table(storage: Storage) -> None:
    """What a Hudi writer of a later release does unless told otherwise, as far as this release sees it."""
    set_property(storage, "hoodie.table.version", "10")


def set_property(storage: Storage, name: str, value: str) -> None:
    properties = {**java_properties.parse(storage.get(PROPERTIES_PATH).decode("iso-8859-1")), name: value}
    storage.put(PROPERTIES_PATH, java_properties.serialise(properties).encode("ascii"))


def foreign_commit(table: TestTable, partition_path: str, bucket: int, random: str = "a21b") -> str:
    """Another writer's instant, with a file group of a random id; returns the file id."""
    file_id = f"{bucket:08d}-{random}-4b6d-a4ef-90dafdb1c65e-0"
    instant = later(table.timeline().newest_time or format_time(datetime.now(UTC)))
    name = LogFileName(file_id, instant, 1)
    create_requested(table.storage, instant)
    create_inflight(table.storage, instant, content=b"")
    stat = WriteStat.of_log_file(partition_path, name, size=0, updates=1, deletes=0)
    table.storage.create(f"{partition_path}/{name}", b"")
    metadata = CommitMetadata(write_stats={partition_path: [stat]}, extra_metadata={})
    complete(table.storage, instant, later(instant), metadata.encode())
    return file_id
