"""Compactions of another writer, in Hudi's steps: a plan of what completed before its time, base files, a commit."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bucketingest.hudi.timeline import heartbeat
from bucketingest.storage import AlreadyExists, NotFound
from support.simulation.judge.file_content import entries_of
from support.simulation.judge.files import DataFile, data_file
from support.simulation.judge.instants import TIMELINE
from support.simulation.judge.reader import Slice, Snapshot
from support.simulation.records import container
from support.simulation.source import SCHEMA
from support.simulation.view import View
from support.simulation.world import Actor
from support.simulation.writers.commits import table_schema
from support.simulation.writers.visit import Visit

_META = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)


_PAUSES = 0.4
"""How often a rollback is paused between its plan and its deletions."""


def schedule(visit: Visit, actor: Actor, storage: View) -> None:
    """Plan a compaction of every file group that has logs. A scheduler without lock plans from a timeline that may be
    old by the time it chooses its own.
    """
    with visit.others.alone("scheduling") as alone, visit.lock(actor):
        if not alone:
            return
        table = visit.look(storage)
        visit.dawdle(actor)
        if not any(_operations(table, "9")):
            return
        time = visit.next_time(storage)
        visit.others.requested.add(time)
        visit.dawdle(actor)  # it lists the files
        plan = container("HoodieCompactionPlan", _plan(_operations(table, time)))
        visit.be_late(actor, visit.others.late_plans, f"requests compaction {time}")
        visit.create(storage, f"{time}.compaction.requested", plan)
        visit.world.note(visit.name, "schedules", f"compaction {time}")


def run_pending(visit: Visit, actor: Actor, storage: View) -> None:
    """Run and complete every scheduled compaction, also those of other writers."""
    with visit.others.alone("compacting") as alone:
        if not alone:
            return
        for time, plan in sorted(visit.look(storage).instants.compactions.items()):
            _run(visit, actor, storage, time, plan["operations"] or [])


def _run(visit: Visit, actor: Actor, storage: View, time: str, operations: Sequence[Mapping[str, Any]]) -> None:
    table = visit.look(storage)
    if time not in table.instants.compactions:  # completed since it was listed
        return
    inflight = f"{TIMELINE}{time}.compaction.inflight"
    if inflight in table.objects:  # an executor died, or seems to have: its files are rolled back
        _roll_back(visit, actor, storage, table, time)
    if visit.beats:
        heartbeat.beat(storage, time)
    visit.create(storage, f"{time}.compaction.inflight")
    stats: dict[str, list[dict[str, Any]]] = {}
    token = f"{visit.world.steps}-0-1"
    for operation in operations:
        try:
            path, content = _merged(visit, storage, table, operation, f"{token}_{time}")
        except NotFound as error:
            visit.world.note(visit.name, "cannot compact", str(error))
            return
        try:
            storage.create(path, content)
        except AlreadyExists:
            return
        stat = {"fileId": operation["fileId"], "path": path, "partitionPath": operation["partitionPath"]}
        stats.setdefault(operation["partitionPath"], []).append(
            stat | {"prevCommit": operation["baseInstantTime"], "fileSizeInBytes": len(content)}
        )
    with visit.world.atomically(actor):
        now = visit.look(storage)
        if inflight not in now.objects:
            return  # whether it was completed meanwhile, Hudi does not look
        metadata = {
            "partitionToWriteStats": stats,
            "compacted": True,
            "extraMetadata": {"schema": table_schema(visit, storage)},
            "operationType": "COMPACT",
        }
        visit.create(storage, f"{time}_{visit.next_time(storage)}.commit", container("HoodieCommitMetadata", metadata))
    visit.world.note(visit.name, "compacts", time)
    heartbeat.stop(storage, time)


def roll_back_pending(visit: Visit, actor: Actor, storage: View) -> None:
    """Treat every open compaction as dead, and stop at any step.

    Not beside a clean: if the compaction completes meanwhile, that would delete the logs, and this the base file.
    Hudi's writers lose these rows with or without us.
    """
    with visit.others.alone("compacting") as alone, visit.others.alone("cleaning") as none_cleans:
        table = visit.look(storage)
        for time in sorted(table.instants.compactions) if alone and none_cleans else ():
            if f"{TIMELINE}{time}.compaction.inflight" in table.objects:
                actor.dies_in = visit.rng.choice((None, 2, 4, 6, 8, 10))
                _roll_back(visit, actor, storage, table, time)
                visit.world.note(visit.name, "undoes", f"compaction {time}")


def _roll_back(visit: Visit, actor: Actor, storage: View, table: Snapshot, time: str) -> None:
    """In Hudi's steps, as its single writer does without a look at any heartbeat; it may die between any two."""
    doomed = [file for file in table.files if file.is_base and file.instant == time]
    target = {"commitTime": time, "action": "compaction"}

    def plan(_: str) -> dict[str, Any]:
        requests = [
            {
                "partitionPath": file.partition,
                "fileId": file.file_id,
                "latestBaseInstant": time,
                "filesToBeDeleted": [storage.absolute(file.path)],
                "logBlocksToBeDeleted": {},
            }
            for file in doomed
        ]
        return {"instantToRollback": target, "RollbackRequests": requests, "version": 1}

    rollback = visit.request(storage, "rollback", "HoodieRollbackPlan", plan)
    if rollback is None:
        return
    visit.create(storage, f"{rollback}.rollback.inflight")
    if visit.rng.random() < _PAUSES:
        visit.world.stall(actor, visit.rng.choice((10, 60, 200, 800)))
    for file in doomed:
        if _outlived_retention(visit, table, file):
            return
        storage.delete(file.path)
    storage.delete(f"{TIMELINE}{time}.compaction.inflight")
    metadata = {
        "startRollbackTime": rollback,
        "timeTakenInMillis": 1,
        "totalFilesDeleted": len(doomed),
        "commitsRollback": [time],
        "partitionMetadata": {},
        "version": 1,
        "instantsRollback": [target],
    }
    visit.create(
        storage, f"{rollback}_{visit.next_time(storage)}.rollback", container("HoodieRollbackMetadata", metadata)
    )


