"""What a compaction commits: the results of its round, and the log files that came too late for its plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Final

from bucketingest.hudi.history.archived import archived_times
from bucketingest.hudi.naming import LogFileName, parse_data_file_name
from bucketingest.hudi.plans.compaction_plan import CompactionPlan
from bucketingest.hudi.plans.replaced import replaced_file_groups
from bucketingest.hudi.table.file_view import Group
from bucketingest.hudi.table.schema import AvroSchema, schema_json
from bucketingest.hudi.table.table import load_table
from bucketingest.hudi.timeline.commit_metadata import SCHEMA_KEY, CommitMetadata
from bucketingest.hudi.timeline.instant import next_instant_time
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.hudi.timeline.write_stat import WriteStat
from bucketingest.services.compaction.facts import sizes_of
from bucketingest.services.compaction.journal import CompactionJournal
from bucketingest.services.compaction.records import OURS, Decided, OperationResult, PlanRecord
from bucketingest.storage import Storage
from bucketingest.write.instants.journal import Journal, pipelines
from bucketingest.write.instants.records import CommitDecision
from bucketingest.write.open_table import stored_schema

_OPERATION_TYPE = "COMPACT"
_READERS: Final = 16
"""Threads that read results: each is a small object."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A round whose operations all have results."""

    plan: CompactionPlan
    added: Mapping[Group, tuple[str, ...]]
    """Log files that the round merged besides those of the plan."""
    stats: tuple[WriteStat, ...]
    failed: Mapping[Group, str]
    """Operations without a base file, and why: their file groups keep their slices."""
    files_stand: bool
    """Whether all base files were in storage just now."""


def ready_commit(
    storage: Storage, journal: CompactionJournal, number: int, round_number: int, record: PlanRecord
) -> Ready:
    """Read a round's results, and look for its base files. Raises NotFound if a result is missing."""
    plan = record.plan(journal.path(number, "plan"))
    _, opened = journal.newest_round(number)
    chunks = range(len(record.chunks(len(plan.operations))))
    with ThreadPoolExecutor(_READERS) as threads:
        read = threads.map(lambda chunk: journal.results(number, round_number, chunk), chunks)
        results: list[OperationResult] = list(chain.from_iterable(read))
    groups = [operation.group for operation in plan.operations]
    stats = tuple(result.stat for result in results if result.stat is not None)
    sizes = {stat.path: stat.file_size_in_bytes for stat in stats if stat.path is not None}
    stored = sizes_of(storage, sizes)
    failed = {group: result.failed for group, result in zip(groups, results, strict=True) if result.failed is not None}
    return Ready(plan, opened.added if opened else {}, stats, failed, stored == sizes)


def undecided(storage: Storage, timeline: Timeline) -> str | None:
    """An instant of a pipeline that may still complete with a time before now, in words."""
    for pipeline in pipelines(storage):
        journal = Journal(storage, pipeline)
        for instant, objects in journal.objects_by_instant().items():
            if "decision" not in objects or "done" in objects or timeline.is_committed(instant):
                continue
            if isinstance(journal.decision(instant), CommitDecision):
                return f"instant {instant} of {pipeline} is decided and not complete"
    return None


def late_logs(storage: Storage, timeline: Timeline, record: PlanRecord, ready: Ready) -> dict[Group, tuple[str, ...]]:
    """Log files of the plan's file groups that completed before the compaction, and that the round did not merge.

    A writer without the table's lock, or with a wrong clock, may complete before a time that is already taken.
    """
    merged = {each.group: {*each.log_files, *ready.added.get(each.group, ())} for each in ready.plan.operations}
    late: dict[Group, list[str]] = {}
    for instant in timeline.completed_commits:
        completed_before = (instant.completion_time or "") < record.compaction
        if not completed_before or instant.request_time in record.known:
            continue
        path = path_of(instant)
        for file in CommitMetadata.decode_files(storage.get(path), path):
            group = (file.partition_path, file.file_id)
            is_log = isinstance(parse_data_file_name(file.name), LogFileName)
            if is_log and group in merged and file.name not in merged[group]:
                late.setdefault(group, []).append(file.name)
    return {group: tuple(names) for group, names in late.items()}


def wanted_decision(storage: Storage, timeline: Timeline, ready: Ready, compaction: str, now: datetime) -> Decided:
    """The commit of a round: without file groups that were replaced meanwhile, with the table's newest columns.

    Raises ClockError, and what reading the timeline raises.
    """
    replaced = replaced_file_groups(storage, timeline)
    stats = [stat for stat in ready.stats if (stat.partition_path or "", stat.file_id) not in replaced]
    schema = stored_schema(load_table(storage), timeline)
    assert schema is not None, "the plan had one"
    completion_time = next_instant_time(now, {*timeline.times, *archived_times(storage), compaction})
    return Decided(completion_time, compaction_commit(stats, schema).encode())


def compaction_commit(stats: Iterable[WriteStat], schema: AvroSchema) -> CommitMetadata:
    """Content of the completed file. `schema`: the table's columns without meta columns."""
    write_stats: dict[str, list[WriteStat]] = {}
    for stat in stats:
        write_stats.setdefault(stat.partition_path or "", []).append(stat)
    return CommitMetadata(write_stats, {SCHEMA_KEY: schema_json(schema), OURS: "1"}, _OPERATION_TYPE, compacted=True)
