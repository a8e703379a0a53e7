"""The result of a schedule: what is wrong, the steps before it, and how often each event happened."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

COUNTED: Final = (
    "crash at",
    "unavailable at",
    "late",
    "outlived",
    "lands below the archive",
    "stalls",
    "stale list",
    "pages of a list",
    "position lost",
    "leaps",
    "edits",
    "schedules",
    "requests",
    "ends",
    "compacts",
    "cleans",
    "archives",
    "deletes",
    "adds a column",
    "compactions completed",
    "compactions gone",
    "compactions void",
    "merges started",
    "merges completed",
    "merges void",
    "cleans of its own",
    "archived by itself",
    "takes off again",
    "aimed fault",
    "savepoints",
    "gives savepoints up",
    "restores",
    "undoes",
    "configures",
    "rewrites",
    "rounds",
    "reads",
)
"""Events of the world that a verdict counts."""
PAUSES: Final = ("requests: ", "pauses within: ", "pauses before: ")
"""Each with the kind of a request: how often it came, and was paused for longer than any limit."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a schedule."""

    seed: int
    kind: str
    violations: list[str]
    steps: list[str]
    counts: Counter[str]
    """How often each event happened."""
    state: bool = False
    """Whether the table had an index with a state."""
    is_global: bool = False
    """Whether a key was in one partition only."""
    mirror: bool = False
    """Whether its rows were change events of a database."""
    event: str | None = None
    """What the schedule was built around, if that was asked for."""

    @property
    def report(self) -> str:
        """For a person: what is wrong, the steps before it, how to reproduce it."""
        kind = " GLOBAL=1" if self.is_global else " STATE=1" if self.state else ""
        kind += " MIRROR=1" if self.mirror else ""
        kind += f' EVENT="{self.event}"' if self.event else ""
        return "\n".join(
            [
                f"seed {self.seed} ({self.kind}): {len(self.violations)} violations",
                *(f"  ! {violation}" for violation in self.violations[:12]),
                "last steps:",
                *(f"  {step}" for step in self.steps),
                f"again: make simulate SEED={self.seed}{kind}",
            ]
        )