def _outlived_retention(visit: Visit, table: Snapshot, doomed: DataFile) -> bool:
    """Whether the compaction was completed, and what it read cleaned, since `table` was read.

    A rollback that was paused for so long takes rows away, with Hudi's own cleans too. Real ones retain files for an
    hour at least: no process is paused for longer and goes on.
    """
    now = visit.table.snapshot
    before = {file.path for file in table.files if file.group == doomed.group and file.instant < doomed.instant}
    return doomed.instant in now.instants.completed and not before <= {file.path for file in now.files}


def _merged(
    visit: Visit, storage: View, table: Snapshot, operation: Mapping[str, Any], suffix: str
) -> tuple[str, bytes]:
    """Path and content of the new base file. Raises NotFound if a file of the plan is missing."""
    partition = operation["partitionPath"]
    base, *logs = (_file(partition, name) for name in (operation["dataFilePath"], *operation["deltaFilePaths"]))
    part = Slice("", base, tuple(log for log in logs if log is not None))
    for file in part.files:
        entries_of(file, storage.get(file.path))
    name = f"{operation['fileId']}_{suffix}.parquet"
    columns = [each["name"] for each in json.loads(table_schema(visit, storage))["fields"]]
    fields = [SCHEMA.field(each) if each in SCHEMA.names else pa.field(each, pa.string()) for each in columns]
    schema = pa.schema([*(pa.field(each, pa.string()) for each in _META), *fields])
    rows = [row | {"_hoodie_file_name": name} for row in map(dict, table.merged(part))]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink)
    return f"{partition}/{name}", sink.getvalue()


def _file(partition: str, name: str | None) -> DataFile | None:
    return None if name is None else data_file(f"{partition}/{name}")


def _operations(table: Snapshot, time: str) -> list[dict[str, Any]]:
    instants, found = table.instants, []
    for (partition, file_id), part in table.latest.items():
        done = {log: instants.completion_time(log.instant) for log in part.logs}
        logs = [log for log in part.logs if (done[log] or "~") < time]
        if not logs or table.pending_compaction((partition, file_id)):
            continue
        found.append(
            {
                "baseInstantTime": part.key,
                "deltaFilePaths": [log.name for log in logs],
                "dataFilePath": None if part.base is None else part.base.name,
                "fileId": file_id,
                "partitionPath": partition,
                "metrics": {"TOTAL_LOG_FILES": float(len(logs)), "TOTAL_LOG_FILES_SIZE": 1.0},
            }
        )
    return found


def _plan(operations: list[dict[str, Any]]) -> dict[str, Any]:
    return {"operations": operations, "extraMetadata": {}, "version": 2, "missingSchedulePartitions": []}
