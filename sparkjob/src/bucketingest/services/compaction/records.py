"""What a compaction's own objects hold besides what all services have, the plan and its rounds; and the work that its
holder hands to others because it takes long. They are in `services/compaction/<n>/`:

go                          start: it was requested · void: nobody carries it out. One name, so it cannot be both
round/<r>/opened            why, and what is known then
round/<r>/claim/<k>/...     which executor works on the k-th chunk of operations: hints, see `services.pods.claims`
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Self

from bucketingest.hudi.plans.compaction_plan import CompactionPlan
from bucketingest.hudi.table.file_view import Group
from bucketingest.services.protocol.journal import ServiceJournal
from bucketingest.services.protocol.records import FORMAT_VERSION, End
from bucketingest.write.record_format import complete, decode, encode

_CHUNK_MAX: Final = 64
"""Ten thousand results would be too many objects to read in a second."""
_MIB: Final = 1024**2
_CHUNKS: Final = 64
"""Chunks that a plan has if it has so many operations: executors share the work by chunks."""

ADDED: Final = "bucketingest.added"
"""Key of a commit's extra metadata: paths of the log files that it merged besides those of its plan, or that completed
after its completion time, one a line. A clean deletes a slice only if it knows that each of its log files was merged.
"""


def size_of(plan: CompactionPlan) -> int:
    """Bytes of the base and log files that it merges, in whole MiB for each operation."""
    return int(sum(each.metrics.get("TOTAL_IO_READ_MB", 0.0) for each in plan.operations)) * _MIB


def chunk_size(operations: int) -> int:
    """Operations whose results are stored together, and that one executor claims together."""
    return min(max(-(-operations // _CHUNKS), 1), _CHUNK_MAX)


def round_token(number: int) -> str:
    """Write token in the names of the base files that a round makes: no name is used again in a later one."""
    return f"{number}-0-0"


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """A compaction that we planned. It is stored before the compaction is requested."""

    compaction: str
    """Its request time."""
    schema: str
    """Avro schema of the base files, as JSON, without meta columns: every executor writes this one."""
    merge_version: int
    known: frozenset[str]
    """Request times of the write instants that had completed when the log files were listed."""
    content: bytes
    """The requested file."""
    operations: int
    """How many it has: known without decoding it."""
    size: int
    """Bytes of the base and log files to merge, in whole MiB for each operation."""
    chunk: int
    """Operations of a chunk; the last one may have fewer."""

    @classmethod
    def of(cls, compaction: str, schema: str, merge_version: int, known: frozenset[str], plan: CompactionPlan) -> Self:
        """That of a new plan."""
        count = len(plan.operations)
        return cls(compaction, schema, merge_version, known, plan.encode(), count, size_of(plan), chunk_size(count))

    def chunks(self) -> list[range]:
        """The places of the operations of each chunk."""
        starts = range(0, self.operations, self.chunk)
        return [range(first, min(first + self.chunk, self.operations)) for first in starts]

    def groups(self) -> frozenset[Group]:
        """The file groups that it merges. Raises InvalidTable."""
        return frozenset(each.group for each in self.plan(f"the plan of compaction {self.compaction}").operations)

    def encode(self) -> bytes:
        """As it is stored, with the requested file."""
        fields = {
            "chunk": self.chunk,
            "compaction": self.compaction,
            "schema": self.schema,
            "mergeVersion": self.merge_version,
            "known": sorted(self.known),
            "operations": self.operations,
            "size": self.size,
        }
        return encode(FORMAT_VERSION, fields, self.content)

    @classmethod
    def decode(cls, data: bytes, where: str) -> Self:
        """As `encode` made it. Raises NewerFormat and InvalidTable."""
        record, content = decode(data, where, FORMAT_VERSION)
        with complete(where):
            return cls(
                record["compaction"],
                record["schema"],
                record["mergeVersion"],
                frozenset(record["known"]),
                content,
                record["operations"],
                record["size"],
                record["chunk"],
            )

    def plan(self, where: str) -> CompactionPlan:
        """What it merges. Raises InvalidTable."""
        return CompactionPlan.decode(self.content, where)


@dataclass(frozen=True, slots=True)
class Round:
    """One try to carry a compaction out. Its number is in the names of its base files, so that no name is used again
    after a rollback may have it in its plan.
    """

    why: str
    rollbacks: frozenset[str] = frozenset()
    """Request times of the rollbacks of the compaction that were known."""
    added: Mapping[Group, tuple[str, ...]] = field(default_factory=dict)
    """Log files that completed before the compaction and are not in its plan, by file group."""
    merge_version: int = 1
    """Of the release that opened it: its executors merge alike."""
    left_out: frozenset[Group] = frozenset()
    """File groups that keep their slices: since the plan, an instant of their files was rolled back, or completed with
    other columns than the plan's.
    """

    def encode(self) -> bytes:
        """As it is stored."""
        fields = {
            "why": self.why,
            "rollbacks": sorted(self.rollbacks),
            "added": [[*group, list(names)] for group, names in sorted(self.added.items())],
            "mergeVersion": self.merge_version,
            "leftOut": sorted(self.left_out),
        }
        return encode(FORMAT_VERSION, fields)

    @classmethod
    def decode(cls, data: bytes, where: str) -> Self:
        """As `encode` made it. Raises NewerFormat and InvalidTable."""
        record, _ = decode(data, where, FORMAT_VERSION)
        with complete(where):
            added = {(path, file_id): tuple(names) for path, file_id, names in record["added"]}
            left_out = frozenset((path, file_id) for path, file_id in record["leftOut"])
            return cls(record["why"], frozenset(record["rollbacks"]), added, record["mergeVersion"], left_out)


class Task(StrEnum):
    """What takes long."""

    MERGE = "merge"
    """Make the base files that are missing, then look."""
    LOOK = "look"
    """List the partitions, for the commit. Its result is a Ready."""
    SWEEP = "sweep"
    """List them again, after the end. Its result is a Swept."""


@dataclass(frozen=True, slots=True)
class Work:
    """What takes long, and what those who do it need to know."""

    compaction: str
    """Its request time."""
    number: int
    round_number: int
    task: Task = Task.MERGE


@dataclass(frozen=True, slots=True)
class Ended:
    """A compaction that ended."""

    compaction: str
    """Its request time."""
    end: End
    file_groups: int = 0
    """File groups that got a base file."""
    rows: int = 0
    """Rows of the base files."""
    failed: Mapping[Group, str] = field(default_factory=dict)
    """File groups that could not be merged, and why: they keep their slices."""


_START, _VOID = b"start", b"void"


class CompactionJournal(ServiceJournal[PlanRecord]):
    """Reads and writes the objects of a table's compactions, which may take several rounds."""

    SERVICE = "compaction"
    PLAN = PlanRecord

    def put_go(self, number: int, *, start: bool) -> bool:
        """Record whether the compaction may be carried out, unless that is recorded; returns what is."""
        return self._create(number, "go", _START if start else _VOID) == _START

    def go(self, number: int) -> bool | None:
        """Whether it may be carried out; None until that is recorded."""
        content = self._get(number, "go")
        return None if content is None else content == _START

    def open_round(self, number: int, round_number: int, opened: Round) -> Round:
        """Open a round, or read what another process opened under its number."""
        name = f"round/{round_number}/opened"
        return Round.decode(self._create(number, name, opened.encode()), self.path(number, name))

    def newest_round(self, number: int) -> tuple[int, Round | None]:
        """Number and content of the newest round; 0 and None before the first, and while the objects are deleted."""
        directories = self._storage.list_level(self.path(number, "round")).directories
        names = (path.rpartition("/")[2] for path in directories)
        newest = max((int(name) for name in names if name.isdecimal()), default=0)
        name = f"round/{newest}/opened"
        content = self._get(number, name) if newest else None
        return (0, None) if content is None else (newest, Round.decode(content, self.path(number, name)))
