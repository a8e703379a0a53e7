"""Reads from Spark's checkpoint which part of the source a micro-batch is.

On entry of the function for batch N, `offsets/N` is durable and says where the batch ends; `offsets/N-1` says where it
begins, or Kafka's `sources/0/0` for the first one. Each file's first line is a version, then JSON (Spark 4.2, seen).
"""

from __future__ import annotations

import json
from typing import Any, Final, Literal

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
        query_id = self._parsed("metadata", self._read("metadata"))["id"]
        end = self._offsets(batch_id)
        start = self._offsets(batch_id - 1) if batch_id else self._first_start()
        return SourceRange(self._kind, start, end, query_id, batch_id)

    def _offsets(self, batch_id: int) -> str:
        path = f"offsets/{batch_id}"
        version, *lines = self._read(path).splitlines() or [""]
        if len(lines) < 2 or version != _VERSION_LINE:  # configuration, one line per source
            raise self._unknown_form(path)
        sources = [None if line == "-" else self._parsed(path, line) for line in lines[1:]]
        return canonical_json(sources[0] if len(sources) == 1 else sources)

    def _first_start(self) -> str | None:
        if self._kind != "kafka":
            return None
        # Kafka's initial offsets: a zero byte from older versions, a version line, JSON.
        version, _, offsets = self._read("sources/0/0").lstrip("\0").partition("\n")
        if version != _VERSION_LINE:
            raise self._unknown_form("sources/0/0")
        return canonical_json(self._parsed("sources/0/0", offsets))

    def _read(self, path: str) -> str:
        try:
            return self._checkpoint.get(path).decode(errors="replace")
        except NotFound:
            raise self._unreadable(path, "it is missing") from None

    def _parsed(self, path: str, text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError:
            raise self._unknown_form(path) from None

    def _unknown_form(self, path: str) -> CheckpointUnreadable:
        return self._unreadable(path, "its form is not that of Spark 4.2")

    def _unreadable(self, path: str, why: str) -> CheckpointUnreadable:
        advice = (
            "Delete the checkpoint directory: the next start continues from the table"
            if self._kind == "kafka"
            else "Restore the checkpoint, or give the pipeline another name to ingest everything again"
        )
        return CheckpointUnreadable(f"{self._checkpoint.url}/{path}: {why}. {advice}")
