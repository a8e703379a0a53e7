"""Which state of a table a query is about, and whether its files are still there: hudi-rs would leave out in silence
what a clean has deleted or an archival has taken off the timeline.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from bucketingest.cli.errors import BadOption
from bucketingest.hudi.errors import InvalidName
from bucketingest.hudi.timeline.instant import DELTA_COMMIT, Instant
from bucketingest.hudi.timeline.instant_time import TIME_LENGTH, parse_time
from bucketingest.hudi.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Moments:
    """Times as the user named them, each of 17 digits; none: the table as it is."""

    as_of: str | None = None
    since: str | None = None
    until: str | None = None

    @classmethod
    def of(cls, as_of: str | None, since: str | None, until: str | None) -> Self:
        """From text. Raises BadOption."""
        for option, text in (("--as-of", as_of), ("--since", since), ("--until", until)):
            try:
                if text is not None:
                    parse_time(text)
            except InvalidName as error:
                raise BadOption(f"{option}: {error}; `bucketingest inspect` shows the table's instants") from error
        if as_of is not None and (since or until):
            raise BadOption("--as-of: it is one state, --since and --until are the changes between two; name either")
        if until is not None and (since is None or until < since):
            raise BadOption("--until: needs a --since that is not later")
        return cls(as_of, since, until)

    @property
    def options(self) -> list[str]:
        """The same as a command line."""
        named = (("--as-of", self.as_of), ("--since", self.since), ("--until", self.until))
        return [part for option, text in named if text is not None for part in (option, text)]

    def completed(self, timeline: Timeline) -> Self:
        """The same with completion times in place of request times of `since` and `until`: changes are ordered by them.
        Other times stay.
        """
        ends = {each.request_time: each.completion_time for each in timeline.completed_commits}
        return type(self)(
            self.as_of,
            ends.get(self.since or "") or self.since,
            ends.get(self.until or "") or self.until,
        )


def check_kept(moments: Moments, timeline: Timeline, *, last_earliest: str, archived: bool) -> None:
    """Raise BadOption if rows of these moments may be gone. Pure.

    `moments` with completion times; `last_earliest`: the earliest instant that the last clean kept whole, "" without
    one; `archived`: whether there are instants that are not on the timeline.
    """
    if moments.as_of is not None and moments.as_of < last_earliest:
        raise BadOption(
            f"--as-of: {moments.as_of}: a clean has deleted files of that time; the earliest that is whole is "
            f"{last_earliest}. services.clean.retain says how long they are kept"
        )
    if moments.since is None:
        return
    commits = timeline.completed_commits
    if archived and commits and moments.since < (oldest := min(map(_end, commits))):
        raise BadOption(
            f"--since: {moments.since}: the timeline has no commits before {oldest} any more: changes since then would "
            "be missing. Name a later instant, or read the whole table"
        )
    changes = [each for each in commits if each.action == DELTA_COMMIT and moments.since < _end(each)]
    if changes and (first := min(each.request_time for each in changes)) < last_earliest:
        raise BadOption(
            f"--since: {moments.since}: a clean has deleted files of the commit {first}; name {last_earliest} or "
            "later, or read the whole table. services.clean.retain says how long they are kept"
        )


def _end(commit: Instant) -> str:
    return commit.completion_time or "9" * TIME_LENGTH
