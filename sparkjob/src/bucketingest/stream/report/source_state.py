"""What the last looks at a source's brokers found: while they do not answer, nobody knows the lag."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class SourceState:
    """Ages in seconds, counted up to a moment."""

    servers: str
    """`host:port` of the brokers that the resource names."""
    problem: str | None = None
    """Why the last look was not answered, in a sentence for people; None: it was."""
    answered_at: datetime | None = None
    """When the last look that was answered ended."""
    answering_for: float = 0.0
    """Since the first look of a row that was answered; 0 while they are not."""
    silent_for: float = 0.0
    """Since the first look of a row that was not answered; 0 while they are."""
    transaction_for: float | None = 0.0
    """Since when the oldest open transaction was seen; 0 without one, None if nobody has looked."""
    transaction: str | None = None
    """Where it is."""

    @property
    def answers(self) -> bool:
        """Whether the last look was answered."""
        return self.problem is None
