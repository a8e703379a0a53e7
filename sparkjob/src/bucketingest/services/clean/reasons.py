"""Why a file slice that is old enough stays: someone still needs it, or it has the only copy of some rows. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from bucketingest.hudi.plans.compaction_plan import CompactionOperation
from bucketingest.hudi.table.file_view import DataFile, FileGroup, FileSlice, Group
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.services.clean.facts import CleanFacts


class Reasons:
    """Asks the facts for reasons; each plan is indexed once."""

    def __init__(self, timeline: Timeline, facts: CleanFacts) -> None:
        self._timeline = timeline
        self._facts = facts
        self._operations = cache(self._operations_of)

    def to_keep(self, group: FileGroup, position: int) -> str | None:
        """Why the slice at this position stays, in words; None: it can go. Not for the newest slice, unless the group
        is replaced.
        """
        return next(self._all(group, position), None)

    def _all(self, group: FileGroup, position: int) -> Iterator[str]:
        file_slice, place = group.slices[position], (group.partition_path, group.file_id)
        paths = {file.path for file in _files(file_slice)}
        if place in self._facts.damaged:
            yield "a file of its file group's newest slice is gone or cut"
        for savepoint, files in self._facts.savepoints.items():
            if not paths.isdisjoint(files):
                yield f"savepoint {savepoint} keeps it"
        pending = self._facts.pending.get(place)
        if pending is not None and file_slice.base_instant >= pending.first_slice:
            yield f"pending {pending.name} reads its file group"
        if place in self._facts.replaced:
            yield from self._after_replacement(file_slice, place)
        else:
            yield from self._not_merged(file_slice, group.slices[position + 1], place)

    def _after_replacement(self, file_slice: FileSlice, place: Group) -> Iterator[str]:
        replacement = self._facts.replaced[place]
        for log in file_slice.log_files:
            if (self._timeline.completion_time(log.instant) or "") > (replacement.completion_time or ""):
                yield f"log file {log.name} completed after {replacement.request_time} had replaced its file group"

    def _not_merged(self, file_slice: FileSlice, newer: FileSlice, place: Group) -> Iterator[str]:
        instant = newer.base_instant
        superseder = self._facts.superseder(instant)
        if superseder is None:
            yield f"the plan or the commit of {instant}, which superseded it, is gone, or is being rolled back"
            return
        if newer.base_file is None or newer.base_file.path not in superseder.base_files:
            yield f"the commit of {instant} does not name the base file that superseded it"
        operation = self._operations(instant).get(place)
        merged = frozenset(operation.log_files) if operation else frozenset()
        lost = [log for log in file_slice.log_files if str(log.name) not in merged and log.path not in superseder.added]
        if lost:
            others = f" and {len(lost) - 1} more are" if len(lost) > 1 else " is"
            yield f"log file {lost[0].name}{others} not in the plan of {instant}, which superseded it"
        if superseder.plan is not None and _name(file_slice.base_file) != (operation and operation.base_file):
            yield f"the plan of {instant}, which superseded it, does not name its base file"

    def _operations_of(self, instant: str) -> Mapping[Group, CompactionOperation]:
        superseder = self._facts.superseder(instant)
        plan = None if superseder is None else superseder.plan
        return {} if plan is None else {operation.group: operation for operation in plan.operations}


def _files(file_slice: FileSlice) -> Iterator[DataFile]:
    yield from file_slice.log_files
    if file_slice.base_file is not None:
        yield file_slice.base_file


def _name(file: DataFile | None) -> str | None:
    return None if file is None else str(file.name)
