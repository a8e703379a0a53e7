"""The names in a table with a completed, a failed and a live instant."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from bucketingest.hudi.naming import LogFileName, deterministic_file_id
from bucketingest.hudi.rollback.rollback import RollbackOptions
from bucketingest.hudi.timeline.instant_time import format_time
from bucketingest.storage.interface import Storage

START = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)
DONE, DONE_AT, FAILED, LIVE = (format_time(START + timedelta(seconds=n)) for n in range(4))
NOW = START + timedelta(minutes=1)
OPTIONS = RollbackOptions(clock=lambda: NOW)
DONE_FILE = f"us/{LogFileName(deterministic_file_id(1), DONE, 1)}"
FAILED_FILES = [
    f"us/{LogFileName(deterministic_file_id(1), FAILED, 1)}",
    f"us/{LogFileName(deterministic_file_id(1), FAILED, 2)}",
    f"eu/5/{LogFileName(deterministic_file_id(0), FAILED, 1)}",
]
LIVE_FILE = f"us/{LogFileName(deterministic_file_id(1), LIVE, 1)}"
StorageOf = Callable[[str], Storage]


def paths(storage: Storage) -> set[str]:
    return {info.path for info in storage.list("")}
