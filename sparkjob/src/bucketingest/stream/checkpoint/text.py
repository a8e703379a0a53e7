"""The text forms of the files in Spark's checkpoint, written and read, because a checkpoint is made here and not by
Spark.

Each file begins with a line that names the version. The offset log has one file per micro-batch: a line about the
batch, then a line per source with the position at which the batch ends; the commit log has a file per micro-batch that
ended (Spark 4.2, seen).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from bucketingest.write.instants.source_range import canonical_json

VERSION: Final = "v1"
METADATA: Final = "metadata"
OFFSETS: Final = "offsets"
COMMITS: Final = "commits"
SOURCE: Final = "sources/0"
"""What a query's only source keeps: Kafka's initial offsets, the start time of generated rows."""
_NO_OFFSET: Final = "-"


class UnknownForm(ValueError):
    """The content is not what Spark 4.2 writes there: torn, or of another version."""


@dataclass(frozen=True, slots=True)
class BatchOffsets:
    """One file of the offset log."""

    timestamp: int
    """What `current_timestamp` is in this micro-batch: milliseconds since 1970."""
    sources: tuple[Any, ...]
    """Position of each source at the end of the micro-batch; None where it has none."""

    @property
    def position(self) -> str:
        """The position as text: of the only source, or the list of all."""
        return canonical_json(self.sources[0] if len(self.sources) == 1 else self.sources)


def parse_offsets(text: str) -> BatchOffsets:
    """Raises UnknownForm."""
    version, *lines = text.splitlines() or [""]
    if version != VERSION or len(lines) < 2:
        raise UnknownForm(text[:80])
    batch = parse_json(lines[0])
    timestamp = batch.get("batchTimestampMs", 0) if isinstance(batch, dict) else 0
    return BatchOffsets(timestamp, tuple(None if line == _NO_OFFSET else parse_json(line) for line in lines[1:]))


def offsets_text(position: str | None, timestamp: int = 0) -> bytes:
    """A file of the offset log for a query with one source. Without `conf`, Spark takes the session's settings."""
    batch = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": timestamp, "conf": {}})
    return f"{VERSION}\n{batch}\n{_NO_OFFSET if position is None else position}".encode()


def commit_text() -> bytes:
    """A file of the commit log."""
    return f"{VERSION}\n{json.dumps({'nextBatchWatermarkMs': 0})}".encode()


def metadata_text(query_id: str) -> bytes:
    """The file that names the query."""
    return json.dumps({"id": query_id}).encode()


def parse_query_id(text: str) -> str:
    """Id of the query whose checkpoint it is. Raises UnknownForm."""
    metadata = parse_json(text)
    if not isinstance(metadata, dict) or not isinstance(metadata.get("id"), str):
        raise UnknownForm(text[:80])
    return str(metadata["id"])


def parse_initial_offsets(text: str) -> str:
    """The offsets at which Kafka's source started. A zero byte comes first, for older versions. Raises UnknownForm."""
    version, _, offsets = text.lstrip("\0").partition("\n")
    if version != VERSION:
        raise UnknownForm(text[:80])
    return canonical_json(parse_json(offsets))


def parse_json(text: str) -> Any:
    """Raises UnknownForm."""
    try:
        return json.loads(text)
    except ValueError:
        raise UnknownForm(text[:80]) from None
