"""How large a table's state is: for metrics and `/progress`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StateSummary:
    """The state of one table at one moment."""

    keys: int = 0
    """Entries of its runs: a key that moved has more than one until they are merged."""
    size_bytes: int = 0
    """Of the runs: what an executor maps into memory."""
    runs: int = 0
    partitions: int = 0
    file_groups: int = 0
    """Whose keys are in the state."""
    loaded_keys: int = 0
    """Keys that this process has read from the table's files."""
    unloaded_partitions: int = 0
    """Whose keys are loaded when a row of them comes."""
    new_keys_in_logs: bool = False
    """Whether new keys go into log files."""
