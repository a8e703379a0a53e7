"""What a clean deletes and what it deleted. Hudi's next clean goes on from the earliest instant that the newest one
retains, whoever made it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from bucketingest.hudi.errors import InvalidTable
from bucketingest.hudi.naming import join, parse_data_file_name, split
from bucketingest.hudi.timeline.instant import CLEAN, SAVEPOINT, Instant, State
from bucketingest.hudi.timeline.ocf import read_record, write_record
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.storage.errors import NotFound
from bucketingest.storage.interface import Storage

BY_HOURS: Final = "KEEP_LATEST_BY_HOURS"
BY_VERSIONS: Final = "KEEP_LATEST_FILE_VERSIONS"
"""Policies of Hudi 1.2.0 (HoodieCleaningPolicy)."""
SAVEPOINTS: Final = "savepointed_timestamps"
"""Key of the extra metadata with the savepoints that the planner knew, comma-separated (Hudi 1.2.0: CleanerUtils). When
one of them is gone, Hudi's next clean looks at its partitions again.
"""
_PLAN_SCHEMA: Final = "HoodieCleanerPlan"
_METADATA_SCHEMA: Final = "HoodieCleanMetadata"
_VERSION: Final = 2
"""Of plan and metadata: paths are absolute in the plan, names in the metadata."""


@dataclass(frozen=True, slots=True)
class Earliest:
    """The completed write from which on all is retained (Hudi 1.2.0: HoodieActionInstant)."""

    request_time: str
    action: str


@dataclass(frozen=True, slots=True)
class CleanPlan:
    """The content of a clean's requested file."""

    files: Mapping[str, tuple[str, ...]]
    """Partition path -> names of the files to delete, in this order."""
    earliest: Earliest | None
    """None if the policy is by versions, or if the plan is only a part: then Hudi's next clean looks at every
    partition.
    """
    last_completed: str
    """Request time of the newest completed write; "" if there is none. Hudi counts the writes since then."""
    policy: str = BY_HOURS
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    partitions: tuple[str, ...] = ()
    """Partitions that are deleted as a whole, whatever is in them then. Only in the plans of other writers."""
    external_files: int = 0
    """Files outside the table, of a bootstrap: they are in Hudi's plans only, and not in `files`."""

    @property
    def paths(self) -> Iterator[str]:
        """The files, relative to the table's root, by partition path."""
        return (
            join(partition_path, name) for partition_path in sorted(self.files) for name in self.files[partition_path]
        )

    @property
    def groups(self) -> frozenset[tuple[str, str]]:
        """(partition path, file id) of the file groups that lose files."""
        named = ((split(path)[0], parse_data_file_name(split(path)[1])) for path in self.paths)
        return frozenset((partition_path, name.file_id) for partition_path, name in named if name is not None)

    @property
    def savepoints(self) -> frozenset[str]:
        """The savepoints that the planner knew."""
        return frozenset(filter(None, self.extra_metadata.get(SAVEPOINTS, "").split(",")))

    def encode(self, absolute: Callable[[str], str]) -> bytes:
        """The bytes of `<time>.clean.requested`; `absolute` makes paths absolute. Equal plans give equal bytes.

        It never names partitions to delete: another writer may just be filling one.
        """
        record: dict[str, Any] = {
            "earliestInstantToRetain": _earliest_to_avro(self.earliest),
            "lastCompletedCommitTimestamp": self.last_completed,
            "policy": self.policy,
            "filesToBeDeletedPerPartition": {},
            "version": _VERSION,
            "filePathsToBeDeletedPerPartition": {
                partition_path: [
                    {"filePath": absolute(join(partition_path, name)), "isBootstrapBaseFile": False}
                    for name in self.files[partition_path]
                ]
                for partition_path in sorted(self.files)
            },
            "partitionsToBeDeleted": [],
            "extraMetadata": {key: self.extra_metadata[key] for key in sorted(self.extra_metadata)},
        }
        return write_record(_PLAN_SCHEMA, record)

    @classmethod
    def decode(cls, data: bytes, where: str) -> Self:
        """The plan of any writer; `where` names the file in the error.

        Raises `InvalidTable`, also for a plan of version 1, which tables of versions 8 and 9 do not have.
        """
        record = read_record(data, where)
        if record.get("filesToBeDeletedPerPartition"):
            raise InvalidTable(f"{where} is a plan of an old version: let the writer that made it finish it")
        files: dict[str, tuple[str, ...]] = {}
        external = 0
        for partition_path, found in (record.get("filePathsToBeDeletedPerPartition") or {}).items():
            own = [each["filePath"] for each in found if not each.get("isBootstrapBaseFile")]
            external += len(found) - len(own)
            # Absolute paths have a scheme and authority only if their writer opened the table with them.
            files[partition_path] = tuple(path.rpartition("/")[2] for path in own)
        return cls(
            files,
            _earliest_of(record.get("earliestInstantToRetain")),
            record.get("lastCompletedCommitTimestamp") or "",
            record["policy"],
            dict(record.get("extraMetadata") or {}),
            tuple(record.get("partitionsToBeDeleted") or ()),
            external,
        )


