"""What the table must be when all is over: every row by two readers, every offset in the files, the chain of ranges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from bucketingest.hudi.file_view import FileView, load_file_view
from bucketingest.hudi.log_reader import read_log
from bucketingest.hudi.naming import bucket_of_file_id
from bucketingest.hudi.rollback import rollbacks_of
from bucketingest.hudi.timeline import Timeline
from bucketingest.storage import Storage, open_storage
from soak.watch import Commit, TableWatch
from support.oracle.compare import diff_tables

KEY = ("id",)
_EXAMPLES = 5
Offset = tuple[int, int]
"""Kafka partition and offset."""


@dataclass(slots=True)
class Judgement:
    """What was found. Wrong things fail the soak, leftovers are told."""

    rows: int = 0
    commits: int = 0
    files: int = 0
    taken_back: int = 0
    """Completed instants that Hudi's writer rolled back, whose rows had to come again."""
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
    result = Judgement(rows=expected.num_rows, commits=len(watch.ours()))
    storage = open_storage(str(watch.table))
    timeline = Timeline.load(storage)
    view = load_file_view(storage, timeline)
    result.wrong += _chain(watch.ours(), ends)
    result.wrong += _offsets(storage, view, watch.commits(), result)
    result.wrong += _file_groups(view)
    result.wrong += _vanished(storage, timeline, watch, result)
    result.leftovers += _leftovers(storage, timeline, view)
    for name, read in readers.items():
        _compare(name, read, expected, result)
    return result


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


def _chain(commits: list[Commit], ends: dict[str, int]) -> Iterator[str]:
    """Each range begins where the one before ended, and the last one ends where the topic does."""
    position = dict.fromkeys(ends, 0)
    for commit in commits:
        for range_ in commit.ranges:
            start = {**dict.fromkeys(ends, 0), **_of_topic(range_["start"])}
            if start != position:
                yield f"instant {commit.instant.request_time} begins at {start}, but the one before ended at {position}"
            position = {**position, **_of_topic(range_["end"])}
    if position != ends:
        yield f"the last instant ends at {position}, the topic at {ends}"


def _offsets(storage: Storage, view: FileView, commits: list[Commit], result: Judgement) -> Iterator[str]:
    """Each offset at most once in all committed log files, and only in an instant whose ranges have it."""
    ranges = {commit.instant.request_time: commit.ranges for commit in commits}
    seen: dict[Offset, str] = {}
    found: Counter[str] = Counter()
    for file in (log for group in view.groups for slice_ in group.slices for log in slice_.log_files):
        result.files += 1
        for offset in _offsets_in(storage.get(file.path), file.path):
            if offset in seen:
                found["twice"] += 1
                if found["twice"] <= _EXAMPLES:
                    yield f"offset {offset} is in {seen[offset]} and in {file.path}"
            seen[offset] = file.path
            if not any(_has(range_, offset) for range_ in ranges.get(file.instant, ())):
                found["outside"] += 1
                if found["outside"] <= _EXAMPLES:
                    yield f"offset {offset} is in {file.path}, whose instant does not have it"
    for what, count in found.items():
        if count > _EXAMPLES:
            yield f"{count} offsets {what} in all"


def _offsets_in(data: bytes, path: str) -> Iterator[Offset]:
    for content in read_log(data, source=path):
        if content.rows is not None:
            columns = (content.rows[name].to_pylist() for name in ("kafka_partition", "kafka_offset"))
            yield from ((partition, offset) for partition, offset in zip(*columns, strict=True) if partition >= 0)


def _has(range_: dict[str, dict[str, dict[str, int]]], offset: Offset) -> bool:
    partition = str(offset[0])
    return _of_topic(range_["start"]).get(partition, 0) <= offset[1] < _of_topic(range_["end"]).get(partition, 0)


def _of_topic(position: dict[str, dict[str, int]] | None) -> dict[str, int]:
    return next(iter(position.values()), {}) if position else {}


def _vanished(storage: Storage, timeline: Timeline, watch: TableWatch, result: Judgement) -> Iterator[str]:
    """A completed instant stays as it is, unless a rollback says that somebody took it back."""
    for name in sorted(watch.vanished):
        if rollbacks_of(storage, timeline, name.partition("_")[0]):
            result.taken_back += 1
        else:
            yield f"completed instant {name} is gone, and no rollback says why"


def _file_groups(view: FileView) -> Iterator[str]:
    places = Counter((group.partition_path, bucket_of_file_id(group.file_id)) for group in view.groups if group.slices)
    for place, count in places.items():
        if count > 1:
            yield f"bucket {place[1]} of partition {place[0]} has {count} file groups"


def _leftovers(storage: Storage, timeline: Timeline, view: FileView) -> Iterator[str]:
    yield from (f"pending {instant.request_time} {instant.action}" for instant in timeline.pending)
    yield from (f"uncommitted {file.path}" for file in view.uncommitted)
    yield from (f"heartbeat {info.path}" for info in storage.list(".hoodie/.heartbeat"))
