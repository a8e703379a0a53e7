"""What a commit of ours says: its files in Hudi's words, and in extra metadata whose it is and up to where the source
is in the table.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from bucketingest.hudi.commit_metadata import SCHEMA_KEY, CommitMetadata
from bucketingest.hudi.instant import Instant, State
from bucketingest.hudi.timeline import Timeline, path_of
from bucketingest.hudi.write_stat import WriteStat
from bucketingest.storage import Storage
from bucketingest.write.coordination import LedgerEntry
from bucketingest.write.opening import OpenTable

PIPELINE: Final = "bucketingest.pipeline"
EPOCH: Final = "bucketingest.epoch"
RANGES: Final = "bucketingest.ranges"
ROWS: Final = "bucketingest.rows"
DELETES: Final = "bucketingest.deletes"
REJECTED: Final = "bucketingest.rejected"
RECORD_KEY: Final = "bucketingest.record.key"
BUCKETS: Final = "bucketingest.bucket.count"
HASH: Final = "bucketingest.bucket.hash"
HASH_FIELDS: Final = "bucketingest.bucket.hash.fields"


def inflight_metadata(opened: OpenTable, pipeline: str, epoch: int) -> bytes:
    """Content of the inflight file: whose instant it is."""
    return CommitMetadata(extra_metadata=_identity(opened, pipeline, epoch)).encode()


def commit_metadata(opened: OpenTable, pipeline: str, epoch: int, entries: Sequence[LedgerEntry]) -> CommitMetadata:
    """What the completed instant says. Equal entries give equal metadata."""
    write_stats: defaultdict[str, list[WriteStat]] = defaultdict(list)
    statuses = [status for entry in entries for status in entry.statuses]
    for status in sorted(statuses, key=lambda status: (status.partition_path, status.bucket, status.file_name)):
        if status.file_id:
            write_stats[status.partition_path].append(status.to_write_stat())
    extra = _identity(opened, pipeline, epoch) | {
        RANGES: json.dumps([entry.source_range.to_json() for entry in entries]),
        ROWS: str(sum(status.upserts for status in statuses)),
        DELETES: str(sum(status.deletes for status in statuses)),
        REJECTED: str(sum(status.rejected for status in statuses)),
    }
    return CommitMetadata(write_stats=write_stats, extra_metadata=extra)


def written_file_groups(storage: Storage, timeline: Timeline, seen: frozenset[str]) -> Iterable[tuple[str, str]]:
    """(partition path, file id) of what completed instants wrote whose request times are not in `seen`."""
    for instant in timeline.completed_commits:
        if instant.request_time not in seen:
            path = path_of(instant)
            yield from CommitMetadata.decode_file_groups(storage.get(path), path)


def is_of_pipeline(storage: Storage, found: Instant, pipeline: str) -> bool:
    """Whether an instant whose time this pipeline once took is not another writer's by now: a time that never
    got onto the timeline is free for all. One that is only requested does not say whose it is, and counts as ours.
    """
    if found.state is State.REQUESTED:
        return True
    path = path_of(found)
    return CommitMetadata.decode_extra(storage.get(path), path).get(PIPELINE) == pipeline


def _identity(opened: OpenTable, pipeline: str, epoch: int) -> dict[str, str]:
    return {
        SCHEMA_KEY: opened.table_schema_json,
        PIPELINE: pipeline,
        EPOCH: str(epoch),
        RECORD_KEY: ",".join(opened.definition.record_key),
        BUCKETS: str(opened.rules.buckets),
        HASH: opened.rules.hash,
        HASH_FIELDS: ",".join(opened.definition.effective_hash_fields),
    }