@dataclass(frozen=True, slots=True)
class CleanMetadata:
    """The content of a clean's completed file."""

    request_time: str
    files: Mapping[str, tuple[str, ...]]
    """Partition path -> names of the deleted files."""
    earliest: str
    """Request time of the earliest retained write; "" if the plan has none."""
    last_completed: str
    policy: str = BY_HOURS
    time_taken_ms: int = 0
    extra_metadata: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: CleanPlan, request_time: str, time_taken_ms: int) -> Self:
        """That all of the plan was done: a file that was absent already counts as deleted."""
        return cls(
            request_time,
            plan.files,
            "" if plan.earliest is None else plan.earliest.request_time,
            plan.last_completed,
            plan.policy,
            time_taken_ms,
            plan.extra_metadata,
        )

    def encode(self) -> bytes:
        """The bytes of `<time>_<completion>.clean`. Equal metadata gives equal bytes."""
        record = {
            "startCleanTime": self.request_time,
            "timeTakenInMillis": self.time_taken_ms,
            "totalFilesDeleted": sum(map(len, self.files.values())),
            "earliestCommitToRetain": self.earliest,
            "lastCompletedCommitTimestamp": self.last_completed,
            "partitionMetadata": {
                partition_path: {
                    "partitionPath": partition_path,
                    "policy": self.policy,
                    "deletePathPatterns": list(self.files[partition_path]),
                    "successDeleteFiles": list(self.files[partition_path]),
                    "failedDeleteFiles": [],
                    "isPartitionDeleted": False,
                }
                for partition_path in sorted(self.files)
            },
            "version": _VERSION,
            "bootstrapPartitionMetadata": {},
            "extraMetadata": {key: self.extra_metadata[key] for key in sorted(self.extra_metadata)},
        }
        return write_record(_METADATA_SCHEMA, record)

    @classmethod
    def decode(cls, data: bytes, where: str) -> Self:
        """The metadata of any writer; `where` names the file in the error. Raises `InvalidTable`."""
        record = read_record(data, where)
        partitions: Mapping[str, Mapping[str, Any]] = record.get("partitionMetadata") or {}
        return cls(
            record["startCleanTime"],
            {partition_path: tuple(each["successDeleteFiles"]) for partition_path, each in partitions.items()},
            record["earliestCommitToRetain"],
            record.get("lastCompletedCommitTimestamp") or "",
            next((each["policy"] for each in partitions.values()), BY_HOURS),
            record["timeTakenInMillis"],
            dict(record.get("extraMetadata") or {}),
        )


def read_clean_plan(storage: Storage, request_time: str) -> CleanPlan | None:
    """The plan of a clean; None if it is missing. The requested file holds it as long as the clean is on the timeline.

    Raises `InvalidTable`, also if the file is empty.
    """
    path = path_of(Instant(request_time, CLEAN, State.REQUESTED))
    try:
        return CleanPlan.decode(storage.get(path), f"{storage.url}/{path}")
    except NotFound:
        return None


def _earliest_to_avro(earliest: Earliest | None) -> dict[str, str] | None:
    if earliest is None:
        return None
    return {"timestamp": earliest.request_time, "action": earliest.action, "state": State.COMPLETED.value}


def _earliest_of(record: Mapping[str, str] | None) -> Earliest | None:
    return None if record is None else Earliest(record["timestamp"], record["action"])


def savepointed_files(storage: Storage, timeline: Timeline) -> dict[str, frozenset[str]]:
    """Request time of each completed savepoint -> the files that it keeps, relative to the table's root.

    Opens a file per savepoint. Raises `InvalidTable`, and `NotFound` if one was deleted since the timeline was loaded.
    """
    return {
        instant.request_time: files_of_savepoint(storage, instant)
        for instant in timeline.completed
        if instant.action == SAVEPOINT
    }


def files_of_savepoint(storage: Storage, savepoint: Instant) -> frozenset[str]:
    """The files that a completed savepoint keeps (Hudi 1.2.0: HoodieSavepointMetadata, names by partition)."""
    path = path_of(savepoint)
    record = read_record(storage.get(path), path)
    return frozenset(
        join(partition_path, name)
        for partition_path, each in (record.get("partitionMetadata") or {}).items()
        for name in each["savepointDataFile"]
    )
