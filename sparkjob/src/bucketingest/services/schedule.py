"""When a running job's table services do what, and what they leave alone: facts and decisions without I/O.

Times are seconds by a clock that cannot be set, given by the caller. `InlineServices` acts on what is said here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from bucketingest.errors import BucketIngestError
from bucketingest.hudi.errors import HudiError
from bucketingest.hudi.table.file_view import Group
from bucketingest.services.placement import LeftToHudi
from bucketingest.write.errors import NewerFormat

FIRST_LOOK: Final = timedelta(seconds=10)
"""Time from the start to the first look: a job that is often restarted compacts too."""
LOOK_EVERY: Final = timedelta(minutes=1)
"""Time between two looks at the table, at most."""
TIDY_EVERY: Final = timedelta(minutes=30)
"""Time between two cleans, at most."""
TIDY_AFTER: Final = 500
"""Commits between two cleans, at most, as far as looks find them: every commit lists those on the timeline."""
_PAUSE_MAX: Final = timedelta(minutes=30)
"""After failures."""
_DEATHS_MAX: Final = 3
"""How often an operation may kill its process before it is given up."""
_FAILED_REST: Final = timedelta(hours=24)
"""Time for which a file group that could not be merged is left as it is."""


@dataclass(slots=True)
class Schedule:
    """What is due. Not used by two threads."""

    tidies: bool
    """Whether clean and archive are this job's at all."""
    left: LeftToHudi | None
    """What Hudi's services do; None: not known before the first look, so neither compaction nor clean is begun."""
    next_tidy: float
    """Time of the next clean; at first the time of the start."""
    superseded_at: float = 0.0
    """When this job last replaced files, which a clean may delete; before the first time, the start."""
    next_look: float | None = None
    """None: nothing is looked for any more."""
    failures: int = 0
    """Steps that failed one after the other up to now."""
    given_up: dict[int, str] = field(default_factory=dict)
    """Operations of the compaction that are not tried again, with the reason."""
    _commits: int | None = None
    """On the timeline at the first look after the last clean began."""
    _looks_left: int | None = None
    """After `finish`: so many looks follow the next one at once."""
    _deaths: Counter[int] = field(default_factory=Counter)
    _failed: dict[Group, float] = field(default_factory=dict)

    @classmethod
    def at_start(cls, now: float, *, tidies: bool, left: LeftToHudi | None) -> Schedule:
        """The first look is not at once: a start is not slowed down."""
        return cls(tidies, left, now, now, now + FIRST_LOOK.total_seconds())

    def is_look_due(self, now: float) -> bool:
        """Whether the table is to be looked at."""
        at = self.next_look
        return at is not None and now >= at

    def is_tidy_due(self, now: float) -> bool:
        """Whether a clean is to be begun, as far as this job's own time says."""
        return self.tidies and self.left is not None and self.left.tidying is None and now >= self.next_tidy

    @property
    def leaves_compaction(self) -> bool:
        """Whether no compaction may be requested."""
        return self.left is None or self.left.compaction is not None

    @property
    def finishes(self) -> bool:
        """Whether the job ends with its input."""
        return self._looks_left is not None

    def finish(self, now: float, *, busy: bool) -> None:
        """The job ends with its input: a look is due now unless a step is `busy`. May be repeated."""
        if self._looks_left is None:
            self._looks_left = 1
            if self.next_look is not None and not busy:
                self.next_look = now

    def look_again(self, now: float, pause: timedelta, *, cleans_first: bool = False) -> None:
        """Look after `pause`; at once if the job ends and the last clean is due (`cleans_first`)."""
        if self._looks_left and not self.failures and cleans_first:
            self._looks_left, pause = 0, timedelta()
        self.next_look = now + pause.total_seconds()

    def tidied(self, now: float) -> None:
        """A clean has been begun."""
        self.next_tidy, self._commits = now + TIDY_EVERY.total_seconds(), None

    def looked(self, now: float, commits: int) -> None:
        """A look found so many commits on the timeline."""
        self._commits = commits if self._commits is None else self._commits
        if commits - self._commits >= TIDY_AFTER:
            self.next_tidy = now

    def failed(self, error: BucketIngestError) -> timedelta:
        """A step failed: the pause before the next one. What only another version or a person mends is tried seldom."""
        self.failures += 1
        rests = isinstance(error, NewerFormat | HudiError)
        return _PAUSE_MAX if rests else min(LOOK_EVERY * 2 ** min(self.failures - 1, 5), _PAUSE_MAX)

    def died(self, operation: int) -> None:
        """The merge of an operation ended its process."""
        self._deaths[operation] += 1
        if self._deaths[operation] >= _DEATHS_MAX:
            self.given_up[operation] = f"its merge ended its process {_DEATHS_MAX} times (out of memory?)"

    def nothing_merges(self) -> None:
        """No compaction is in work: operation numbers begin anew."""
        self._deaths.clear()
        self.given_up.clear()

    def rest_groups(self, now: float, groups: Iterable[Group]) -> None:
        """These file groups could not be merged."""
        self._failed |= dict.fromkeys(groups, now)

    def resting(self, now: float) -> frozenset[Group]:
        """File groups that could not be merged lately."""
        since = now - _FAILED_REST.total_seconds()
        self._failed = {group: at for group, at in self._failed.items() if at > since}
        return frozenset(self._failed)
