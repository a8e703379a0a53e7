"""Recorded topics of Debezium as its transformation ExtractNewRecordState hands them on."""

from __future__ import annotations

import json
from typing import Any, Final, Literal

from support.decoding.debezium_streams import Stream, records_of

Handling = Literal["tombstone", "rewrite", "rewrite-with-tombstone"]
"""Of `delete.tombstone.handling.mode`."""
HANDLINGS: Final[tuple[Handling, ...]] = ("tombstone", "rewrite", "rewrite-with-tombstone")


def flat_records(name: Stream, handling: Handling) -> list[tuple[bytes | None, dict[str, Any] | None]]:
    """Key and row of each record; a truncate comes with the tombstones of rewritten deletes, and else not at all."""
    found: list[tuple[bytes | None, dict[str, Any] | None]] = []
    rewrites = handling != "tombstone"
    for key, value in records_of(name):
        event = None if value is None else json.loads(value)
        if event is None:
            found += [(key, None)] if handling == "rewrite-with-tombstone" else []
        elif event["op"] == "t":
            found += [(key, event)] if handling == "rewrite-with-tombstone" else []
        elif event["op"] == "d":
            found.append((key, {**event["before"], "__deleted": "true"} if rewrites else None))
        elif event["op"] in {"c", "r", "u"}:
            found.append((key, {**event["after"], "__deleted": "false"} if rewrites else event["after"]))
    return found
