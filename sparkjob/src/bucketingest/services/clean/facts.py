"""What a clean must know beyond the files and the timeline: who merged what, and who still needs it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache

from bucketingest.hudi.errors import InvalidTable
from bucketingest.hudi.history.archived import archived_contents, archived_plan
from bucketingest.hudi.naming import TIMELINE_DIRECTORY, join
from bucketingest.hudi.plans.clean_plan import CleanMetadata, savepointed_files
from bucketingest.hudi.plans.compaction_plan import CompactionPlan, read_compaction_plan
from bucketingest.hudi.plans.replaced import clustered_file_groups, replacements
from bucketingest.hudi.rollback.pending import pending_rollbacks
from bucketingest.hudi.table.file_view import Group
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import (
    CLEAN,
    CLUSTERING,
    COMMIT,
    COMPACTION,
    DELTA_COMMIT,
    LOG_COMPACTION,
    REPLACE_COMMIT,
    Instant,
)
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.services.compaction.records import ADDED
from bucketingest.storage.errors import NotFound
from bucketingest.storage.interface import Storage


@dataclass(frozen=True, slots=True)
class Superseder:
    """A completed instant that wrote base files over older slices: what it merged, and where to."""

    plan: CompactionPlan | None
    """None if it was no compaction: then it merged no log files."""
    base_files: frozenset[str]
    """Paths, relative to the table's root, that its commit names."""
    added: frozenset[str] = frozenset()
    """Paths of log files that it merged, though no plan names them or they completed after its completion time."""


@dataclass(frozen=True, slots=True)
class PendingPlan:
    """A pending table service that will read a file group."""

    name: str
    """Action and request time."""
    first_slice: str = ""
    """Base instant of the oldest slice that it reads; "" for all."""


@dataclass(frozen=True, slots=True)
class CleanFacts:
    """What a choice needs to know beyond files and timeline."""

    superseder: Callable[[str], Superseder | None]
    """The completed instant of a request time, also an archived one; None if its plan or commit is gone, or if it is
    being rolled back.
    """
    savepoints: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Savepoint -> the files that it keeps, relative to the table's root."""
    replaced: Mapping[Group, Instant] = field(default_factory=dict)
    """The completed instant that replaced the group."""
    pending: Mapping[Group, PendingPlan] = field(default_factory=dict)
    modified: Mapping[str, datetime] = field(default_factory=dict)
    """Request time -> when the completed file was put onto storage."""
    last_earliest: str = ""
    """Earliest instant that the last clean retained; "" if there is none."""
    damaged: Collection[Group] = ()
    """File groups that lack a file of their newest slice: then an older slice may be all that is left of its rows."""


def load_clean_facts(storage: Storage) -> tuple[Timeline, CleanFacts]:
    """The timeline, from one listing, and the facts at that moment.

    Opens a file per savepoint, replacecommit and pending table service, and the last clean's; per superseding commit
    two more, when they are asked for. Raises `InvalidTable`, and `NotFound` if another writer removes one meanwhile.
    """
    listed = {info.path.rpartition("/")[2]: info.modified for info in storage.list_level(TIMELINE_DIRECTORY).objects}
    timeline = Timeline.of_file_names(listed)
    going = frozenset(rollback.target for rollback in pending_rollbacks(storage, timeline))

    @cache
    def superseder(request_time: str) -> Superseder | None:
        return None if request_time in going else _superseder(storage, timeline, request_time)

    facts = CleanFacts(
        superseder=superseder,
        savepoints=savepointed_files(storage, timeline),
        replaced={g: i for g, i in replacements(storage, timeline).items() if i.request_time not in going},
        pending=_pending_plans(storage, timeline),
        modified={
            instant.request_time: listed[instant.file_name]
            for instant in timeline.completed
            if instant.action in (COMMIT, REPLACE_COMMIT)
        },
        last_earliest=last_earliest(storage, timeline),
    )
    return timeline, facts


def _superseder(storage: Storage, timeline: Timeline, request_time: str) -> Superseder | None:
    where = f"the commit of {request_time}"
    for action in (COMMIT, DELTA_COMMIT, REPLACE_COMMIT):
        instant = timeline.find(request_time, action)
        content: bytes | None = None
        if instant is not None and instant.is_completed:
            plan = read_compaction_plan(storage, request_time)
            with suppress(NotFound):  # archived since the timeline was loaded
                content = storage.get(path_of(instant))
        elif instant is None and timeline.is_archived(request_time):
            content = next(iter(archived_contents(storage, request_time, action)), None)
            planned = archived_plan(storage, request_time) if content is not None and action == COMMIT else None
            plan = None if planned is None else CompactionPlan.decode(planned, f"the plan of {request_time}")
        if content is not None:
            return None if plan is None and action == COMMIT else _from_commit(plan, content, where)
    return None


def _from_commit(plan: CompactionPlan | None, content: bytes, where: str) -> Superseder:
    written = CommitMetadata.decode_files(content, where)
    added = CommitMetadata.decode_extra(content, where).get(ADDED, "")
    paths = frozenset(join(file.partition_path, file.name) for file in written)
    return Superseder(plan, paths, frozenset(added.splitlines()))


def _pending_plans(storage: Storage, timeline: Timeline) -> dict[Group, PendingPlan]:
    found: dict[Group, PendingPlan] = {}
    for instant in timeline.pending:
        for group, first_slice in _groups_of(storage, instant):
            known = found.get(group)
            if known is None or first_slice < known.first_slice:
                found[group] = PendingPlan(f"{instant.action} {instant.request_time}", first_slice)
    return found


def _groups_of(storage: Storage, pending: Instant) -> Iterator[tuple[Group, str]]:
    if pending.action in (COMPACTION, LOG_COMPACTION):
        plan = read_compaction_plan(storage, pending.request_time, pending.action)
        if plan is None:
            raise InvalidTable(
                f"{storage.url}: {pending.action} {pending.request_time} is pending without a plan: nothing can be "
                "cleaned, as it may need any file; remove its inflight file, if no writer works on it"
            )
        yield from ((operation.group, operation.base_instant) for operation in plan.operations)
    elif pending.action in (CLUSTERING, REPLACE_COMMIT):
        yield from ((group, "") for group in clustered_file_groups(storage, pending))


def last_earliest(storage: Storage, timeline: Timeline) -> str:
    """Request time of the earliest instant that the last clean kept whole; "" if there was none, or it names none."""
    cleans = [instant for instant in timeline.completed if instant.action == CLEAN]
    if not cleans:
        return ""
    path = path_of(cleans[-1])
    return CleanMetadata.decode(storage.get(path), path).earliest
