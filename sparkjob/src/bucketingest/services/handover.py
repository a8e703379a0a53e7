"""Makes a table ready for Hudi's writers with an index that looks into base files only: SIMPLE, Spark's default, and
BLOOM (Hudi 1.2.0: `canIndexLogFiles` is false). To them a key that is only in a log file is new, and becomes a second
row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import pyarrow.compute as pc

from bucketingest.hudi.plans.replaced import replaced_file_groups
from bucketingest.hudi.table.file_view import Group, load_file_view
from bucketingest.hudi.timeline.instant import CLUSTERING, COMPACTION, LOG_COMPACTION, REPLACE_COMMIT
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.index.state.key_columns import keys_in_logs_only
from bucketingest.services.compact_now import compact_now
from bucketingest.services.compaction.choose import CompactionTriggers
from bucketingest.services.compaction.holder import CompactionHolder
from bucketingest.services.compaction.records import Ended
from bucketingest.services.errors import NotHandedOver
from bucketingest.storage import Storage

_EVERYTHING: Final = CompactionTriggers(log_files=1, log_age=timedelta(0))
_IN_THE_WAY: Final = (COMPACTION, LOG_COMPACTION, CLUSTERING, REPLACE_COMMIT)
_ROUNDS_MAX: Final = 100
"""Compactions: each has at most `OPERATIONS_MAX` file groups."""


@dataclass(frozen=True, slots=True)
class LogOnly:
    """A file group with keys that its base file lacks."""

    partition_path: str
    file_id: str
    keys: int
    sample: str

    @property
    def group(self) -> Group:
        """Partition path and file id."""
        return self.partition_path, self.file_id

    def __str__(self) -> str:
        return (
            f"{self.keys} keys of file group {self.file_id} of partition {self.partition_path!r}, such as {self.sample}"
        )


def refuse_same_ids(storage: Storage) -> None:
    """Raises NotHandedOver if two partitions have a file group of one id, as those of bucketingest's buckets have.

    Hudi 1.2.0's writers without a bucket index tell file groups apart by the id alone (UpsertPartitioner), and fail:
    "mismatched partition path".
    """
    timeline = Timeline.load(storage)
    replaced = replaced_file_groups(storage, timeline)
    seen: dict[str, str] = {}
    for group in load_file_view(storage, timeline).groups:
        if (group.partition_path, group.file_id) in replaced:
            continue
        other = seen.setdefault(group.file_id, group.partition_path)
        if other != group.partition_path:
            raise NotHandedOver(
                f"{storage.url}: file group {group.file_id} is in the partitions {other!r} and "
                f"{group.partition_path!r}: Hudi's writers with a SIMPLE or BLOOM index take both for one, and fail. "
                "Go on with a bucket index, or write a new table"
            )


def log_only_groups(storage: Storage) -> list[LogOnly]:
    """File groups with keys that are in log files and not in the base file, also keys that were deleted afterwards.

    Reads the key columns of file slices that have log files; holds the log files' keys of one slice at a time. Raises
    what reading a table raises.
    """
    timeline = Timeline.load(storage)
    replaced = replaced_file_groups(storage, timeline)
    found = []
    for group in load_file_view(storage, timeline).groups:
        place = (group.partition_path, group.file_id)
        if place in replaced or group.latest is None or not group.latest.log_files:
            continue
        keys = keys_in_logs_only(storage, group.latest)
        if len(keys):
            found.append(LogOnly(*place, len(keys), str(pc.min(keys))))
    return found


def hand_over(storage: Storage, holder: CompactionHolder, clock: Callable[[], datetime]) -> list[Ended]:
    """Compact the file groups that `log_only_groups` names until there are none; returns the compactions.

    Hold the table's lease: a job that goes on may write new keys to log files. Raises NotHandedOver if a compaction or
    clustering of another writer is pending (with its end a key may be in a log file only), or as `refuse_same_ids`
    does; and what `compact_now` raises.
    """
    refuse_same_ids(storage)
    ended = compact_now(storage, holder, _EVERYTHING, clock, only=())  # one that an earlier process left
    for _ in range(_ROUNDS_MAX):
        for instant in Timeline.load(storage).pending:
            if instant.action in _IN_THE_WAY:
                raise NotHandedOver(
                    f"{storage.url}: {instant.action} {instant.request_time} of another writer is pending, and may "
                    "leave keys in log files only: run it or roll it back, then hand over again"
                )
        left = log_only_groups(storage)
        if not left:
            return ended
        ended += compact_now(storage, holder, _EVERYTHING, clock, only={each.group for each in left})
    raise NotHandedOver(f"{storage.url}: after {_ROUNDS_MAX} compactions there are still {left[0]} in log files only")
