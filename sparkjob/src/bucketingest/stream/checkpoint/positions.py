"""Reads from Spark's checkpoint which part of the source a micro-batch is.

On entry of the function for batch N, `offsets/N` is durable and says where the batch ends; `offsets/N-1` says where it
begins, or Kafka's `sources/0/0` for the first one (Spark 4.2, seen).
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from bucketingest.storage import NotFound, Storage
from bucketingest.stream.checkpoint.text import (
    METADATA,
    OFFSETS,
    SOURCE,
    BatchOffsets,
    UnknownForm,
    parse_initial_offsets,
    parse_offsets,
    parse_query_id,
)
from bucketingest.stream.errors import CheckpointUnreadable
from bucketingest.write.instants.source_range import SourceRange

CheckpointKind: TypeAlias = Literal["kafka", "checkpoint"]


class CheckpointPositions:
    """The source ranges of one query's micro-batches."""

    def __init__(self, checkpoint: Storage, kind: CheckpointKind) -> None:
        self._checkpoint = checkpoint
        self._kind = kind

    def range_of(self, batch_id: int) -> SourceRange:
        """The source range of a micro-batch that Spark is running. Raises CheckpointUnreadable."""
        try:
            query_id = parse_query_id(self._read(METADATA))
        except UnknownForm:
            raise self._unknown_form(METADATA) from None
        start = self._position(batch_id - 1) if batch_id else self._first_start()
        timestamp_ms = self._offsets(batch_id).timestamp
        return SourceRange(self._kind, start, self._position(batch_id), query_id, batch_id, timestamp_ms)

    def _offsets(self, batch_id: int) -> BatchOffsets:
        path = f"{OFFSETS}/{batch_id}"
        try:
            return parse_offsets(self._read(path))
        except UnknownForm:
            raise self._unknown_form(path) from None

    def _position(self, batch_id: int) -> str:
        return self._offsets(batch_id).position

    def _first_start(self) -> str | None:
        if self._kind != "kafka":
            return None
        path = f"{SOURCE}/0"
        try:
            return parse_initial_offsets(self._read(path))
        except UnknownForm:
            raise self._unknown_form(path) from None

    def _read(self, path: str) -> str:
        try:
            return self._checkpoint.get(path).decode(errors="replace")
        except NotFound:
            raise self._unreadable(path, "it is missing") from None

    def _unknown_form(self, path: str) -> CheckpointUnreadable:
        return self._unreadable(path, "its form is not that of Spark 4.2")

    def _unreadable(self, path: str, why: str) -> CheckpointUnreadable:
        return CheckpointUnreadable(
            f"{self._checkpoint.url}/{path}: {why}. Start again: each start makes a checkpoint of its own from the "
            "table, and says what is missing if it cannot"
        )
