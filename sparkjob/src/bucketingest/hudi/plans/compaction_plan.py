"""What a compaction will merge. A log file that completed before it and is not in its plan is lost with the slice that
the compaction supersedes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from bucketingest.hudi.timeline.instant import COMPACTION, Instant, State
from bucketingest.hudi.timeline.ocf import read_record, write_record
from bucketingest.hudi.timeline.timeline import path_of
from bucketingest.storage.errors import NotFound
from bucketingest.storage.interface import Storage

_SCHEMA_NAME: Final = "HoodieCompactionPlan"
_PLAN_VERSION: Final = 2
_MIB: Final = 1024**2
_BASE_FILE_BYTES: Final = 120 * _MIB
"""What Hudi 1.2.0 expects to write for a file group without a base file (FileSliceMetricUtils)."""


@dataclass(frozen=True, slots=True)
class CompactionOperation:
    """One file group of a plan (Hudi 1.2.0: HoodieCompactionOperation)."""

    partition_path: str
    file_id: str
    base_instant: str
    """Instant of the base file; without a base file, that of the slice's first log file."""
    base_file: str | None
    """Its name."""
    log_files: tuple[str, ...]
    """Names of the log files that are merged, in the order in which readers merge them."""
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def group(self) -> tuple[str, str]:
        """Partition path and file id."""
        return self.partition_path, self.file_id

    @property
    def supersedes_from(self) -> str:
        """Least completion time of a log file that the compaction supersedes: without a base file that of every log
        file, also of one that the planner did not see.
        """
        return self.base_instant if self.base_file else ""

    def loses(self, file: str, completion_time: str) -> bool:
        """Whether the compaction supersedes a log file of the group, or another one's base file, without merging it."""
        return self.supersedes_from <= completion_time and file not in self.log_files and file != self.base_file

    @classmethod
    def from_avro(cls, record: Mapping[str, Any]) -> Self:
        """The operation in any writer's record."""
        return cls(
            partition_path=record["partitionPath"] or "",
            file_id=record["fileId"],
            base_instant=record["baseInstantTime"] or "",
            base_file=record["dataFilePath"] or None,
            log_files=tuple(record["deltaFilePaths"] or ()),
            metrics=dict(record.get("metrics") or {}),
        )

    def to_avro(self) -> dict[str, Any]:
        """The HoodieCompactionOperation record."""
        return {
            "baseInstantTime": self.base_instant,
            "deltaFilePaths": list(self.log_files),
            "dataFilePath": self.base_file,
            "fileId": self.file_id,
            "partitionPath": self.partition_path,
            "metrics": dict(self.metrics),
            "bootstrapFilePath": None,
        }


def operation_metrics(base_bytes: int, log_bytes: Sequence[int]) -> dict[str, float]:
    """The five metrics by which Hudi 1.2.0 orders operations (FileSliceMetricUtils); its executor reads one of them."""
    read = (base_bytes + sum(log_bytes)) // _MIB
    written = (base_bytes or _BASE_FILE_BYTES) // _MIB
    return {
        "TOTAL_LOG_FILES": float(len(log_bytes)),
        "TOTAL_LOG_FILES_SIZE": float(sum(log_bytes)),
        "TOTAL_IO_READ_MB": float(read),
        "TOTAL_IO_WRITE_MB": float(written),
        "TOTAL_IO_MB": float(read + written),
    }


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """The content of a compaction's requested file."""

    operations: tuple[CompactionOperation, ...]
    left_out: tuple[str, ...] = ()
    """Partitions with log files that the plan does not merge. Hudi's next plan looks only at these and at partitions
    written since: one that is not listed is not compacted until it is written again (Hudi 1.2.0, seen).
    """
    extra: Mapping[str, str] = field(default_factory=dict)
    """The planner's own keys and values; Hudi does not read them."""

    def encode(self) -> bytes:
        """The bytes of the requested file. Equal plans give equal bytes."""
        record = {
            "operations": [operation.to_avro() for operation in self.operations],
            "extraMetadata": dict(self.extra),
            "version": _PLAN_VERSION,
            "strategy": None,
            "preserveHoodieMetadata": False,
            "missingSchedulePartitions": list(self.left_out),
        }
        return write_record(_SCHEMA_NAME, record)

    @classmethod
    def decode(cls, data: bytes, where: str) -> Self:
        """The plan of any writer; `where` names the file in the error. Raises `InvalidTable`."""
        record = read_record(data, where)
        operations: Iterable[Mapping[str, Any]] = record.get("operations") or ()
        left_out = record.get("missingSchedulePartitions") or ()
        extra = record.get("extraMetadata") or {}
        return cls(tuple(map(CompactionOperation.from_avro, operations)), tuple(left_out), dict(extra))


def read_compaction_plan(storage: Storage, request_time: str, action: str = COMPACTION) -> CompactionPlan | None:
    """The plan of a compaction, or of a log compaction; None if it is missing. The requested file holds it as long as
    the compaction is on the timeline. Raises `InvalidTable`.
    """
    path = path_of(Instant(request_time, action, State.REQUESTED))
    try:
        return CompactionPlan.decode(storage.get(path), path)
    except NotFound:
        return None
