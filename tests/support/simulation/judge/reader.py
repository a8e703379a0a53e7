"""A small reader of the table that shares no code with the project: what Hudi's readers show, from the files alone.

It resolves file slices as Hudi 1.2.0 does: keys are base files and pending compactions, and a log file belongs to the
slice with the greatest key that is not above the log's completion time. A snapshot shows the latest slice of each file
group, and nothing of the others.
"""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from support.simulation.judge.file_content import Entry, entries_of
from support.simulation.judge.files import DataFile, data_file
from support.simulation.judge.instants import Instants, read_instants

Place = tuple[str, str]
"""Partition and record key."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A base file and the logs on top of it, in the order in which they are merged."""

    key: str
    base: DataFile | None
    logs: tuple[DataFile, ...]

    @property
    def files(self) -> tuple[DataFile, ...]:
        """All of them."""
        return (*((self.base,) if self.base else ()), *self.logs)


@dataclass(frozen=True)
class Snapshot:
    """The table at one moment."""

    instants: Instants
    files: tuple[DataFile, ...]
    objects: Mapping[str, bytes] = field(repr=False)

    def without(self, instants: Collection[str]) -> Snapshot:
        """The table without the log files of these instants."""
        return replace(self, files=tuple(file for file in self.files if file.is_base or file.instant not in instants))

    @functools.cached_property
    def groups(self) -> Mapping[tuple[str, str], tuple[Slice, ...]]:
        """The visible slices of each file group that was not replaced, oldest first."""
        files: defaultdict[tuple[str, str], list[DataFile]] = defaultdict(list)
        for file in self.files:
            files[file.group].append(file)
        return {
            group: slices
            for group, found in sorted(files.items())
            if group not in self.instants.replaced and (slices := self._slices(group, found))
        }

    @functools.cached_property
    def latest(self) -> Mapping[tuple[str, str], Slice]:
        """What a snapshot query reads of each file group."""
        return {group: self._merged_with_the_one_before(group, slices) for group, slices in self.groups.items()}

    def entries(self) -> Iterator[Entry]:
        """Every row and deletion in the slices that a snapshot query reads."""
        for each in self.latest.values():
            for file in each.files:
                yield from entries_of(file, self.objects[file.path])

    def rows(self) -> dict[Place, list[Mapping[str, Any]]]:
        """What a snapshot query shows; more than one row of a key means that two file groups of a partition have it."""
        shown: defaultdict[Place, list[Mapping[str, Any]]] = defaultdict(list)
        columns = self.instants.columns
        for (partition, _), each in self.latest.items():
            for row in self.merged(each):
                visible = row if columns is None else {name: row[name] for name in columns if name in row}
                shown[partition, row["_hoodie_record_key"]].append(visible)
        return dict(shown)

    def merged(self, part: Slice) -> list[Mapping[str, Any]]:
        """The rows of a slice, deleted ones left out."""
        base = () if part.base is None else entries_of(part.base, self.objects[part.base.path])
        logs = (entry for file in part.logs for entry in entries_of(file, self.objects[file.path]))
        return list(_merged(base, logs))

    def pending_compaction(self, group: tuple[str, str]) -> str | None:
        """Request time of the newest pending compaction of a file group."""
        return max(self._compactions_of(group), default=None)

    def _compactions_of(self, group: tuple[str, str]) -> list[str]:
        return [
            time
            for time, plan in self.instants.compactions.items()
            if any((each["partitionPath"], each["fileId"]) == group for each in plan["operations"] or ())
        ]

    def _slices(self, group: tuple[str, str], files: list[DataFile]) -> tuple[Slice, ...]:
        instants = self.instants
        bases = {file.instant: file for file in sorted(files, key=lambda each: each.path) if file.is_base}
        pending = set(self._compactions_of(group))
        keys = sorted(bases.keys() | pending)
        placed: defaultdict[str, list[DataFile]] = defaultdict(list)
        own = None  # key of the slice of logs that no other takes
        for log in sorted((file for file in files if not file.is_base), key=lambda each: each.order):
            if not instants.is_visible(log.instant):
                continue
            done = instants.completion_time(log.instant)
            at = len(keys) if done is None else bisect_right(keys, done)
            if at == 0:
                own = own or log.instant
            placed[keys[at - 1] if at else own or ""].append(log)
        found = []
        for key in ([own] if own else []) + keys:
            base = bases.get(key)
            if base is not None and not instants.is_visible(key):
                base = None
                if key not in pending:
                    continue  # readers leave out a slice with an uncommitted base file, its logs too
            found.append(Slice(key, base, tuple(placed[key])))
        return tuple(found)

    def _merged_with_the_one_before(self, group: tuple[str, str], slices: tuple[Slice, ...]) -> Slice:
        newest = slices[-1]
        if newest.base is not None or newest.key not in self._compactions_of(group) or len(slices) == 1:
            return newest
        before = slices[-2]
        return Slice(before.key, before.base, tuple(sorted(before.logs + newest.logs, key=lambda each: each.order)))


def read(objects: Mapping[str, bytes]) -> Snapshot:
    """The table in these objects (path -> content)."""
    files = tuple(file for path in objects if (file := data_file(path)) is not None)
    return Snapshot(read_instants(objects), files, objects)


def _merged(base: Iterable[Entry], logs: Iterable[Entry]) -> Iterator[Mapping[str, Any]]:
    """Logs first, then base, as event-time ordering decides: the greater wins, of equals the later."""
    newest: dict[str, Entry] = {}
    for entry in logs:
        known = newest.get(entry.key)
        if known is None or entry.ordering >= known.ordering:
            newest[entry.key] = entry
    for old in base:
        new = newest.pop(old.key, None)
        winner = old if new is None or new.ordering < old.ordering else new
        if winner.row is not None:
            yield winner.row
    yield from (entry.row for entry in newest.values() if entry.row is not None)
