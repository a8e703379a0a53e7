"""What takes long in a compaction: its holder hands it to others. And what the holder says of one that ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from bucketingest.hudi.table.file_view import Group
from bucketingest.services.protocol.records import End


class Task(StrEnum):
    """What takes long."""

    MERGE = "merge"
    """Make the base files that are missing, then look."""
    LOOK = "look"
    """List the partitions, for the commit. Its result is a Ready."""
    SWEEP = "sweep"
    """List them again, after the end. Its result is a Swept."""


@dataclass(frozen=True, slots=True)
class Work:
    """What takes long, and what those who do it need to know."""

    compaction: str
    """Its request time."""
    number: int
    round_number: int
    task: Task = Task.MERGE


@dataclass(frozen=True, slots=True)
class Ended:
    """A compaction that ended."""

    compaction: str
    """Its request time."""
    end: End
    file_groups: int = 0
    """File groups that got a base file."""
    rows: int = 0
    """Rows of the base files."""
    failed: Mapping[Group, str] = field(default_factory=dict)
    """File groups that could not be merged, and why: they keep their slices."""
