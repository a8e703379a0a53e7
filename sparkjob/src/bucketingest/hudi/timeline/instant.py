"""One action on the timeline and its file names; kept apart from the timeline so that all of it is pure."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field
from functools import lru_cache

from bucketingest.hudi.errors import InvalidName

DELTA_COMMIT = "deltacommit"
COMMIT = "commit"
COMPACTION = "compaction"
LOG_COMPACTION = "logcompaction"
REPLACE_COMMIT = "replacecommit"
CLUSTERING = "clustering"
CLEAN = "clean"
ROLLBACK = "rollback"
RESTORE = "restore"
SAVEPOINT = "savepoint"
INDEXING = "indexing"
SCHEMA_COMMIT = "schemacommit"

ACTIONS = frozenset(
    {
        DELTA_COMMIT,
        COMMIT,
        COMPACTION,
        LOG_COMPACTION,
        REPLACE_COMMIT,
        CLUSTERING,
        CLEAN,
        ROLLBACK,
        RESTORE,
        SAVEPOINT,
        INDEXING,
        SCHEMA_COMMIT,
    }
)
"""Every action of Hudi 1.2.0's timeline (constants of its HoodieTimeline)."""

WRITE_ACTIONS = frozenset({DELTA_COMMIT, COMMIT, COMPACTION, LOG_COMPACTION, REPLACE_COMMIT, CLUSTERING})
"""Actions that make data files: Hudi's write timeline, by which readers decide what counts as archived."""

COMPLETED_ACTION = {COMPACTION: COMMIT, LOG_COMPACTION: DELTA_COMMIT, CLUSTERING: REPLACE_COMMIT}
"""Actions whose completed file carries another action than the pending ones (Hudi 1.2.0, seen in its tables)."""

_FILE_NAME = re.compile(r"(\d+)(?:_(\d+))?(?:\.([a-z]+))(?:\.([a-z]+))?")


class State(enum.StrEnum):
    """How far an instant has come. Only a completed one is visible to readers."""

    REQUESTED = "REQUESTED"
    INFLIGHT = "INFLIGHT"
    COMPLETED = "COMPLETED"


PENDING_STATES = (State.INFLIGHT, State.REQUESTED)
"""In the order in which a rollback deletes their files."""

_RANK = {State.REQUESTED: 0, State.INFLIGHT: 1, State.COMPLETED: 2}


@dataclass(frozen=True, slots=True)
class Instant:
    """One action on the table's timeline.

    `request_time` identifies it and is in the names of the files it wrote; `completion_time` is there if and only
    if the state is COMPLETED. Both are yyyyMMddHHmmssSSS in the table's time zone.
    """

    request_time: str
    action: str
    state: State
    completion_time: str | None = None
    rank: int = field(init=False, repr=False, compare=False)
    """Orders the states of one instant: requested, inflight, completed."""
    key: tuple[str, str] = field(init=False, repr=False, compare=False)
    """Identity on the timeline: request time and completed action (a savepoint shares its commit's time)."""

    def __post_init__(self) -> None:
        if (self.completion_time is not None) != (self.state is State.COMPLETED):
            raise InvalidName(
                f"instant {self.request_time} {self.action}: a completion time belongs to a completed instant only, "
                f"state is {self.state}, completion time {self.completion_time}"
            )
        # A commit looks at those of the whole timeline several times.
        object.__setattr__(self, "rank", _RANK[self.state])
        object.__setattr__(self, "key", (self.request_time, COMPLETED_ACTION.get(self.action, self.action)))

    @property
    def is_completed(self) -> bool:
        """Whether readers see it."""
        return self.state is State.COMPLETED

    @property
    def file_name(self) -> str:
        """Name in the timeline directory, in timeline layout 2 (table versions 8 and 9)."""
        if self.state is State.COMPLETED:
            return f"{self.request_time}_{self.completion_time}.{self.action}"
        if self.state is State.INFLIGHT and self.action == COMMIT:
            # Hudi keeps an old form of name for this one case: an inflight commit has no action in its name.
            return f"{self.request_time}.inflight"
        return f"{self.request_time}.{self.action}.{self.state.lower()}"

    @staticmethod
    @lru_cache(maxsize=2**17)  # every load of a timeline parses the same names again
    def try_parse(name: str) -> Instant | None:
        """The instant whose file has this name; None for other files in a timeline directory (.crc, history, ...)."""
        match = _FILE_NAME.fullmatch(name)
        if match is None:
            return None
        request_time, completion_time, first, second = match.groups()
        if completion_time is not None:
            completed = second is None and first in ACTIONS
            return Instant(request_time, first, State.COMPLETED, completion_time) if completed else None
        if first == "inflight" and second is None:
            return Instant(request_time, COMMIT, State.INFLIGHT)
        if first in ACTIONS and second in ("requested", "inflight"):
            return Instant(request_time, first, State(second.upper()))
        return None
