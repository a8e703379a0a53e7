"""Hudi's merge of a file slice, record by record: the judge of compaction that shares no code with it.

After Hudi 1.2.0's KeyBasedFileGroupRecordBuffer and its mergers for event-time and commit-time ordering.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

DEFAULT: Any = ("default",)
"""Java's default ordering value, the Integer 0, which equals no value of another type."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One record of a log file. `row` is None in a delete block; a row may be a delete, too."""

    key: str
    ordering: Any
    row: Any = None
    deleted: bool = False

    @property
    def is_entry(self) -> bool:
        return self.row is None

    @property
    def is_delete(self) -> bool:
        return self.deleted or self.row is None

    @property
    def by_commit_time(self) -> bool:
        return self.is_delete and self.ordering == DEFAULT


def merged(
    base: Iterable[tuple[str, Any, Any]], logs: Iterable[Entry], *, event_time: bool
) -> tuple[list[Any], dict[str, int]]:
    """The rows that a reader sees, and how many were inserted, updated, deleted. `base`: key, ordering value, row."""
    winners: dict[str, Entry] = {}
    for entry in logs:
        current = winners.get(entry.key)
        if current is None or not event_time or _replaces(current, entry):
            winners[entry.key] = entry
    rows, counts = [], {"inserts": 0, "updates": 0, "deletes": 0}
    for key, ordering, row in base:
        winner = winners.pop(key, None)
        if winner is None or (event_time and not winner.by_commit_time and winner.ordering < ordering):
            rows.append(row)
        elif winner.is_delete:
            counts["deletes"] += 1
        else:
            rows.append(winner.row)
            counts["updates"] += 1
    for winner in winners.values():
        if winner.is_delete:
            counts["deletes"] += 1
        else:
            rows.append(winner.row)
            counts["inserts"] += 1
    return rows, counts


def _replaces(current: Entry, entry: Entry) -> bool:
    if entry.is_entry:
        if current.by_commit_time:
            return False
        return entry.by_commit_time or not current.ordering > entry.ordering
    if entry.by_commit_time or current.by_commit_time:
        return True
    return bool(entry.ordering >= current.ordering)
