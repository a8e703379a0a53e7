"""Carries out an archival, each step so that a crash after it leaves every instant in the history or on the timeline.

Order (Hudi 1.2.0: TimelineArchiverV2): history file, manifest, version file; then, of our own, the horizon; then the
instants' files, the pending ones before the completed ones: a pending file alone would look like pending work.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final

from bucketingest.hudi.errors import TimelineError
from bucketingest.hudi.history.archived import (
    archived_between,
    archived_completion_times,
    is_settled,
    stay_behind_savepoint,
)
from bucketingest.hudi.history.levels import delete_obsolete, merge_level
from bucketingest.hudi.history.writer import (
    Check,
    HistoryRow,
    encode_rows,
    publish,
    read_row,
    settle,
    write_history_file,
)
from bucketingest.hudi.naming import TEMP_DIRECTORY, TIMELINE_DIRECTORY
from bucketingest.hudi.rollback.late_files import sweep_late_files
from bucketingest.hudi.rollback.markers import delete_markers
from bucketingest.hudi.timeline.instant import (
    COMMIT,
    COMPACTION,
    PENDING_STATES,
    SAVEPOINT,
    WRITE_ACTIONS,
    Instant,
    State,
)
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.services.archive.choose import ArchiveRules, Held, Pin, choose, old_writes, unknown_instants
from bucketingest.services.archive.facts import files_of, read_facts
from bucketingest.services.archive.horizon import raise_horizon, read_horizon
from bucketingest.services.protocol.holder import Guarded
from bucketingest.storage import NotFound, Storage, object_names

log = logging.getLogger(__name__)

BYTES_MAX: Final = 16 * 1024**2
"""Of the content of the instants that are archived together, unless the first one has more."""
_MERGES_MAX: Final = 10

Key = tuple[str, str]
"""Request time and completed action."""


@dataclass(frozen=True, slots=True)
class ArchiveResult:
    """What a run did."""

    instants: tuple[Instant, ...] = ()
    """Archived now, by ascending request time."""
    pins: tuple[Pin, ...] = ()
    """What keeps old enough instants on the timeline, the strictest first."""
    removed: tuple[Instant, ...] = ()
    """Archived before, but on the timeline again, or still: now they are not."""


@dataclass(frozen=True, slots=True)
class _Look:
    """The active timeline at one moment, and every file of each instant."""

    timeline: Timeline
    states: Mapping[Key, Sequence[Instant]]

    @classmethod
    def at(cls, storage: Storage) -> _Look:
        names = object_names(storage, TIMELINE_DIRECTORY)
        states: defaultdict[Key, list[Instant]] = defaultdict(list)
        for instant in filter(None, map(Instant.try_parse, names)):
            states[instant.key].append(instant)
        return cls(Timeline.of_file_names(names), states)

    def holds(self, held: Held) -> Held:
        """With the compactions that two writers completed: one file is withdrawn, which must not be in the history."""
        completed = Counter(key for key, files in self.states.items() for each in files if each.is_completed)
        twice = (time for (time, action), count in completed.items() if action == COMMIT and count > 1)
        return replace(held, kept={**held.kept, **dict.fromkeys(twice, "two writers completed it")})

    def requested(self, instant: Instant) -> Instant | None:
        return next((each for each in self.states[instant.key] if each.state is State.REQUESTED), None)


def archive(table: Guarded, held: Held, rules: ArchiveRules) -> ArchiveResult:
    """Move the oldest instants that nothing pins into the history. May be repeated after a crash at any point.

    `held`: as of now. A table with Hudi's metadata table must not be archived by this: it ties the timeline to its own.
    Lists the whole table unless nothing is old enough.

    Raises what the table's lock and check raise, TimelineError if another writer archives without the lock, and
    InvalidTable for a damaged history. Every instant is in the history or on the timeline then, too.
    """
    storage, check = table.storage, table.check
    removed = put_back(storage, Timeline.load(storage), read_horizon(storage))
    before = _Look.at(storage)
    moment = table.clock()  # one for all: the facts are read for the writes that are old by now
    old = old_writes(before.timeline, rules, moment, held)
    if not old:
        return ArchiveResult(removed=removed)
    try:
        facts = read_facts(storage, before.timeline, old[: rules.instants_max], held.retired)
        nobodys = _not_known(storage, unknown_instants(facts.view, before.timeline, held, moment))
        if late := files_of(facts.view, {*held.aborted, *nobodys}):
            check()  # archived, they would be visible, or they keep it from its work
            sweep_late_files(storage, before.timeline, (), late)
            facts = read_facts(storage, before.timeline, old[: rules.instants_max], held.retired)
        choice = choose(before.timeline, facts, before.holds(held), rules, moment)
        rows = _rows(storage, before, choice.instants)
    except NotFound:  # another writer archives: the next run sees what it left
        log.info("archive: another writer changes the timeline; next time")
        return ArchiveResult(removed=removed)
    if not rows:
        return ArchiveResult((), choice.pins, removed)
    encoded = encode_rows(rows)
    with table.lock():
        check()
        now = _Look.at(storage)
        # The files were listed before: if what superseded them is gone, or another writer archives, they say nothing.
        if not set(before.timeline.completed) <= set(now.timeline.completed):
            return ArchiveResult((), choice.pins, removed)
        again = set(choose(now.timeline, facts, now.holds(held), rules, moment).instants)
        agreed = rows[: next((n for n, row in enumerate(rows) if row.instant not in again), len(rows))]
        if agreed:
            _record(storage, agreed, encoded if agreed == rows else None, check)
    if agreed:
        with table.lock():  # again, so that others may commit in between; a crash there leaves the same
            check()
            now = _Look.at(storage)
            saved = {each.request_time for each in now.timeline.instants if each.action == SAVEPOINT}
            agreed_instants = (row.instant for row in agreed)  # what follows one that stays must stay
            _take_off(storage, now, list(takewhile(lambda each: each.request_time not in saved, agreed_instants)))
        log.info("archived", extra={"instants": len(agreed), "up_to": agreed[-1].instant.request_time})
        _tidy(table)
    return ArchiveResult(tuple(row.instant for row in agreed), choice.pins, removed)


def _not_known(storage: Storage, instants: Collection[str]) -> set[str]:
    """Those that are not on the timeline now, as a paused writer may have put one there since it was read, nor in the
    history: a late compaction hides archived writes from readers, and their rows are the table's.
    """
    unknown = {*instants}
    if unknown:
        unknown -= Timeline.load(storage).times
    return unknown - archived_completion_times(storage, unknown).keys()


def put_back(storage: Storage, timeline: Timeline, horizon: str) -> tuple[Instant, ...]:
    """Delete files of instants up to the horizon that are on the timeline again, or still; returns these instants.

    Readers would take the oldest of them as the first active instant, and all that was archived after it as not
    committed. Only those whose rows are in the history are deleted, from the oldest on up to the first write that must
    stay: what follows that one would be hidden. A pending compaction came after the archival, which passes none: it is
    deleted too, even if another writer has started it, as it would hide the same instants when completed. Does nothing
    while an archival is between two steps.
    """
    found = [instant for instant in timeline.instants if instant.request_time <= horizon]
    if not found or not is_settled(storage):
        return ()
    history = archived_between(storage, found[0].request_time, found[-1].request_time)
    archived = {instant.key: instant for instant in history}
    savepoints = {instant.request_time for instant in found if instant.action == SAVEPOINT}
    doomed: list[Instant] = []
    saved = stay_behind_savepoint(storage, timeline) if savepoints else None
    for instant in found:
        if instant.request_time == saved:
            break
        row = archived.get(instant.key)
        same = row is not None and instant.completion_time in (None, row.completion_time)
        if instant.request_time not in savepoints and (same or _came_too_late(instant, row)):
            doomed.append(instant)
        elif instant.action in WRITE_ACTIONS and instant.request_time not in savepoints:
            break
    if doomed:
        log.warning("archived instants were on the timeline", extra={"instants": [each.file_name for each in doomed]})
        look = _Look.at(storage)
        _take_off(storage, look, doomed)
    return tuple(doomed)


def _came_too_late(instant: Instant, row: Instant | None) -> bool:
    return row is None and instant.action == COMPACTION and not instant.is_completed


def _rows(storage: Storage, look: _Look, instants: Iterable[Instant]) -> list[HistoryRow]:
    """Of the oldest of the instants, as many as may be in memory."""
    rows: list[HistoryRow] = []
    size = 0
    for instant in instants:
        row = read_row(storage, instant, look.requested(instant))
        size += row.size
        if rows and size > BYTES_MAX:
            break
        rows.append(row)
    return rows


def _record(storage: Storage, rows: Sequence[HistoryRow], encoded: bytes | None, check: Check) -> None:
    """Under the lock: into the history, and into the horizon. `encoded`: the rows, if they were encoded before."""
    settle(storage, check)
    missing = _not_archived(storage, rows)
    if missing:
        check()
        content = encoded if missing == rows else None
        publish(storage, write_history_file(storage, missing, content), (), check)
    if _not_archived(storage, rows):
        raise TimelineError(
            f"{storage.url}: the history does not have what was just archived: another writer archives without the "
            "table's lock; give it the lock"
        )
    raise_horizon(storage, rows[-1].instant.request_time, check)


def _not_archived(storage: Storage, rows: Sequence[HistoryRow]) -> list[HistoryRow]:
    """Those that readers of the history do not find."""
    first, last = rows[0].instant.request_time, rows[-1].instant.request_time
    archived = set(archived_between(storage, first, last))
    return [row for row in rows if row.instant not in archived]


def _take_off(storage: Storage, look: _Look, instants: Sequence[Instant]) -> None:
    """Delete every file of instants that are in the history. Nothing needs these files again, so a process that is
    paused in between does no harm.
    """
    files = [each for instant in instants for each in look.states.get(instant.key, ())]
    storage.delete_many([path_of(file) for state in reversed(PENDING_STATES) for file in files if file.state is state])
    markers = {path.rpartition("/")[2] for path in storage.list_level(TEMP_DIRECTORY).directories}
    for time in sorted(markers & {instant.request_time for instant in instants}):
        delete_markers(storage, time)
    # One by one: a hole between two of them would hide committed files from readers for a moment.
    for instant in instants:
        if instant.is_completed:
            storage.delete(path_of(instant))


def _tidy(table: Guarded) -> None:
    """Merge small history files, and delete those that are not needed any more."""
    for _ in range(_MERGES_MAX):
        if not merge_level(table.storage, table.check, table.lock):
            break
    with table.lock():
        table.check()
        delete_obsolete(table.storage, table.clock())
