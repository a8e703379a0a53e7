"""How much of a slice is in memory at a time: a merge takes a few of these, whatever the size of its files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_MIB: Final = 1024**2


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes are those of Arrow's form. Each batch has at least one row, each pass one log block."""

    fold_records: int = 1_000_000
    """Log records whose keys and ordering values are collected before losers are dropped."""
    fold_bytes: int = 128 * _MIB
    """The same in bytes. If winners have more than half of it, their keys are merged in several passes."""
    batch_rows: int = 256 * 1024
    """Rows of the base file that are read at a time."""
    key_rows: int = 2_000_000
    """The same, where only keys and ordering values are read."""
    batch_bytes: int = 64 * _MIB
    """Bytes of either."""
    row_group_rows: int = 512 * 1024
    """Rows of a row group of the new base file."""
    row_group_bytes: int = 128 * _MIB
    """Bytes of it, before encoding."""


DEFAULT_LIMITS: Final = Limits()
