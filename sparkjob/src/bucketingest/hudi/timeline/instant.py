"""One action on the timeline and its file names and times; kept apart from the timeline so that all of it is pure."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Self

from bucketingest.hudi.errors import ClockError, InvalidName

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

TIME_LENGTH = 17
"""Characters of an instant time: yyyyMMddHHmmssSSS."""

_FILE_NAME = re.compile(r"(\d+)(?:_(\d+))?(?:\.([a-z]+))(?:\.([a-z]+))?")
_TIME = re.compile(r"\d{17}")
_MILLISECOND = timedelta(milliseconds=1)
AHEAD_MAX = timedelta(minutes=5)
"""How far the table's newest time may be ahead of this machine's clock."""


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

    def __post_init__(self) -> None:
        if (self.completion_time is not None) != (self.state is State.COMPLETED):
            raise InvalidName(
                f"instant {self.request_time} {self.action}: a completion time belongs to a completed instant only, "
                f"state is {self.state}, completion time {self.completion_time}"
            )

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

    @classmethod
    @lru_cache(maxsize=2**17)  # every load of a timeline parses the same names again
    def try_parse(cls, name: str) -> Self | None:
        """The instant whose file has this name; None for other files in a timeline directory (.crc, history, ...)."""
        match = _FILE_NAME.fullmatch(name)
        if match is None:
            return None
        request_time, completion_time, first, second = match.groups()
        if completion_time is not None:
            completed = second is None and first in ACTIONS
            return cls(request_time, first, State.COMPLETED, completion_time) if completed else None
        if first == "inflight" and second is None:
            return cls(request_time, COMMIT, State.INFLIGHT)
        if first in ACTIONS and second in ("requested", "inflight"):
            return cls(request_time, first, State(second.upper()))
        return None

    def is_later_state_of(self, other: Instant) -> bool:
        """True if both are files of one instant and this state is later: requested, inflight, completed."""
        return self.key == other.key and _RANK[self.state] > _RANK[other.state]

    @property
    def key(self) -> tuple[str, str]:
        """Identity on the timeline: request time and completed action (a savepoint shares its commit's time)."""
        return self.request_time, COMPLETED_ACTION.get(self.action, self.action)


def format_time(moment: datetime) -> str:
    """An aware datetime as an instant time in UTC, cut (not rounded) to the millisecond."""
    if moment.tzinfo is None:
        raise ValueError("an instant time needs an aware datetime, got a naive one")
    utc = moment.astimezone(UTC)
    return f"{utc:%Y%m%d%H%M%S}{utc.microsecond // 1000:03d}"


def parse_time(text: str) -> datetime:
    """The moment that an instant time of a UTC table denotes, as an aware UTC datetime. Raises `InvalidName`."""
    if _TIME.fullmatch(text) is None:
        raise InvalidName(f"instant time {text!r} is not of the form yyyyMMddHHmmssSSS")
    try:
        moment = datetime.strptime(text[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError as error:
        raise InvalidName(f"instant time {text!r} is not a date and time: {error}") from error
    return moment + int(text[14:]) * _MILLISECOND


def next_instant_time(now: datetime, known_times: Iterable[str], ahead_max: timedelta = AHEAD_MAX) -> str:
    """A time greater than every known one and not less than now.

    `known_times` are all request and completion times known: active, archived, abandoned. Hudi's readers order by
    them, so a time that does not increase would hide rows. Raises `ClockError` if the newest known time is more than
    `ahead_max` ahead of `now`: then this clock, or another writer's, is wrong, or the table's times are in another
    zone.
    """
    now_text = format_time(now)
    newest = newest_time(known_times)
    if newest is None or newest < now_text:
        return now_text
    ahead = parse_time(newest) - now
    if ahead > ahead_max:
        raise ClockError(
            f"the table's newest time is {newest}, {ahead} ahead of this machine's clock ({now_text} UTC), "
            f"more than the allowed {ahead_max}: check both clocks, and whether another writer uses local time"
        )
    return format_time(parse_time(newest) + _MILLISECOND)


def newest_time(times: Iterable[str]) -> str | None:
    """Greatest full instant time; shorter ones (Hudi's bootstrap marks such as 00000000000001) do not count."""
    return max((time for time in times if len(time) == TIME_LENGTH), default=None)
