"""Archivals of a table with six old writes, and where its instants are then."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import pyarrow.parquet as pq

from bucketingest.hudi.history.archived import archived_instants
from bucketingest.hudi.naming import TIMELINE_DIRECTORY
from bucketingest.hudi.rollback.rollback import Lock
from bucketingest.hudi.timeline.instant import CLEAN, ROLLBACK, Instant
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.services.archive.choose import ArchiveRules, Held
from bucketingest.services.archive.execute import ArchiveResult, archive
from bucketingest.services.protocol.holder import Guarded
from bucketingest.storage import Storage
from support.tables.services.old_timelines import NOW, at, old_table

RULES = ArchiveRules(keep_min=2)
WRITES = [at(minutes) for minutes in (200, 190, 180, 170, 160, 150)]
"""Six deltacommits, the newest two stay."""
SERVICES = [(at(185), CLEAN), (at(175), ROLLBACK)]


def unchecked() -> None:
    """A process that may go on."""


def run(
    storage: Storage,
    held: Held | None = None,
    *,
    rules: ArchiveRules = RULES,
    check: Callable[[], None] = unchecked,
    lock: Lock = nullcontext,
) -> ArchiveResult:
    """One run, at the moment `NOW`."""
    return archive(Guarded(storage, lock, check, lambda: NOW), held or Held(), rules)


def table() -> Storage:
    """A table that was never archived."""
    return old_table(WRITES, SERVICES)


def first_archived() -> Storage:
    """A table of which a part was archived before."""
    storage = old_table([at(230), at(220), *WRITES], SERVICES)
    run(storage, rules=replace(RULES, instants_max=2))
    return storage


def all_instants(storage: Storage) -> set[Instant]:
    """The union of active timeline and history."""
    return {*Timeline.load(storage).completed, *archived_instants(storage)}


def paths(storage: Storage) -> set[str]:
    """Of every object."""
    return {info.path for info in storage.list("")}


def history_column(storage: Storage, name: str, column: str) -> list[bytes | None]:
    """The values of a history file's column."""
    data = storage.get(f"{TIMELINE_DIRECTORY}/history/{name}")
    return pq.read_table(io.BytesIO(data))[column].to_pylist()
