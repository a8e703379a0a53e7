"""Another writer fills a partition that the pipeline never writes, and deletes it: its file groups are replaced."""

from __future__ import annotations

from support.simulation.records import container
from support.simulation.view import View
from support.simulation.world import Actor
from support.simulation.writers.commits import FOREIGN_PARTITION, commit, table_schema
from support.simulation.writers.visit import Visit


def fill(visit: Visit, actor: Actor, storage: View) -> None:
    """A row into the partition, once."""
    if not visit.others.partition_filled:
        visit.others.partition_filled = True
        commit(visit, actor, storage, region=FOREIGN_PARTITION)


def delete(visit: Visit, actor: Actor, storage: View) -> None:
    """Hudi's delete_partition: a replacecommit that names every file group of the partition."""
    with visit.others.alone("deleting a partition") as alone, visit.world.atomically(actor):
        table = visit.look(storage)
        groups = [file_id for partition, file_id in table.groups if partition == FOREIGN_PARTITION]
        if not alone or not groups:
            return
        time = visit.next_time(storage)
        visit.others.requested.add(time)
        if not visit.create(storage, f"{time}.replacecommit.requested"):
            return
        visit.create(storage, f"{time}.replacecommit.inflight")
        metadata = {
            "partitionToWriteStats": {},
            "extraMetadata": {"schema": table_schema(visit, storage)},
            "operationType": "DELETE_PARTITION",
            "partitionToReplaceFileIds": {FOREIGN_PARTITION: groups},
        }
        name = f"{time}_{visit.next_time(storage)}.replacecommit"
        visit.create(storage, name, container("HoodieReplaceCommitMetadata", metadata))
        visit.world.note(visit.name, "deletes", FOREIGN_PARTITION)
