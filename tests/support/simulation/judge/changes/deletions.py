"""Judges deletions by the pipeline at the moment at which they happen: of data files, and of completed instants."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from bucketingest.hudi.timeline.instant import COMMIT
from support.simulation.judge.changes.actors import is_own
from support.simulation.judge.files import DataFile, inputs_of, named_files
from support.simulation.judge.instants import TIMELINE, plan_of_clean
from support.simulation.judge.reader import Snapshot
from support.simulation.store import Objects
from support.simulation.world import World

SUPERSEDES: Final = re.compile(r"\.hoodie/timeline/\d{17}_\d{17}\.(?:commit|replacecommit)")
"""After it, files that readers read are no longer needed."""


class Deletions:
    """Knows until when readers could begin to read each file."""

    def __init__(self, table: Objects, world: World, retain: timedelta | None) -> None:
        """`retain`: for how long readers keep the files of a slice that was superseded; None: that is not checked."""
        self._table = table
        self._world = world
        self._retain = retain
        self._read_until: dict[str, datetime] = {}
        """Data file -> when it was last a part of what new readers read."""

    def remember(self) -> None:
        """Something newer is about to supersede what readers read."""
        now = self._world.now()
        for part in self._table.snapshot.latest.values():
            for file in part.files:
                self._read_until[file.path] = now

    def needed(self, file: DataFile, looked: int) -> Iterator[str]:
        """Why this file must not be deleted."""
        table = self._table.snapshot
        instants = table.instants
        completed = instants.completed.get(file.instant)
        undone = file.instant in instants.rolled_back or file.instant in self._table.overtaken
        if completed is None or undone or file.group in instants.replaced or not instants.is_visible(file.instant):
            return
        if not file.is_base and completed.action == COMMIT:
            return  # of an instant that never completed: a compaction, which writes none, has taken its time
        if file.is_base and not any(file.path == each for each in named_files(completed.metadata)):
            return  # of a round that was not committed
        if file.is_base and self._has_twin(table, file, looked):
            return
        latest = table.latest.get(file.group)
        if latest is not None and file in latest.files:
            yield f"{file.path} is deleted, a part of the latest slice"
        for savepoint, files in instants.savepoints.items():
            if file.path in files and self._table.since(f"{TIMELINE}{savepoint}") < looked:
                yield f"{file.path} is deleted, which savepoint {savepoint} keeps"
        for time, plan in instants.compactions.items():
            if file.path in inputs_of(plan) and self._table.since(f"{TIMELINE}{time}.compaction.requested") < looked:
                yield f"{file.path} is deleted, which pending compaction {time} reads"
        if self._retain is not None and not self._is_cleaned_by_another(file.path):
            until = self._read_until.get(file.path)
            if until is not None and self._world.now() - until < self._retain:
                yield f"{file.path} is deleted {self._world.now() - until} after readers could begin to read it"

    def _has_twin(self, table: Snapshot, file: DataFile, looked: int) -> bool:
        """Whether another writer has just completed a compaction with it that we had completed with base files of our
        own: one of the two goes.
        """
        since = [self._table.since(p) for p in table.objects if SUPERSEDES.fullmatch(p) and f"/{file.instant}_" in p]
        twins = [each for each in table.files if each.is_base and each.group == file.group]
        return len(since) > 1 and max(since) >= looked and sum(each.instant == file.instant for each in twins) > 1

    def _is_cleaned_by_another(self, path: str) -> bool:
        """Whether the plan of another writer's clean names it: that writer decided what is retained."""
        return any(
            path in plan_of_clean(stored.content)
            for name, stored in self._table.objects.items()
            if name.endswith(".clean.requested") and not is_own(self._table.creators.get(name, ""))
        )

    def pins(self, completed: str, instant: str, looked: int) -> Iterator[str]:
        """Why a completed instant, and its file `completed`, must not leave the timeline."""
        table = self._table.snapshot
        instants = table.instants
        active = {each.request_time: each for each in instants.completed.values() if each.active}
        if instant in instants.rolled_back or instant in self._table.overtaken or instant not in active:
            return
        files = [path for path in self._table.objects if path.startswith(f"{TIMELINE}{instant}_")]
        if len(files) > 1:
            return  # two writers completed it: one file goes, and the instant stays
        if (older := self._table.first_active(instant)) != instant:
            yield f"{instant} is archived before {older}: readers take all between for uncommitted"
        own = active[instant]
        if (
            "bucketingest.ranges" in own.extra
            and not any(
                each.request_time > instant
                and each.extra.get("bucketingest.pipeline") == own.extra["bucketingest.pipeline"]
                for each in active.values()
            )
            and not self._is_kept(instant, own.extra["bucketingest.ranges"])
        ):
            yield f"{instant} is archived, the newest position of its pipeline"
        if any(
            time[:17] <= instant and self._table.since(f"{TIMELINE}{time}") < looked for time in instants.savepoints
        ):
            yield f"{instant} is archived, which is not older than a savepoint"
        if instant > self._table.archived_up_to:
            for group, parts in table.groups.items():
                for part in parts:
                    # A task that was cut off writes again what a clean has deleted. It is no part of what readers read.
                    since = None if part == table.latest.get(group) else self._table.since(completed)
                    for log in (each for each in part.logs if each.instant == instant):
                        if since is None or self._table.since(log.path) < since:
                            yield f"{instant} is archived, and {log.path} is in a slice"

    def _is_kept(self, instant: str, ranges: str) -> bool:
        """Whether the position as of this instant is stored beside the timeline."""
        kept = (o.content for path, o in self._table.objects.items() if path.endswith(f"/position/{instant}"))
        return any(json.loads(ranges)[-1].items() <= json.loads(content).items() for content in kept)
