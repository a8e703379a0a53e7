"""Savepoints of another writer, and restores to them: they take away what other writers and the pipeline completed."""

from __future__ import annotations

from typing import Final

from support.simulation.judge.files import DataFile, data_file
from support.simulation.judge.instants import TIMELINE, Instant
from support.simulation.judge.reader import Snapshot
from support.simulation.records import container
from support.simulation.view import View
from support.simulation.world import Actor
from support.simulation.writers.visit import Visit

_SAVEPOINTS: Final = "savepoints"


def savepoint(visit: Visit, actor: Actor, storage: View) -> None:
    """Keep the files of the newest completed write; the writer may pause between the two steps."""
    with visit.others.alone(_SAVEPOINTS) as alone, visit.lock(actor):
        if alone and (time := _savepointed(visit, actor, storage)):
            visit.world.note(visit.name, "savepoints", time)


def delete(visit: Visit, actor: Actor, storage: View) -> None:
    """Give every savepoint up, also one whose writer died. Hudi 1.2.0 takes none away that is just being made."""
    with visit.others.alone(_SAVEPOINTS) as alone, visit.lock(actor):
        if not alone:
            return
        names = [path for path in visit.look(storage).objects if path.startswith(TIMELINE) and ".savepoint" in path]
        storage.delete_many(sorted(names, reverse=True))
    if names:
        visit.world.note(visit.name, "gives savepoints up", f"{len(names)}")


def restore(visit: Visit, actor: Actor, storage: View) -> None:
    """Take compactions that came after the newest savepoint off the timeline, the newest first, completed or not. A
    person restores rows only while no pipeline runs, and nothing while Hudi's writers run. Nor if a clean deleted files
    that came after the savepoint: the compaction's base files may be the only ones with their rows.
    """
    with (
        visit.others.alone("compacting") as nobody_compacts,
        visit.others.alone("scheduling") as nobody_plans,
        visit.others.alone("cleaning") as nobody_cleans,
    ):
        alone = nobody_compacts and nobody_plans and nobody_cleans
        instants = visit.look(storage).instants
        target = max((name[:17] for name in instants.savepoints), default=None)
        if not alone or target is None:
            return
        doomed = {time for time, each in instants.completed.items() if each.active and time > target}
        compactions = instants.compactions.keys() | {t for t in doomed if instants.completed[t].action == "commit"}
        gone = sorted((time for time in compactions if time > target), reverse=True)
        if not gone or any(time > gone[-1] for time in (doomed | instants.pending) - set(gone)):
            return
        cleaned = (data_file(path) for path in instants.cleaned)
        if any(file.instant > target for file in cleaned if file is not None):
            return
        time = visit.next_time(storage)
        visit.others.requested.add(time)
        if not visit.create(storage, f"{time}.restore.requested", b"{}"):
            return
        visit.create(storage, f"{time}.restore.inflight")
        for each in gone:
            table = visit.look(storage)
            done = table.instants.completed.get(each)
            files = [file.path for file in table.files if file.is_base and file.instant == each]
            if done is not None:
                storage.delete(f"{TIMELINE}{each}_{done.completion_time}.commit")
            storage.delete_many([f"{TIMELINE}{each}.compaction.{state}" for state in ("inflight", "requested")])
            storage.delete_many(files)
        visit.create(storage, f"{time}_{visit.next_time(storage)}.restore", b"{}")
    visit.world.note(visit.name, "restores", f"{target}, takes {gone} away")


def _active(table: Snapshot) -> list[Instant]:
    return sorted(
        (each for each in table.instants.completed.values() if each.active), key=lambda each: each.request_time
    )


def _files(table: Snapshot) -> list[DataFile]:
    return [file for part in table.latest.values() for file in part.files]


def _savepointed(visit: Visit, actor: Actor, storage: View) -> str:
    """Time of the savepoint that was made; "" if none was."""
    table = visit.look(storage)
    newest = _active(table)[-1:]
    if not newest or not table.instants.is_visible(newest[0].request_time):
        return ""
    time = newest[0].request_time
    if not visit.create(storage, f"{time}.savepoint.inflight"):
        return ""
    visit.dawdle(actor)
    # Hudi refuses if a clean was faster. Files of later instants do no harm.
    now = visit.look(storage)
    if time not in now.instants.completed or not set(_files(table)) <= set(now.files):
        storage.delete(f"{TIMELINE}{time}.savepoint.inflight")
        return ""
    kept: dict[str, list[str]] = {}
    for file in _files(table):
        kept.setdefault(file.partition, []).append(file.name)
    metadata = {
        "savepointedBy": visit.name,
        "savepointedAt": 1,
        "comments": "",
        "partitionMetadata": {
            partition: {"partitionPath": partition, "savepointDataFile": names} for partition, names in kept.items()
        },
        "version": 1,
    }
    done = visit.next_time(storage)
    visit.create(storage, f"{time}_{done}.savepoint", container("HoodieSavepointMetadata", metadata))
    return time
