"""Which instants may leave the active timeline now, and what pins the others. Pure.

Readers of Hudi 1.2.0 take every file whose instant is older than the first active one as committed. So instants leave
from the oldest on without a hole, and a file that must stay invisible keeps an older instant on the timeline.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import takewhile
from typing import Final, Self

from bucketingest.hudi.history.archived import OPEN_FOR
from bucketingest.hudi.table.file_view import FileView, Group
from bucketingest.hudi.timeline.instant import (
    CLEAN,
    COMMIT,
    DELTA_COMMIT,
    RESTORE,
    ROLLBACK,
    SAVEPOINT,
    WRITE_ACTIONS,
    Instant,
)
from bucketingest.hudi.timeline.instant_time import format_time
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.spec.fields.services import Archive

DEFAULTS: Final = Archive()
COUNTED_BY_HUDI: Final = 5
"""So many commits since the last compaction are enough for Hudi, which counts them, to plan the next one: then older
ones leave. There is no next one where clusterings leave nothing to compact. Hudi 1.2.0's default of
hoodie.compact.inline.max.delta.commits, which its TimelineArchiverV2 uses like this.
"""


@dataclass(frozen=True, slots=True)
class ArchiveRules:
    """How much stays on the timeline, and how much leaves it at once."""

    keep_min: int = DEFAULTS.commits
    """Completed writes that stay, however old. Hudi 1.2.0's default of hoodie.keep.min.commits."""
    min_age: timedelta = DEFAULTS.retain
    """Since a write completed."""
    instants_max: int = 20
    """The lock is held meanwhile, and an object store takes some 20 ms to delete each completed file."""

    @classmethod
    def of(cls, archive: Archive) -> Self:
        """Those of a resource."""
        return cls(archive.commits, archive.retain)


@dataclass(frozen=True, slots=True)
class Held:
    """What only the caller knows about the table's instants; all by request time."""

    earliest_to_retain: str | None = None
    """Of the last clean: its slices are deleted by the instants from here on. None: nothing was cleaned by them."""
    kept: Mapping[str, str] = field(default_factory=dict)
    """Why: the journal is not done, dead letters are to be published, it was aborted and is still swept; also a
    rollback or compaction that nobody looked at yet. Such an instant need not be on the timeline.
    """
    retired: Collection[str] = ()
    """Pipelines whose position was written elsewhere."""
    aborted: Collection[str] = ()
    """Instants that a pipeline aborted, or that a rollback names and nobody archived, and that are not on the timeline:
    a file of one comes late, and goes.
    """
    looked_at: Collection[str] = ()
    """Cleans of whole partitions that completed lately: pipelines must see them, to ingest again what they deleted. And
    the last clean: it says what is retained.
    """
    hidden: str = ""
    """Greatest request time of an archived write that a compaction on the timeline hides from readers; see
    `hidden_archived`. Compactions up to there are archived at once.
    """

    def hides(self, instant: Instant) -> bool:
        """Whether it is such a compaction, and no process still needs it on the timeline."""
        return (
            instant.action == COMMIT and instant.request_time <= self.hidden and instant.request_time not in self.kept
        )


@dataclass(frozen=True, slots=True)
class ArchiveFacts:
    """What the table's files say beyond the names on its timeline."""

    view: FileView
    positions: Mapping[str, str] = field(default_factory=dict)
    """Pipeline -> request time of its newest completed instant that carries a position."""
    schema: str | None = None
    """Request time of the newest commit that carries the table's schema."""
    replaced: Mapping[str, Collection[Group]] = field(default_factory=dict)
    """Request time of a replacecommit -> the file groups that it replaced."""


@dataclass(frozen=True, slots=True)
class Pin:
    """Why instants that are old enough stay."""

    instant: str
    """Request time of the instant that must stay, or must stay invisible."""
    why: str
    group: Group | None = None
    """Of the file that pins it."""
    first_kept: str = ""
    """The oldest write that stays because of it."""
    is_usual: bool = False
    """Whether there is always one of its kind, which moves on with the table."""
    waits: bool = False
    """Whether table services may end it by themselves: files are cleaned, late ones are waited for."""


@dataclass(frozen=True, slots=True)
class ArchiveChoice:
    """The instants that may be archived, by ascending request time, and what pins the next ones.

    Of each kind of pin the one that keeps the most is listed, the strictest first.
    """

    instants: tuple[Instant, ...]
    pins: tuple[Pin, ...] = ()


def old_writes(timeline: Timeline, rules: ArchiveRules, now: datetime, held: Held) -> tuple[Instant, ...]:
    """The completed writes that are beyond the number and the age that stay, ascending, without a hole; and the oldest
    ones that hide archived writes.
    """
    writes = [instant for instant in timeline.completed if instant.action in WRITE_ACTIONS]
    latest = format_time(now - rules.min_age)
    beyond = writes[: max(0, len(writes) - rules.keep_min)]
    old = list(takewhile(lambda instant: (instant.completion_time or "") <= latest, beyond))
    return (*old, *takewhile(held.hides, writes[len(old) :]))


