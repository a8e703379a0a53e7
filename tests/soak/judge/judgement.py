"""What the table must be when all is over: every row by two readers, every offset in the files, the chain of ranges.

Compacted, cleaned and archived by Hudi as it may be: what a snapshot reads of a file group is its latest slice, a base
file and the log files on top. Older slices hold the same rows once more, until they are cleaned.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq

from bucketingest.hudi.log.reader import read_log
from bucketingest.hudi.naming import BaseFileName, bucket_of_file_id
from bucketingest.hudi.rollback.rollback import rollbacks_of
from bucketingest.hudi.table.file_view import DataFile, FileSlice, FileView, build_file_view, list_data
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.storage import Storage, open_storage
from soak.judge.history import archived, archived_rollback_targets, with_history
from soak.judge.watch import Commit, TableWatch
from support.oracle.compare import diff_tables

KEY = ("id",)
_EXAMPLES = 5
_OFFSET = ("kafka_partition", "kafka_offset")
Offset = tuple[int, int]
"""Kafka partition and offset."""


@dataclass(slots=True)
class Judgement:
    """What was found. Wrong things fail the soak, leftovers are reported."""

    rows: int = 0
    commits: int = 0
    archived: int = 0
    """Deltacommits that Hudi moved into the history."""
    files: int = 0
    """Log files in latest slices."""
    bases: int = 0
    """Base files in latest slices."""
    taken_back: int = 0
    """Completed instants that Hudi's writer rolled back, whose rows had to come again."""
    overtaken: int = 0
    """Completed instants that a compaction of Hudi's left out, whose rows had to come again."""
    lost: int = 0
    doubled_or_phantom: int = 0
    different: int = 0
    wrong: list[str] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)


def judge(
    watch: TableWatch, expected: pa.Table, ends: dict[str, int], readers: Mapping[str, Callable[[], pa.Table]]
) -> Judgement:
    """Judge a table that nobody writes to any more.

    `ends`: next offset of each topic partition; `readers`: what reads the table, by name.
    """
    watch.read_history()
    result = Judgement(rows=expected.num_rows, commits=len(watch.ours()), archived=watch.archived)
    storage = open_storage(str(watch.table))
    active, history = Timeline.load(storage), archived(storage)
    timeline = with_history(active, history)
    view = build_file_view(list_data(storage), timeline)
    targets = archived_rollback_targets(history)
    rolled_back, vanished = _explained(storage, active, targets, watch)
    result.taken_back = len(rolled_back)
    result.wrong += (f"{commit} is gone, and neither the history nor a rollback says why" for commit in vanished)
    result.overtaken = len(watch.overtaken())
    result.wrong += _chain(watch.ours(), [*rolled_back, *watch.overtaken()], ends)
    result.wrong += _offsets(storage, view, watch.commits(), expected, result)
    result.wrong += _file_groups(view)
    result.wrong += _phantoms(active, timeline, view)
    result.leftovers += _leftovers(storage, active, view)
    for name, read in readers.items():
        _compare(name, read, expected, result)
    return result


def with_later(first: Judgement, again: Judgement, when: str) -> Judgement:
    """The first judgement, and what was found wrong later."""
    first.wrong += [f"{when}: {wrong}" for wrong in again.wrong if wrong not in first.wrong]
    first.lost = max(first.lost, again.lost)
    first.doubled_or_phantom = max(first.doubled_or_phantom, again.doubled_or_phantom)
    first.different = max(first.different, again.different)
    return first


def _compare(reader: str, read: Callable[[], pa.Table], expected: pa.Table, result: Judgement) -> None:
    try:
        diff = diff_tables(read(), expected, KEY)
    except Exception as error:  # noqa: BLE001 - a reader that fails is a finding; the other one is still asked
        result.wrong.append(f"{reader} cannot read the table: {error}")
        return
    lost, extra, different = diff.counts
    result.lost = max(result.lost, lost)
    result.doubled_or_phantom = max(result.doubled_or_phantom, extra)
    result.different = max(result.different, different)
    if not diff.same:
        result.wrong.append(f"{reader} sees another table:\n{diff}")


def _explained(
    storage: Storage, active: Timeline, archived_targets: frozenset[str], watch: TableWatch
) -> tuple[list[Commit], list[Commit]]:
    """Completed instants that are neither on the timeline nor in the history: those rolled back, and the others."""
    rolled_back: list[Commit] = []
    others: list[Commit] = []
    for commit in watch.gone():
        time = commit.instant.request_time
        named = time in archived_targets or rollbacks_of(storage, active, time)
        (rolled_back if named else others).append(commit)
    return rolled_back, others


