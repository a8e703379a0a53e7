"""What a compaction commits: the results of its round, and the log files that came too late for its plan."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor  # noqa: TID251 - reads only, none where there are few
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Final, TypeVar

from bucketingest.hudi.history.archived import archived_times
from bucketingest.hudi.naming import BaseFileName, LogFileName, join, parse_data_file_name, split
from bucketingest.hudi.plans.replaced import replaced_file_groups
from bucketingest.hudi.rollback.rollback import rollbacks_of
from bucketingest.hudi.table.file_view import Group, list_data
from bucketingest.hudi.table.schema import AvroSchema, schema_json
from bucketingest.hudi.table.schema_evolution import Fit, compare_schemas
from bucketingest.hudi.table.table import load_table
from bucketingest.hudi.timeline.commit_metadata import SCHEMA_KEY, CommitMetadata
from bucketingest.hudi.timeline.instant_time import next_instant_time
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.hudi.timeline.write_stat import WriteStat
from bucketingest.services.compaction.records import ADDED, CompactionJournal, PlanRecord, round_token
from bucketingest.services.errors import RoundEnded
from bucketingest.services.protocol.records import OURS
from bucketingest.storage import Storage
from bucketingest.write.instants.journal import Journal
from bucketingest.write.instants.records import CommitDecision, Decision
from bucketingest.write.open_table import stored_schema
from bucketingest.write.pipeline_names import pipelines

_OPERATION_TYPE = "COMPACT"
_READERS: Final = 16
"""Threads that read results and list partitions."""
_Item = TypeVar("_Item")
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Ready:
    """A round whose operations all have results: what its commit needs, so that the commit lists and encodes nothing.

    Made outside the lock, beside the job: a large table has more partitions than can be listed between two
    micro-batches.
    """

    number: int
    round_number: int
    rollbacks: frozenset[tuple[str, bool]]
    """The rollbacks of the compaction before the files were listed: request time, and whether it was complete. With
    others, `files_stand` says nothing.
    """
    decided: bool
    """Whether the round had its decision: `files_stand` is then about the files that it names, else about all that were
    made.
    """
    added: Mapping[Group, tuple[str, ...]]
    """Log files that the round merged besides those of the plan."""
    groups: frozenset[Group]
    """File groups that get a base file."""
    failed: Mapping[Group, str]
    """Operations without a base file, and why: their file groups keep their slices."""
    files_stand: bool
    """Whether all base files were in storage."""
    content: bytes
    """The completed file, if nothing comes between."""
    schema: str
    """The table's columns in it, as JSON."""


def ready_commit(storage: Storage, journal: CompactionJournal, number: int, round_number: int) -> Ready:
    """Read a round's results, and look for its base files. Raises RoundEnded if a result or the plan is missing."""
    record, timeline = journal.plan(number), Timeline.load(storage)
    if record is None:
        raise RoundEnded(f"compaction {number} has ended")
    rollbacks = frozenset((i.request_time, i.is_completed) for i in rollbacks_of(storage, timeline, record.compaction))
    groups = [operation.group for operation in record.plan(journal.path(number, "plan")).operations]
    _, opened = journal.newest_round(number)
    left_out = opened.left_out if opened else frozenset()
    decided = journal.decision(number, round_number)
    is_decided = isinstance(decided, CommitDecision)
    chunks = range(len(record.chunks()))
    results = _read_all(lambda chunk: journal.results(number, round_number, chunk) or (), chunks)
    if len(results) < len(groups):
        raise RoundEnded(f"round {round_number} of compaction {number} lacks results")
    stats = tuple(result.stat for result in results if result.stat is not None)
    sizes = decided_files(decided) if is_decided else _sizes(stats)
    # Readers would see them beside those of this round, or of a file group that it leaves out.
    storage.delete_many(_files_of_older_rounds(record.compaction, groups, round_number))
    schema = stored_schema(load_table(storage), timeline)
    assert schema is not None, "the plan had one"
    return Ready(
        number,
        round_number,
        rollbacks,
        is_decided,
        opened.added if opened else {},
        frozenset((stat.partition_path or "", stat.file_id) for stat in stats),
        {
            each: result.failed
            for each, result in zip(groups, results, strict=True)
            if result.failed and each not in left_out
        },
        sizes_of(storage, sizes) == sizes,
        compaction_commit(stats, schema, added_paths(opened.added if opened else {})).encode(),
        schema_json(schema),
    )


def _files_of_older_rounds(compaction: str, groups: Iterable[Group], round_number: int) -> Iterator[str]:
    """Every base file that rounds before this one may have made. No later round uses their names."""
    for partition_path, file_id in groups:
        for older in range(1, round_number):
            yield join(partition_path, str(BaseFileName(file_id, compaction, round_token(older))))


