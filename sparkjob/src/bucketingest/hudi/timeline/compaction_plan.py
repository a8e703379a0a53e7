"""What a compaction will merge. A log file that completed before it and is not in its plan is lost with the slice that
the compaction supersedes.
"""

from __future__ import annotations

from dataclasses import dataclass

from bucketingest.hudi.timeline.instant import COMPACTION, Instant, State
from bucketingest.hudi.timeline.ocf import read_record
from bucketingest.hudi.timeline.timeline import path_of
from bucketingest.storage.errors import NotFound
from bucketingest.storage.interface import Storage


@dataclass(frozen=True, slots=True)
class CompactionOperation:
    """One file group of a plan (Hudi 1.2.0: HoodieCompactionOperation)."""

    base_instant: str
    """Instant of the base file; "" if there is no base file: then every log file that completed before belongs to it,
    also an older one that the planner did not see.
    """
    log_files: frozenset[str]
    """Names of the log files that are merged."""


def read_compaction_plan(storage: Storage, request_time: str) -> dict[tuple[str, str], CompactionOperation] | None:
    """(partition path, file id) -> operation; None if the plan is missing. The requested file holds it as long as the
    compaction is on the timeline. Raises `InvalidTable`.
    """
    path = path_of(Instant(request_time, COMPACTION, State.REQUESTED))
    try:
        record = read_record(storage.get(path), path)
    except NotFound:
        return None
    return {
        (operation["partitionPath"] or "", operation["fileId"]): CompactionOperation(
            operation["baseInstantTime"] if operation["dataFilePath"] else "",
            frozenset(operation["deltaFilePaths"] or ()),
        )
        for operation in record.get("operations") or ()
    }
