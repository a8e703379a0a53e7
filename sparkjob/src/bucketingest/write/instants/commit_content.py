"""The content of a pipeline's commit: its files as Hudi's metadata, and in extra metadata its pipeline and the
committed source position.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from bucketingest.hudi.table.schema import AvroSchema, schema_json
from bucketingest.hudi.table.table import INDEX_TYPE, STATE_INDEX
from bucketingest.hudi.timeline.commit_metadata import SCHEMA_KEY, CommitMetadata
from bucketingest.hudi.timeline.instant import DELTA_COMMIT, Instant
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.hudi.timeline.write_stat import WriteStat
from bucketingest.storage import NotFound, Storage
from bucketingest.write.instants.records import LedgerEntry
from bucketingest.write.moving.moved_keys import MOVED
from bucketingest.write.open_table import OpenTable
from bucketingest.write.pipeline_names import PIPELINE

EPOCH: Final = "bucketingest.epoch"
RANGES: Final = "bucketingest.ranges"
ROWS: Final = "bucketingest.rows"
DELETES: Final = "bucketingest.deletes"
REJECTED: Final = "bucketingest.rejected"
UNKNOWN_DELETES: Final = "bucketingest.deletes.unknown"
OLDER: Final = "bucketingest.rows.older"
RECORD_KEY: Final = "bucketingest.record.key"
BUCKETS: Final = "bucketingest.bucket.count"
HASH: Final = "bucketingest.bucket.hash"
HASH_FIELDS: Final = "bucketingest.bucket.hash.fields"
READ_AS: Final = "bucketingest.messages.read.as"


def pending_metadata(opened: OpenTable, pipeline: str, epoch: int) -> bytes:
    """Content of the requested and the inflight file: the instant's pipeline. Hudi's own requested files are empty, but
    it accepts others as well (1.2.0, seen).
    """
    return CommitMetadata(extra_metadata=_identity(opened, pipeline, epoch, opened.avro_schema)).encode()


def commit_metadata(
    opened: OpenTable, pipeline: str, epoch: int, entries: Sequence[LedgerEntry], schema: AvroSchema
) -> CommitMetadata:
    """Content of the completed file. Equal entries give equal metadata. `schema`: the table's current one."""
    write_stats: defaultdict[str, list[WriteStat]] = defaultdict(list)
    statuses = [status for entry in entries for status in entry.statuses]
    for status in sorted(statuses, key=lambda status: (status.partition_path, status.bucket, status.file_name)):
        if status.file_id:
            write_stats[status.partition_path].append(status.to_write_stat())
    extra = _identity(opened, pipeline, epoch, schema) | {
        RANGES: json.dumps([entry.source_range.to_json() for entry in entries]),
        ROWS: str(sum(status.upserts for status in statuses)),
        DELETES: str(sum(status.deletes for status in statuses)),
        REJECTED: str(sum(status.rejected for status in statuses)),
    }
    if opened.definition.state is not None:
        extra[UNKNOWN_DELETES] = str(sum(status.dropped for status in statuses))
        if opened.definition.state.is_global:
            extra[MOVED] = str(sum(status.moved for status in statuses))
            extra[OLDER] = str(sum(status.older for status in statuses))
    return CommitMetadata(write_stats=write_stats, extra_metadata=extra)


def read_as_of(storage: Storage, pipeline: str) -> str:
    """What messages were read as in the pipeline's newest instant, as `OpenTable` had it; "" if that does not say it.

    A pending instant counts too: a start completes what a killed process left, and its messages were read so.
    """
    for instant in reversed(Timeline.load(storage).instants):
        if instant.action != DELTA_COMMIT:
            continue
        path = path_of(instant)
        try:
            extra = CommitMetadata.decode_extra(storage.get(path), path)
        except NotFound:  # rolled back or archived since the listing
            continue
        if extra.get(PIPELINE) == pipeline:
            return extra.get(READ_AS, "")
    return ""


def is_of_pipeline(storage: Storage, found: Instant, pipeline: str) -> bool:
    """Whether an instant is this pipeline's. A time that the pipeline claimed but never put onto the timeline may be
    another writer's instant.
    """
    path = path_of(found)
    return CommitMetadata.decode_extra(storage.get(path), path).get(PIPELINE) == pipeline


def _identity(opened: OpenTable, pipeline: str, epoch: int, schema: AvroSchema) -> dict[str, str]:
    identity = {
        SCHEMA_KEY: schema_json(schema),
        PIPELINE: pipeline,
        EPOCH: str(epoch),
        RECORD_KEY: ",".join(opened.definition.record_key),
    } | _index(opened)
    return identity | {READ_AS: opened.read_as} if opened.read_as else identity


def _index(opened: OpenTable) -> dict[str, str]:
    if opened.definition.state is not None:
        return {INDEX_TYPE: STATE_INDEX}
    return {
        BUCKETS: str(opened.definition.buckets),
        HASH: opened.rules.hash,
        HASH_FIELDS: ",".join(opened.definition.effective_hash_fields),
    }
