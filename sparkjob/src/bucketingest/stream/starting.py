"""Brings Spark's checkpoint and the table's position together before a query starts: the table is the truth.

Without a checkpoint Spark would begin a Kafka source anew. `startingOffsets` cannot say where to go on, since it must
name every partition that the topics have by now; so a checkpoint is written that ends where the table does. Spark then
reads new partitions from their beginning, as it always does (Spark 4.2, seen).
"""

from __future__ import annotations

import json
import uuid
from typing import Final

from bucketingest.storage import Storage
from bucketingest.write.errors import RangeConflict
from bucketingest.write.source_range import SourceRange

_VERSION: Final = "v1"
_LOGS: Final = ("offsets", "commits", "sources")


def reconcile(checkpoint: Storage, position: SourceRange | None) -> None:
    """Let the checkpoint continue from `position`, the last range that the table has of this pipeline.

    Raises RangeConflict if Spark would leave out rows that the table has not.
    """
    if position is None:
        if any(True for _ in checkpoint.list("commits")):
            raise RangeConflict(
                f"{checkpoint.url}: the checkpoint has committed micro-batches, but the table has none of this "
                "pipeline: the table was made anew, or the pipeline got another name. Delete the checkpoint directory "
                "to ingest from the source's beginning"
            )
    elif position.kind == "kafka" and not checkpoint.exists("metadata"):
        _write(checkpoint, position.end)


def _write(checkpoint: Storage, offsets: str) -> None:
    """A checkpoint whose only micro-batch, number 0, ended at these Kafka offsets. With `metadata`, it is whole."""
    for log in _LOGS:
        checkpoint.delete_many([info.path for info in checkpoint.list(log)])
    batch = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}})
    checkpoint.put("offsets/0", f"{_VERSION}\n{batch}\n{offsets}".encode())
    checkpoint.put("commits/0", f"{_VERSION}\n{json.dumps({'nextBatchWatermarkMs': 0})}".encode())
    checkpoint.put("metadata", json.dumps({"id": str(uuid.uuid4())}).encode())