def _chain(commits: list[Commit], lost: list[Commit], ends: dict[str, int]) -> Iterator[str]:
    """Each range begins where the one before ended, and the last one ends where the topic does. Where a completed
    instant was rolled back or overtaken there may be a hole, until all that follows it comes again, once.
    """
    nothing = dict.fromkeys(ends, 0)
    holes = [{**nothing, **_of_topic(range_["start"])} for commit in lost for range_ in commit.ranges]
    again = list(holes)
    position = nothing
    covered: defaultdict[str, set[int]] = defaultdict(set)
    for commit in commits:
        for range_ in commit.ranges:
            start = {**nothing, **_of_topic(range_["start"])}
            if start != position and start in again:
                again.remove(start)
            elif start != position and position not in holes:
                yield f"instant {commit.instant.request_time} begins at {start}, but the one before ended at {position}"
            position = {**position, **_of_topic(range_["end"])}
            for partition, end in position.items():
                covered[partition].update(range(start.get(partition, 0), end))
    if position != ends:
        yield f"the last instant ends at {position}, the topic at {ends}"
    for partition, end in ends.items():
        if holes and (left := set(range(end)) - covered[partition]):
            yield f"{len(left)} offsets of partition {partition} never came again, the first is {min(left)}"


def _offsets(
    storage: Storage, view: FileView, commits: list[Commit], expected: pa.Table, result: Judgement
) -> Iterator[str]:
    """In all latest slices: each offset only from instants whose ranges have it, from each at most once; and each that
    the table must show. (Ranges overlap only where the chain may go back.)
    """
    ranges = {commit.instant.request_time: commit.ranges for commit in commits}
    seen: dict[tuple[Offset, str], str] = {}
    found: defaultdict[str, list[str]] = defaultdict(list)
    for slice_ in (group.latest for group in view.groups if group.latest is not None):
        result.files += len(slice_.log_files)
        result.bases += slice_.base_file is not None
        for offset, instant, path in _offsets_in(storage, slice_):
            if (offset, instant) in seen:
                found["twice"].append(f"offset {offset} is in {seen[offset, instant]} and in {path}")
            seen[offset, instant] = path
            if not any(_has(range_, offset) for range_ in ranges.get(instant, ())):
                found["outside"].append(f"offset {offset} is in {path}, but instant {instant} does not have it")
    there = {offset for offset, _ in seen}
    for offset in sorted(offset for offset in _offsets_of(expected) if offset[0] >= 0 and offset not in there):
        found["missing"].append(f"offset {offset} is in no latest slice")
    for what, messages in found.items():
        yield from messages[:_EXAMPLES]
        if len(messages) > _EXAMPLES:
            yield f"{len(messages)} offsets {what} in all"


def _offsets_in(storage: Storage, slice_: FileSlice) -> Iterator[tuple[Offset, str, str]]:
    """Each offset with the instant that wrote its row and the file that has it."""
    for file in (*_base_of(slice_), *slice_.log_files):
        for rows in _rows_in(storage.get(file.path), file):
            instants = rows["_hoodie_commit_time"].to_pylist()
            for offset, instant in zip(_offsets_of(rows), instants, strict=True):
                if offset[0] >= 0:
                    yield offset, instant, file.path


def _base_of(slice_: FileSlice) -> Sequence[DataFile]:
    return () if slice_.base_file is None else (slice_.base_file,)


def _rows_in(data: bytes, file: DataFile) -> Iterator[pa.Table]:
    if isinstance(file.name, BaseFileName):
        yield pq.read_table(pa.BufferReader(data), columns=["_hoodie_commit_time", *_OFFSET])
        return
    for content in read_log(data, source=file.path):
        if content.rows is not None:
            yield content.rows


def _offsets_of(rows: pa.Table) -> Iterator[Offset]:
    return zip(*(rows[name].to_pylist() for name in _OFFSET), strict=True)


def _has(range_: dict[str, dict[str, dict[str, int]]], offset: Offset) -> bool:
    partition = str(offset[0])
    return _of_topic(range_["start"]).get(partition, 0) <= offset[1] < _of_topic(range_["end"]).get(partition, 0)


def _of_topic(position: dict[str, dict[str, int]] | None) -> dict[str, int]:
    return next(iter(position.values()), {}) if position else {}


def _phantoms(active: Timeline, timeline: Timeline, view: FileView) -> Iterator[str]:
    """To readers, everything older than the active timeline is archived, so completed."""
    for group in view.groups:
        logs_and_bases = ((*_base_of(slice_), *slice_.log_files) for slice_ in group.slices)
        for file in chain(group.uncommitted, *logs_and_bases):
            if active.is_committed(file.instant) and timeline.completion_time(file.instant) is None:
                yield f"{file.path} is of no completed instant, but readers take it for one of an archived instant"


def _file_groups(view: FileView) -> Iterator[str]:
    places = Counter((group.partition_path, bucket_of_file_id(group.file_id)) for group in view.groups if group.slices)
    for place, count in places.items():
        if count > 1:
            yield f"bucket {place[1]} of partition {place[0]} has {count} file groups"


def _leftovers(storage: Storage, timeline: Timeline, view: FileView) -> Iterator[str]:
    yield from (f"pending {instant.request_time} {instant.action}" for instant in timeline.pending)
    yield from (f"uncommitted {file.path}" for file in view.uncommitted)
    yield from (f"heartbeat {info.path}" for info in storage.list(".hoodie/.heartbeat"))
