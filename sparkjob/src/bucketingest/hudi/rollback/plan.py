"""What a rollback decides and records: which files are deleted, and how plan and result are written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from bucketingest.hudi.errors import RollbackError
from bucketingest.hudi.naming import join, parse_data_file_name
from bucketingest.hudi.timeline.instant import DELTA_COMMIT, Instant
from bucketingest.hudi.timeline.ocf import read_record, write_record

PLAN_SCHEMA = "HoodieRollbackPlan"
METADATA_SCHEMA = "HoodieRollbackMetadata"


@dataclass(frozen=True, slots=True, order=True)
class RollbackFile:
    """One file to delete; `path` is relative to the table's root."""

    partition_path: str
    file_id: str
    path: str


@dataclass(frozen=True, slots=True)
class RollbackPlan:
    """Content of the requested file of a rollback instant: roll back `instant_time` by deleting `files`."""

    instant_time: str
    action: str
    files: tuple[RollbackFile, ...]

    def encode(self, absolute: Callable[[str], str]) -> bytes:
        """The bytes of `<time>.rollback.requested`, as Hudi 1.2.0 accepts them; `absolute` makes paths absolute."""
        requests = [
            {
                "partitionPath": file.partition_path,
                "fileId": file.file_id,
                "latestBaseInstant": self.instant_time,
                "filesToBeDeleted": [absolute(file.path)],
                "logBlocksToBeDeleted": {},
            }
            for file in self.files
        ]
        record = {
            "instantToRollback": {"commitTime": self.instant_time, "action": self.action},
            "RollbackRequests": requests,
            "version": 1,
        }
        return write_record(PLAN_SCHEMA, record)

    @classmethod
    def decode(cls, data: bytes, where: str) -> Self:
        """The plan in the bytes of a requested file, our own or Hudi's. Raises `InvalidTable`, `RollbackError`."""
        record = read_record(data, where)
        target = record.get("instantToRollback") or {}
        files: list[RollbackFile] = []
        for request in record.get("RollbackRequests") or ():
            if request.get("logBlocksToBeDeleted"):
                raise RollbackError(
                    f"{where} asks to append rollback blocks to log files, which table versions 8 and 9 do not have: "
                    "let the writer that made the plan finish it"
                )
            files.extend(_files_of_request(request))
        return cls(target.get("commitTime", ""), target.get("action", ""), tuple(files))


def _files_of_request(request: Mapping[str, Any]) -> Iterable[RollbackFile]:
    # Absolute paths have a scheme and authority only if their writer opened the table with them; the partition path and
    # the last segment are the same in both cases.
    partition_path = request["partitionPath"]
    for path in request["filesToBeDeleted"]:
        name = path.rpartition("/")[2]
        yield RollbackFile(partition_path, request.get("fileId") or "", join(partition_path, name))


@dataclass(frozen=True, slots=True)
class RollbackMetadata:
    """Content of the completed file of a rollback instant: what was `done`."""

    rollback_time: str
    done: RollbackPlan
    time_taken_ms: int = 0

    def encode(self, absolute: Callable[[str], str]) -> bytes:
        """The bytes of `<time>_<completion>.rollback`; `absolute` makes paths absolute."""
        by_partition: defaultdict[str, list[str]] = defaultdict(list)
        for file in self.done.files:
            by_partition[file.partition_path].append(absolute(file.path))
        partitions = {
            partition_path: {
                "partitionPath": partition_path,
                "successDeleteFiles": paths,
                "failedDeleteFiles": [],
                "rollbackLogFiles": {},
                "logFilesFromFailedCommit": {},
            }
            for partition_path, paths in by_partition.items()
        }
        record = {
            "startRollbackTime": self.rollback_time,
            "timeTakenInMillis": self.time_taken_ms,
            "totalFilesDeleted": len(self.done.files),
            "commitsRollback": [self.done.instant_time],
            "partitionMetadata": partitions,
            "version": 1,
            "instantsRollback": [{"commitTime": self.done.instant_time, "action": self.done.action}],
        }
        return write_record(METADATA_SCHEMA, record)


def rolled_back_instants(data: bytes, where: str) -> tuple[str, ...]:
    """Request times of the instants that a completed rollback's file names. Raises `InvalidTable`."""
    return tuple(read_record(data, where).get("commitsRollback") or ())


def refuse_unless_pending_deltacommit(instant: Instant) -> None:
    """Raise `RollbackError` for an instant that must not be rolled back: completed, or a table service."""
    if instant.is_completed:
        raise RollbackError(
            f"instant {instant.request_time} {instant.action} is completed (at {instant.completion_time}): readers "
            "have seen its rows, so it is never rolled back"
        )
    if instant.action != DELTA_COMMIT:
        raise RollbackError(
            f"instant {instant.request_time} is a {instant.action}: only deltacommits are rolled back here; leave it "
            "to the table service that started it"
        )


def files_of_instant(listed: Iterable[str], known_files: Iterable[str], instant_time: str) -> list[RollbackFile]:
    """Files of one instant: the listed ones with its time in their names, and the known ones, listed or not. Pure.

    In table versions 8 and 9 each log and base file has the request time of its instant in its name. Raises
    `RollbackError` for a known file with another instant's time: deleting it would delete committed rows.
    """
    known = frozenset(known_files)
    paths = known.union(listed)
    files = []
    for path in sorted(paths):
        partition_path, _, base_name = path.rpartition("/")
        name = parse_data_file_name(base_name)
        if name is not None and name.instant == instant_time:
            files.append(RollbackFile(partition_path, name.file_id, path))
        elif path in known:
            raise RollbackError(f"{path} is not a data file of instant {instant_time}: it is not deleted")
    return files
