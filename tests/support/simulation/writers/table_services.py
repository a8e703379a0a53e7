"""The table services of another writer, one after the other, as a Spark job or a cron job of Hudi runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

from bucketingest.errors import BucketIngestError
from support.simulation.view import View
from support.simulation.world import Actor
from support.simulation.writers import (
    archival,
    cleaning,
    commits,
    compaction,
    configuring,
    partitions,
    rewriting,
    savepoints,
)
from support.simulation.writers.visit import Visit

Service = Literal[
    "commit",
    "schedule",
    "compact",
    "undo",
    "clean",
    "archive",
    "fill partition",
    "delete partition",
    "add column",
    "savepoint",
    "delete savepoint",
    "restore",
    "configure",
    "rewrite",
    "clean partition",
]

_SERVICES: Final[dict[Service, Callable[[Visit, Actor, View], None]]] = {
    "commit": commits.commit,
    "schedule": compaction.schedule,
    "compact": compaction.run_pending,
    "undo": compaction.roll_back_pending,
    "clean": cleaning.clean,
    "archive": archival.archive,
    "fill partition": partitions.fill,
    "delete partition": partitions.delete,
    "savepoint": savepoints.savepoint,
    "delete savepoint": savepoints.delete,
    "restore": savepoints.restore,
    "configure": configuring.configure,
    "rewrite": rewriting.rewrite,
    "clean partition": cleaning.clean_partition,
    "add column": lambda visit, actor, storage: commits.commit(visit, actor, storage, adds_column=True),
}


class TableServices:
    """One run of some of them."""

    def __init__(self, visit: Visit, services: Sequence[Service]) -> None:
        self._visit = visit
        self._services = services

    def live(self, actor: Actor) -> None:
        """Runs the services, until it is done, fails, or dies."""
        visit = self._visit
        storage = visit.view(actor)
        try:
            if "configure" in self._services or storage.exists(configuring.PROPERTIES):
                for service in self._services:
                    _SERVICES[service](visit, actor, storage)
        except BucketIngestError as error:
            visit.world.note(visit.name, "ends with", f"{type(error).__name__}: {error}")