def choose(timeline: Timeline, facts: ArchiveFacts, held: Held, rules: ArchiveRules, now: datetime) -> ArchiveChoice:
    """What may be archived now, at most `rules.instants_max`; and what pins instants that are old enough."""
    old = old_writes(timeline, rules, now, held)
    if not old:
        return ArchiveChoice(())
    pins = [pin for pin in _pins(timeline, facts, held) if pin.first_kept <= old[-1].request_time]
    pins.sort(key=lambda pin: (pin.first_kept, pin.instant))
    end = pins[0].first_kept if pins else None
    writes = list(takewhile(lambda each: end is None or each.request_time < end or held.hides(each), old))
    if not writes:
        return ArchiveChoice((), tuple(pins))
    newest = writes[-1].request_time
    # They have no meaning for readers. Hudi 1.2.0 (TimelineArchiverV2) takes them along the same way.
    services = [
        each
        for each in timeline.completed
        if each.action in (CLEAN, ROLLBACK) and each.request_time < newest and each.request_time not in held.looked_at
    ]
    instants = sorted([*writes, *services], key=lambda instant: (instant.request_time, instant.action))
    return ArchiveChoice(tuple(instants[: rules.instants_max]), tuple(pins))


def unknown_instants(view: FileView, timeline: Timeline, held: Held, now: datetime) -> set[str]:
    """Request times of files that readers do not show and whose instants are not on the timeline, a day after: as a
    restore took the instant away, or its rollback is archived. If the history has none either, no process completes it.
    """
    latest, known = format_time(now - OPEN_FOR), {*timeline.times, *held.kept}
    return {file.instant for file in view.uncommitted if file.instant <= latest} - known


def _pins(timeline: Timeline, facts: ArchiveFacts, held: Held) -> Iterator[Pin]:
    """Of each kind of pin the one with the oldest instant."""
    completed = [instant.request_time for instant in timeline.completed if instant.action in WRITE_ACTIONS]
    pin = partial(_pin, completed)
    active = timeline.first_active or ""
    pending = [each for each in timeline.pending if each.action in WRITE_ACTIONS or each.action == RESTORE]
    for each in pending[:1]:
        yield pin(each.request_time, f"its {each.action} is pending")
    for each in [each for each in timeline.instants if each.action == SAVEPOINT][:1]:
        yield Pin(each.request_time, "it has a savepoint", first_kept=each.request_time)
    for each in [each for each in timeline.completed if each.action == COMMIT][-1:]:
        deltas = [write.request_time for write in timeline.completed if write.action == DELTA_COMMIT]
        later = [time for time in deltas if time > each.request_time]
        counted = later[-COUNTED_BY_HUDI] if len(later) >= COUNTED_BY_HUDI else each.request_time
        yield pin(counted, "Hudi counts the commits since the last compaction", is_usual=True)
    if held.earliest_to_retain is not None:
        yield pin(held.earliest_to_retain, "cleaning retains the slices from it on", is_usual=True)
    if facts.schema is not None:
        yield pin(facts.schema, "it is the newest commit with the table's schema", is_usual=True)
    positions = sorted((time, pipeline) for pipeline, time in facts.positions.items() if pipeline not in held.retired)
    for time, pipeline in positions[:1]:
        yield pin(time, f"it has the newest position of pipeline {pipeline}", is_usual=True)
    for time in sorted(time for time in held.kept if time >= active)[:1]:
        yield pin(time, held.kept[time], waits=True)
    yield from _pins_of_files(facts, active, {each.request_time for each in pending}, pin)


def _pins_of_files(facts: ArchiveFacts, active: str, pending: Collection[str], pin: partial[Pin]) -> Iterator[Pin]:
    logs = min(
        (
            (log.instant, (group.partition_path, group.file_id))
            for group in facts.view.groups
            for each in group.slices
            for log in each.log_files
            if log.instant >= active  # the others are archived already
        ),
        default=None,
    )
    if logs is not None:
        why = "a log file of it is in a slice that is not cleaned; hudi-rs reads it only while it is on the timeline"
        yield pin(logs[0], why, logs[1], waits=True)
    orphans = min(
        (
            (file.instant, (group.partition_path, group.file_id))
            for group in facts.view.groups
            for file in group.uncommitted
            if file.instant not in pending
        ),
        default=None,
    )
    if orphans is not None:
        yield pin(
            orphans[0], "it is not on the timeline, but left a file, which would become visible", orphans[1], waits=True
        )
    there = {(group.partition_path, group.file_id) for group in facts.view.groups}
    for time in sorted(facts.replaced):
        if groups := sorted(there.intersection(facts.replaced[time])):
            yield pin(time, "it replaced a file group whose files are not cleaned", groups[0], waits=True)
            return


def _pin(
    completed: Sequence[str],
    time: str,
    why: str,
    group: Group | None = None,
    *,
    is_usual: bool = False,
    waits: bool = False,
) -> Pin:
    """A time that is not on the timeline, or may leave it, must not become older than the first active instant: the
    newest completed write before it stays.
    """
    position = bisect_right(completed, time)
    return Pin(time, why, group, completed[position - 1] if position else time, is_usual, waits)
