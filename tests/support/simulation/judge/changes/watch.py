"""Judges each change of a table's own services at the moment at which it happens: later, nothing may show it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from bucketingest.hudi.timeline.instant_time import parse_time
from support.simulation.judge.changes.actors import is_own
from support.simulation.judge.changes.compactions import Compactions
from support.simulation.judge.changes.deletions import SUPERSEDES, Deletions
from support.simulation.judge.files import data_file
from support.simulation.judge.instants import TIMELINE
from support.simulation.store import Objects
from support.simulation.world import World

_COMPLETED: Final = re.compile(r"\.hoodie/timeline/(\d{17})_\d{17}\.(deltacommit|commit|replacecommit)")
_ENDED: Final = re.compile(r"\.hoodie/timeline/(\d{17})_(\d{17})\.(deltacommit|replacecommit)")
_STARTED: Final = re.compile(r"\.hoodie/timeline/(\d{17})\.[a-z]+\.requested")
_PROPERTIES: Final = ".hoodie/hoodie.properties"
_PROVES_A_TABLE: Final = re.compile(r"\.hoodie/(?:timeline/\d{17}|hoodie\.properties\.backup)")
_AHEAD: Final = timedelta(minutes=15)
_ROUND: Final = re.compile(r"(\.hoodie/\.bucketingest/services/compaction/\d+/)round/(\d+)/decision")
_OPENED: Final = re.compile(r"(\.hoodie/\.bucketingest/services/compaction/\d+/)round/\d+/opened")
_HEARTBEATS: Final = ".hoodie/.heartbeat/"
_STEPS_BETWEEN: Final = 5
"""A look at the timeline comes so many steps before the look at the heartbeat, at most."""
_GONE: Final = re.compile(r"\.hoodie/\.bucketingest/services/compaction/\d+/")
_GO: Final = re.compile(r"(\.hoodie/\.bucketingest/services/compaction/\d+/)go")


class TableWatch:
    """Looks at every change of a table before it happens."""

    def __init__(
        self, table: Objects, world: World, retain: timedelta | None, *, clocks_are_right: bool, reads: bool = False
    ) -> None:
        """`retain`: for how long readers keep the files of a slice that was superseded; None: that is not checked.
        `clocks_are_right`: else no process can say how old a heartbeat is. `reads`: times of services are such that
        incremental readers lose nothing.
        """
        self._table = table
        self._world = world
        self._deletions = Deletions(table, world, retain)
        self._compactions = Compactions(table)
        self._clocks_are_right = clocks_are_right
        self._reads = reads
        self._looked = -1

    def before(self, what: str, path: str, by: str, looked: int, asked: int) -> None:
        """Judge a change. `looked`: the step at which its actor had last listed the timeline; `asked`: of its call
        before this one.
        """
        self._looked = looked
        there = path in self._table.objects
        own = is_own(by)
        if own and path == _PROPERTIES and not there and what in ("create", "put"):
            self._report(by, self._makes_properties(asked))
        if own and what == "create" and (match := _STARTED.fullmatch(path)) is not None:
            self._report(by, self._is_ahead(match[1]))
        if what == "create" and not there:
            if SUPERSEDES.fullmatch(path):
                self._deletions.remember()
            elif _OPENED.fullmatch(path):
                self._world.counts["rounds"] += 1
        elif what == "put" and there and own and self._clocks_are_right and path.startswith(_HEARTBEATS):
            self._report(by, self._at_work(path, looked))
        elif what == "delete" and there and own:
            if (file := data_file(path)) is not None:
                self._report(by, self._deletions.needed(file, looked))
            elif " tidy " in by and (match := _COMPLETED.fullmatch(path)):
                self._report(by, self._deletions.pins(path, match[1], looked))

    def created(self, path: str) -> None:
        """Judge what is final: that a compaction may be carried out, and how a round ended."""
        content = self._table.objects[path].content
        root = _GONE.match(path)
        if root is not None and f"{root[0]}plan" not in self._table.objects:
            return  # a process that was paused until all of that compaction was forgotten: it never takes effect
        if self._reads and (match := _ENDED.fullmatch(path)) is not None:
            self._report("times", self._times(*match.groups()))
        if (match := _ROUND.fullmatch(path)) is not None:
            self._report("decision", self._compactions.bases(match[1], match[2], content))
        elif (match := _GO.fullmatch(path)) is not None and content == b"start":
            self._report("go", self._compactions.second_operations(match[1], self._looked))

    def _report(self, by: str, found: Iterator[str]) -> None:
        for violation in found:
            self._world.violation(f"{by}: {violation}")

    def _times(self, requested: str, done: str, action: str) -> Iterator[str]:
        """A clustering has a request time that no reader's range ends after which ends before it. No
        compaction is requested while an instant of ours is open: its log files would be in the new slice, whose base
        file completes after ranges that end with the instant.
        """
        instants = self._table.instants
        if action == "replacecommit":
            for each in instants.completed.values():
                if requested < each.completion_time < done:
                    yield f"{requested} replaces file groups as of {done}: {each.request_time} completed in between"
            return
        if not is_own(self._table.creators.get(f"{TIMELINE}{requested}.{action}.requested", "")):
            return
        for time in instants.plans:
            path = f"{TIMELINE}{time}.compaction.requested"
            if requested < time < done and is_own(self._table.creators.get(path, "")):
                yield f"compaction {time} was requested while {requested} was open, which completed at {done}"

    def _makes_properties(self, asked: int) -> Iterator[str]:
        """A table that is there is never made anew: its buckets and keys are what its properties said. A process whose
        request was on its way before anything was there cannot know (docs/exactly-once.md says so).
        """
        objects = self._table.objects.items()
        there = [path for path, found in objects if found.step <= asked and _PROVES_A_TABLE.match(path)]
        if there:
            yield f"{_PROPERTIES} is made anew beside {sorted(there)[:3]}"

    def _is_ahead(self, time: str) -> Iterator[str]:
        """No instant has a time that is far ahead: every later start would have to wait for it."""
        ahead = parse_time(time) - self._world.now()
        if ahead > _AHEAD:
            yield f"{time} is {ahead} ahead"

    def _at_work(self, path: str, looked: int) -> Iterator[str]:
        """A process takes a compaction over while another writer's executor is at work."""
        beat = self._table.objects[path]
        if beat.content or beat.step >= looked - _STEPS_BETWEEN:
            return
        alive = self._world.now() - beat.modified < timedelta(minutes=1)
        time, instants = path.removeprefix(_HEARTBEATS), self._table.instants
        # A scheduler without lock may give a compaction the time of our open instant, which has its own heartbeat.
        if alive and time in instants.compactions and time not in instants.pending:
            yield f"{path} is overwritten, and another writer's executor is at work"