def decided_files(decided: Decision | None) -> dict[str, int]:
    """Path and size in bytes of each base file that the decision commits."""
    if not isinstance(decided, CommitDecision):
        return {}
    commit = CommitMetadata.decode(decided.content, "the decision of a compaction")
    return _sizes(chain.from_iterable(commit.write_stats.values()))


def _sizes(stats: Iterable[WriteStat]) -> dict[str, int]:
    return {stat.path: stat.file_size_in_bytes for stat in stats if stat.path is not None}


def sizes_of(storage: Storage, paths: Collection[str]) -> dict[str, int]:
    """Sizes in bytes of those files that are in storage; one listing for each of their partitions."""
    partitions = sorted({split(path)[0] for path in paths})
    listed = _read_all(lambda partition_path: list_data(storage, [partition_path]), partitions)
    return {info.path: info.size for info in listed if info.path in paths}


def _read_all(read: Callable[[_Item], Iterable[_Found]], items: Sequence[_Item]) -> list[_Found]:
    if len(items) <= _READERS:
        return list(chain.from_iterable(map(read, items)))
    with ThreadPoolExecutor(_READERS) as threads:
        return list(chain.from_iterable(threads.map(lambda item: list(read(item)), items)))


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


def late_logs(
    storage: Storage, timeline: Timeline, record: PlanRecord, ready: Ready
) -> tuple[dict[Group, tuple[str, ...]], frozenset[Group]]:
    """Log files of the plan's file groups that completed before the compaction, and that the round did not merge; and
    those of the file groups in which one has columns that the plan's base files would be without.

    A writer without the table's lock, or with a wrong clock, may complete before a time that is already taken.
    """
    instants = [
        instant
        for instant in timeline.completed_commits
        if (instant.completion_time or "") < record.compaction and instant.request_time not in record.known
    ]
    if not instants:
        return {}, frozenset()
    operations = record.plan(f"the plan of compaction {record.compaction}").operations
    merged = {each.group: {*each.log_files, *ready.added.get(each.group, ())} for each in operations}
    late: dict[Group, list[str]] = {}
    with_columns: set[Group] = set()
    for instant in instants:
        path = path_of(instant)
        data = storage.get(path)
        columns = CommitMetadata.decode_schema(data, path) or record.schema
        grows = compare_schemas(json.loads(record.schema), json.loads(columns)).fit is not Fit.SAME
        for file in CommitMetadata.decode_files(data, path):
            group = (file.partition_path, file.file_id)
            is_log = isinstance(parse_data_file_name(file.name), LogFileName)
            if is_log and group in merged and file.name not in merged[group]:
                late.setdefault(group, []).append(file.name)
                with_columns |= {group} if grows else set()
    return {group: tuple(names) for group, names in late.items()}, frozenset(with_columns)


def wanted_decision(
    storage: Storage, timeline: Timeline, ready: Ready, compaction: str, now: datetime
) -> CommitDecision:
    """The commit of a round: without file groups that were replaced meanwhile, with the table's newest columns.

    Raises what reading the timeline raises.
    """
    replaced = ready.groups & replaced_file_groups(storage, timeline)
    schema = stored_schema(load_table(storage), timeline)
    assert schema is not None, "the plan had one"
    completion_time = next_instant_time(now, {*timeline.times, *archived_times(storage), compaction})
    if not replaced and schema_json(schema) == ready.schema:
        return CommitDecision(completion_time, ready.content)
    planned = CommitMetadata.decode(ready.content, f"the commit of compaction {compaction}").write_stats.values()
    stats = [each for each in chain.from_iterable(planned) if (each.partition_path or "", each.file_id) not in replaced]
    return CommitDecision(completion_time, compaction_commit(stats, schema, added_paths(ready.added)).encode())


def added_paths(added: Mapping[Group, tuple[str, ...]]) -> list[str]:
    """Paths of the log files that a round merges besides those of its plan, relative to the table's root."""
    return [join(partition_path, name) for (partition_path, _), names in added.items() for name in names]


def compaction_commit(stats: Iterable[WriteStat], schema: AvroSchema, added: Collection[str] = ()) -> CommitMetadata:
    """Content of the completed file. `schema`: the table's columns without meta columns. `added`: see `ADDED`."""
    write_stats: dict[str, list[WriteStat]] = {}
    for stat in stats:
        write_stats.setdefault(stat.partition_path or "", []).append(stat)
    extra = {SCHEMA_KEY: schema_json(schema), OURS: "1"} | ({ADDED: "\n".join(sorted(added))} if added else {})
    return CommitMetadata(write_stats, extra, _OPERATION_TYPE, compacted=True)
