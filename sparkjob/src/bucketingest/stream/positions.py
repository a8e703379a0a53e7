"""Reads from Spark's checkpoint which part of the source a micro-batch is.

On entry of the function for batch N, `offsets/N` is durable and says where the batch ends; `offsets/N-1` says where
it begins, or
Kafka's `sources/0/0` for the first one. Each file's first line is a version, then JSON (Spark 4.2, seen).
"""

from __future__ import annotations

import json
from typing import Final, Literal

from bucketingest.storage import NotFound, Storage
from bucketingest.stream.errors import CheckpointUnreadable
from bucketingest.write.source_range import SourceRange, canonical_json

_VERSION_LINE: Final = "v1"


class CheckpointPositions:
    """The source ranges of one query's micro-batches."""

    def __init__(self, checkpoint: Storage, kind: Literal["kafka", "checkpoint"]) -> None:
        self._checkpoint = checkpoint
        self._kind = kind

    def range_of(self, batch_id: int) -> SourceRange:
        """The source range of a micro-batch that Spark is running. Raises CheckpointUnreadable."""
        query_id = json.loads(self._read("metadata"))["id"]
        end = self._offsets(batch_id)
        start = self._offsets(batch_id - 1) if batch_id else self._first_start()
        return SourceRange(self._kind, start, end, query_id, batch_id)

    def _offsets(self, batch_id: int) -> str:
        lines = self._read(f"offsets/{batch_id}").splitlines()
        if len(lines) < 3 or lines[0] != _VERSION_LINE:  # version, configuration, one line per source
            raise self._unreadable(f"offsets/{batch_id}", "its form is not that of Spark 4.2")
        return (
            canonical_json(json.loads(lines[2])) if len(lines) == 3 else canonical_json(list(map(_parsed, lines[2:])))
        )

    def _first_start(self) -> str | None:
        if self._kind != "kafka":
            return None
        # Kafka's initial offsets: a zero byte from older versions, a version line, JSON.
        text = self._read("sources/0/0").lstrip("\0")
        version, _, offsets = text.partition("\n")
        if version != _VERSION_LINE:
            raise self._unreadable("sources/0/0", "its form is not that of Spark 4.2")
        return canonical_json(json.loads(offsets))

    def _read(self, path: str) -> str:
        try:
            return self._checkpoint.get(path).decode()
        except NotFound:
            raise self._unreadable(path, "it is missing") from None

    def _unreadable(self, path: str, why: str) -> CheckpointUnreadable:
        return CheckpointUnreadable(
            f"{self._checkpoint.url}/{path}: {why}. Delete the checkpoint directory: the next start continues from the "
            "table"
        )


def _parsed(line: str) -> object:
    return None if line == "-" else json.loads(line)
