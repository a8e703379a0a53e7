"""Cleaning by another writer: deletes file slices that a compaction superseded, and replaced file groups."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from bucketingest.storage import NotFound
from support.simulation.judge.instants import TIMELINE
from support.simulation.judge.reader import Snapshot
from support.simulation.records import container, record
from support.simulation.spec import REGIONS
from support.simulation.view import View
from support.simulation.world import Actor
from support.simulation.writers.visit import Visit


def clean(visit: Visit, actor: Actor, storage: View) -> None:
    """Finish a clean that another one left, else plan one and carry it out."""
    with visit.others.alone("cleaning") as alone:
        if not alone:
            return
        table = visit.look(storage)
        time = _pending(table)
        if time is None:
            found = _superseded(table)
            if not found:
                return
            visit.dawdle(actor)
            time = visit.request(storage, "clean", "HoodieCleanerPlan", lambda _: _plan(found))
        if time is not None:
            _carry_out(visit, actor, storage, time)


def clean_partition(visit: Visit, actor: Actor, storage: View) -> None:
    """Plan to delete a partition that has no file group, as Hudi's cleaner does, and delete it later, with all that
    is in it by then. What another one left pending is finished first.
    """
    with visit.others.alone("cleaning") as alone:
        table = visit.look(storage)
        if not alone:
            return
        time = _pending(table)
        if time is None:
            used = {partition for partition, _ in table.groups}
            free = [region for region in REGIONS if region not in used]
            if not free:
                return
            plan = {"policy": "KEEP_LATEST_BY_HOURS", "filePathsToBeDeletedPerPartition": {}, "version": 2,
                    "partitionsToBeDeleted": [visit.rng.choice(free)]}  # fmt: skip
            time = visit.request(storage, "clean", "HoodieCleanerPlan", lambda _: plan)
            if time is None:
                return
            visit.create(storage, f"{time}.clean.inflight")
            visit.be_late(actor, visit.others.late_cleans, f"deletes a partition in clean {time}")
        _delete_partitions(visit, storage, time)


def _delete_partitions(visit: Visit, storage: View, time: str) -> None:
    try:
        partitions = record(storage.get(f"{TIMELINE}{time}.clean.requested")).get("partitionsToBeDeleted")
    except NotFound:
        return
    for partition in partitions or ():
        storage.delete_many([path for path in visit.look(storage).objects if path.startswith(f"{partition}/")])
    if partitions:
        metadata = {"startCleanTime": time, "timeTakenInMillis": 1, "totalFilesDeleted": 1,
                    "earliestCommitToRetain": "", "partitionMetadata": {}}  # fmt: skip
        done = f"{time}_{visit.next_time(storage)}.clean"
        visit.create(storage, done, container("HoodieCleanMetadata", metadata))
        visit.world.note(visit.name, "deletes", f"partitions {partitions}, as planned in {time}")


def _pending(table: Snapshot) -> str | None:
    names = [path.removeprefix(TIMELINE) for path in table.objects if path.startswith(TIMELINE)]
    done = {name[:17] for name in names if name.endswith(".clean")}
    return next((name[:17] for name in names if name.endswith(".clean.requested") and name[:17] not in done), None)


def _superseded(table: Snapshot) -> dict[str, list[str]]:
    files: defaultdict[str, list[str]] = defaultdict(list)
    for group, slices in table.groups.items():
        if slices[-1].base is not None and table.pending_compaction(group) is None:
            files[group[0]] += [file.path for part in slices[:-1] for file in part.files]
    for file in table.files:
        if file.group in table.instants.replaced and table.instants.is_visible(file.instant):
            files[file.partition].append(file.path)
    kept = frozenset().union(*table.instants.savepoints.values())
    found = {partition: [path for path in paths if path not in kept] for partition, paths in files.items()}
    return {partition: paths for partition, paths in found.items() if paths}


def _plan(files: dict[str, list[str]]) -> dict[str, Any]:
    deleted = {
        partition: [{"filePath": path, "isBootstrapBaseFile": False} for path in paths]
        for partition, paths in files.items()
    }
    return {"policy": "KEEP_LATEST_FILE_VERSIONS", "filePathsToBeDeletedPerPartition": deleted, "version": 2}


def _carry_out(visit: Visit, actor: Actor, storage: View, time: str) -> None:
    try:
        plan = record(storage.get(f"{TIMELINE}{time}.clean.requested"))["filePathsToBeDeletedPerPartition"]
    except NotFound:  # the pipeline finished it, and archived it
        return
    visit.create(storage, f"{time}.clean.inflight")
    for files in plan.values():
        storage.delete_many([each["filePath"].removeprefix(f"{storage.url}/") for each in files])
    partitions = {
        partition: {
            "partitionPath": partition,
            "policy": "KEEP_LATEST_FILE_VERSIONS",
            "deletePathPatterns": [],
            "successDeleteFiles": [each["filePath"] for each in files],
            "failedDeleteFiles": [],
        }
        for partition, files in plan.items()
    }
    metadata = {
        "startCleanTime": time,
        "timeTakenInMillis": 1,
        "totalFilesDeleted": sum(map(len, plan.values())),
        "earliestCommitToRetain": "",
        "partitionMetadata": partitions,
    }
    with visit.world.atomically(actor):
        if _pending(visit.look(storage)) != time:
            return  # the pipeline finished it
        visit.create(storage, f"{time}_{visit.next_time(storage)}.clean", container("HoodieCleanMetadata", metadata))
    visit.world.note(visit.name, "cleans", time)
