"""What a compaction's own objects hold: the plan, its rounds, their results and their end, and how each is stored."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Self

from bucketingest.hudi.errors import InvalidTable
from bucketingest.hudi.plans.compaction_plan import CompactionPlan
from bucketingest.hudi.table.file_view import Group
from bucketingest.hudi.timeline.write_stat import WriteStat
from bucketingest.write.errors import NewerFormat

FORMAT_VERSION: Final = 2
"""Counts up whenever an older release would misread these objects. 2: the plan names the size of its chunks."""
_CHUNK_MAX: Final = 64
"""Ten thousand results would be too many objects to read in a second. Also the size of chunks in format 1."""
_MIB: Final = 1024**2
_CHUNKS: Final = 64
"""Chunks that a plan has if it has so many operations: executors share the work by chunks."""

OURS: Final = "bucketingest.services"
"""Key of a plan's and a commit's extra metadata: it is ours."""
ADDED: Final = "bucketingest.added"
"""Key of a commit's extra metadata: paths of the log files that it merged besides those of its plan, one a line. A
clean deletes a slice only if it knows that each of its log files was merged.
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


class End(StrEnum):
    """How a compaction ended."""

    COMPLETED = "completed"
    GONE = "gone"
    """Another writer took it off the timeline, as a restore does."""
    VOID = "void"
    """It never was on the timeline, or nobody may carry it out."""


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
    chunk: int = _CHUNK_MAX
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
        """One line of JSON, then the requested file."""
        header = {
            "version": FORMAT_VERSION,
            "chunk": self.chunk,
            "compaction": self.compaction,
            "schema": self.schema,
            "mergeVersion": self.merge_version,
            "known": sorted(self.known),
            "operations": self.operations,
            "size": self.size,
        }
        return json.dumps(header).encode() + b"\n" + self.content

    @classmethod
    def decode(cls, data: bytes, where: str) -> Self:
        """As `encode` made it. Raises NewerFormat, and InvalidTable for anything else."""
        header, _, content = data.partition(b"\n")
        record = _load(header, where)
        if record.get("version", 0) > FORMAT_VERSION:
            raise NewerFormat(
                f"{where} was written by a newer release of bucketingest: run table services with that one"
            )
        try:
            if "operations" not in record:  # an older release did not count
                plan = CompactionPlan.decode(content, where)
                record |= {"operations": len(plan.operations), "size": size_of(plan)}
            return cls(
                record["compaction"],
                record["schema"],
                record["mergeVersion"],
                frozenset(record["known"]),
                content,
                record["operations"],
                record["size"],
                record.get("chunk", _CHUNK_MAX),
            )
        except (KeyError, TypeError) as error:
            raise InvalidTable(f"{where} is not a compaction's plan: {error!r}") from error

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
    """File groups that keep their slices: an instant of their files was rolled back after the plan was made."""

    def encode(self) -> bytes:
        """As it is stored: JSON."""
        added = [[*group, list(names)] for group, names in sorted(self.added.items())]
        record = {"why": self.why, "rollbacks": sorted(self.rollbacks), "added": added}
        more = {"mergeVersion": self.merge_version, "leftOut": sorted(self.left_out)}
        return json.dumps(record | more).encode()

    @classmethod
    def decode(cls, data: bytes, where: str) -> Self:
        """As `encode` made it. Raises InvalidTable."""
        record = _load(data, where)
        try:
            added = {(path, file_id): tuple(names) for path, file_id, names in record["added"]}
            left_out = frozenset((path, file_id) for path, file_id in record.get("leftOut", ()))
            rollbacks = frozenset(record["rollbacks"])
            return cls(record["why"], rollbacks, added, record.get("mergeVersion", 1), left_out)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidTable(f"{where} is not a round of a compaction: {error!r}") from error


@dataclass(frozen=True, slots=True)
class OperationResult:
    """What became of one operation: the statistics of its base file, or why there is none."""

    stat: WriteStat | None
    failed: str | None = None


def encode_results(results: Sequence[OperationResult]) -> bytes:
    """The results of a chunk's operations, in their order."""
    records = [
        {"failed": result.failed} if result.stat is None else {"stat": result.stat.to_avro()} for result in results
    ]
    return json.dumps(records).encode()


def decode_results(data: bytes, where: str) -> tuple[OperationResult, ...]:
    """As `encode_results` made it. Raises InvalidTable."""
    records = _load(data, where)
    try:
        return tuple(
            OperationResult(WriteStat.from_avro(each["stat"]) if "stat" in each else None, each.get("failed"))
            for each in records
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidTable(f"{where} is not a result of a compaction: {error!r}") from error


@dataclass(frozen=True, slots=True)
class Decided:
    """The end of a round: the bytes of the completed file and its completion time, or closed."""

    completion_time: str | None
    """None: the round is closed, its base files are never committed."""
    content: bytes = b""

    def encode(self) -> bytes:
        """One line of JSON, then the completed file."""
        return json.dumps({"completionTime": self.completion_time}).encode() + b"\n" + self.content

    @classmethod
    def decode(cls, data: bytes, where: str) -> Self:
        """As `encode` made it. Raises InvalidTable."""
        header, _, content = data.partition(b"\n")
        record = _load(header, where)
        try:
            return cls(record["completionTime"], content)
        except (KeyError, TypeError) as error:
            raise InvalidTable(f"{where} is not the decision of a compaction: {error!r}") from error


def _load(data: bytes, where: str) -> Any:
    try:
        return json.loads(data)
    except ValueError as error:
        raise InvalidTable(f"{where} cannot be read: {error}") from error
