"""Which file groups a compaction merges now: those whose log files make reads slow, or base files old. Pure.

Reads pay for log files by their bytes, and for opening each of them; a compaction pays for the base file that it
writes, and for its own files. So a file group of a few MiB is merged after a few log files, and a large one after many.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Self

from bucketingest.hudi.plans.compaction_plan import CompactionOperation, CompactionPlan, operation_metrics
from bucketingest.hudi.table.file_view import FileGroup, FileSlice, FileView, Group
from bucketingest.hudi.timeline.instant_time import parse_time
from bucketingest.spec.fields.runtime import Slo
from bucketingest.spec.fields.services import Services

_MIB: Final = 1024**2
OPEN_BYTES: Final = _MIB
"""What it costs a reader to open a log file, in bytes that it could merge meanwhile."""
MERGE_BYTES: Final = 8 * _MIB
"""What a compaction of one more file group costs apart from its base file, in bytes that it could write meanwhile. It
keeps tiny file groups from being merged after each commit.
"""


@dataclass(frozen=True, slots=True)
class CompactionTriggers:
    """What makes a file slice due: one of these is enough."""

    log_files: int | None = 50
    """Log files of the slice: a snapshot read opens them all. None: any number."""
    log_ratio: float | None = 0.5
    """Cost of reading the log files against that of writing the base file. At 0.5 each log file makes compactions
    write at most twice its own bytes and `OPEN_BYTES`, whatever the size of the base file. None: any cost.
    """
    log_age: timedelta = timedelta(hours=1)
    """Age of the oldest log file: a read-optimized read is at most so far behind."""

    @classmethod
    def of(cls, services: Services, slo: Slo) -> Self:
        """Those of a resource. A promise to readers of base files is kept by age alone: no other reason writes the same
        base file twice meanwhile.
        """
        compaction = services.compaction
        age = slo.log_age(compaction.log_age)
        if slo.read_optimized_freshness is not None:
            return cls(None, None, age)
        return cls(compaction.log_files, compaction.log_percent / 100, age)


@dataclass(frozen=True, slots=True)
class Due:
    """A file group that is due, and why."""

    operation: CompactionOperation
    why: str
    age: timedelta
    """Of its oldest log file."""
    size: int
    """Bytes of its base file."""


def due_groups(
    view: FileView, busy: Collection[Group], triggers: CompactionTriggers, now: datetime
) -> tuple[list[Due], frozenset[Group]]:
    """The groups to merge, and the groups with log files that are left out. First come those with the oldest log files;
    of these the smallest, so that most are done soon.

    `busy`: groups that are replaced or in a pending table service. A second pending operation of a group would make
    every reader of Hudi's fail (1.2.0: AbstractTableFileSystemView).
    """
    due: list[Due] = []
    left_out: set[Group] = set()
    for group in view.groups:
        latest = group.latest
        if latest is None or not latest.log_files:
            continue
        place = (group.partition_path, group.file_id)
        age = now - min(parse_time(log.instant) for log in latest.log_files)
        why = None if place in busy else _why(latest, age, triggers)
        if why is None:
            left_out.add(place)
        else:
            size = 0 if latest.base_file is None else latest.base_file.size
            due.append(Due(_operation(group, latest), why, age, size))
    due.sort(key=lambda each: (-each.age, each.size, each.operation.group))
    return due, frozenset(left_out)


def look_after(
    oldest_at: datetime | None, triggers: CompactionTriggers, now: datetime, longest: timedelta
) -> timedelta:
    """Time to the next look at the table: when the oldest log file, of this time, is due; at most `longest`.

    A file group that may not be merged now is not looked for all the time: a ninth of `log_age` at least.
    """
    shortest = min(longest, triggers.log_age / 9)
    due_in = longest if oldest_at is None else oldest_at + triggers.log_age - now
    return min(max(due_in, shortest), longest)


def plan_of(
    chosen: Iterable[Due], left_out: Collection[Group], extra: Mapping[str, str] | None = None
) -> CompactionPlan:
    """The plan that merges the chosen groups."""
    operations = tuple(each.operation for each in chosen)
    return CompactionPlan(operations, tuple(sorted({partition_path for partition_path, _ in left_out})), extra or {})


def _why(latest: FileSlice, age: timedelta, triggers: CompactionTriggers) -> str | None:
    return next(_reasons(latest, age, triggers), None)


def _reasons(latest: FileSlice, age: timedelta, triggers: CompactionTriggers) -> Iterator[str]:
    if age >= triggers.log_age:
        yield f"its oldest log file is {age} old"
    if triggers.log_files is not None and len(latest.log_files) >= triggers.log_files:
        yield f"it has {len(latest.log_files)} log files"
    log_bytes = sum(log.size for log in latest.log_files)
    base_bytes = 0 if latest.base_file is None else latest.base_file.size
    read = log_bytes + OPEN_BYTES * len(latest.log_files)
    if triggers.log_ratio is not None and read >= triggers.log_ratio * (base_bytes + MERGE_BYTES):
        yield f"its {len(latest.log_files)} log files have {log_bytes} bytes, its base file {base_bytes}"


def _operation(group: FileGroup, latest: FileSlice) -> CompactionOperation:
    base = latest.base_file
    return CompactionOperation(
        partition_path=group.partition_path,
        file_id=group.file_id,
        base_instant=latest.base_instant,
        base_file=None if base is None else str(base.name),
        log_files=tuple(str(log.name) for log in latest.log_files),
        metrics=operation_metrics(0 if base is None else base.size, [log.size for log in latest.log_files]),
    )
