"""Judges each change of a table's own services at the moment at which it happens: later, nothing may show it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from bucketingest.hudi.timeline.instant import COMMIT
from bucketingest.hudi.timeline.instant_time import parse_time
from support.simulation.judge.file_content import entries_of
from support.simulation.judge.files import DataFile, data_file
from support.simulation.judge.instants import TIMELINE, plan_of_clean
from support.simulation.judge.reader import Slice, Snapshot, read
from support.simulation.records import record
from support.simulation.source import FOREIGN_TOKEN, SCHEMA
from support.simulation.store import Objects
from support.simulation.world import World

_OWN: Final = "process "
"""Names of the pipeline's actors begin so; those of other writers do not."""
_SUPERSEDES: Final = re.compile(r"\.hoodie/timeline/\d{17}_\d{17}\.(?:commit|replacecommit)")
_COMPLETED: Final = re.compile(r"\.hoodie/timeline/(\d{17})_\d{17}\.(deltacommit|commit|replacecommit)")
_ENDED: Final = re.compile(r"\.hoodie/timeline/(\d{17})_(\d{17})\.(deltacommit|replacecommit)")
_STARTED: Final = re.compile(r"\.hoodie/timeline/(\d{17})\.[a-z]+\.requested")
_PROPERTIES: Final = ".hoodie/hoodie.properties"
_PROVES_A_TABLE: Final = re.compile(r"\.hoodie/(?:timeline/\d{17}|hoodie\.properties\.backup)")
_AHEAD: Final = timedelta(minutes=15)
_ROUND: Final = re.compile(r"(\.hoodie/\.bucketingest/services/compaction/\d+/)round/(\d+)/decision")
_OPENED: Final = re.compile(r"(\.hoodie/\.bucketingest/services/compaction/\d+/)round/\d+/opened")
_HEARTBEATS: Final = ".hoodie/.heartbeat/"
_ROLLBACK: Final = re.compile(r"\.hoodie/timeline/(\d{17})\.rollback\.requested")
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
        self._retain = retain
        self._clocks_are_right = clocks_are_right
        self._reads = reads
        self._looked = -1
        self._read_until: dict[str, datetime] = {}
        """Data file -> when it was last a part of what new readers read."""

    def before(self, what: str, path: str, by: str, looked: int) -> None:
        """Judge a change. `looked`: the step at which its actor had last listed the timeline."""
        self._looked = looked
        there = path in self._table.objects
        own = by.startswith(_OWN)
        if own and path == _PROPERTIES and not there and what in ("create", "put"):
            self._report(by, self._makes_properties())
        if own and what == "create" and (match := _STARTED.fullmatch(path)) is not None:
            self._report(by, self._is_ahead(match[1]))
        if what == "create" and not there:
            if _SUPERSEDES.fullmatch(path):
                self._remember()
            elif _OPENED.fullmatch(path):
                self._world.counts["rounds"] += 1
        elif what == "put" and there and own and self._clocks_are_right and path.startswith(_HEARTBEATS):
            self._report(by, self._at_work(path, looked))
        elif what == "delete" and there and own:
            if (file := data_file(path)) is not None:
                self._report(by, self._needed(file, looked))
            elif " tidy " in by and (match := _COMPLETED.fullmatch(path)):
                self._report(by, self._pins(path, match[1], looked))

    def created(self, path: str) -> None:
        """Judge what is final: that a compaction may be carried out, and how a round ended."""
        content = self._table.objects[path].content
        root = _GONE.match(path)
        if root is not None and f"{root[0]}plan" not in self._table.objects:
            return  # a process that was paused until all of that compaction was forgotten: it never takes effect
        if self._reads and (match := _ENDED.fullmatch(path)) is not None:
            self._report("times", self._times(*match.groups()))
        if (match := _ROUND.fullmatch(path)) is not None:
            self._report("decision", self._bases(match[1], match[2], content))
        elif (match := _GO.fullmatch(path)) is not None and content == b"start":
            self._report("go", self._second_operations(match[1], self._looked))

    def _report(self, by: str, found: Iterator[str]) -> None:
        for violation in found:
            self._world.violation(f"{by}: {violation}")

    def _read(self) -> Snapshot:
        return read(self._table.contents)

    def _since(self, path: str) -> int:
        stored = self._table.objects.get(path)
        return -1 if stored is None else stored.step

    def _remember(self) -> None:
        now = self._world.now()
        for part in self._read().latest.values():
            for file in part.files:
                self._read_until[file.path] = now

    def _needed(self, file: DataFile, looked: int) -> Iterator[str]:
        """Why this file must not be deleted."""
        table = self._read()
        instants = table.instants
        completed = instants.completed.get(file.instant)
        undone = file.instant in instants.rolled_back or file.instant in self._table.overtaken
        if completed is None or undone or file.group in instants.replaced or not instants.is_visible(file.instant):
            return
        if not file.is_base and completed.action == COMMIT:
            return  # of an instant that never completed: a compaction, which writes none, has taken its time
        if file.is_base and not any(file.path == each for each in _paths(completed.metadata)):
            return  # of a round that was not committed
        if file.is_base and self._has_twin(table, file, looked):
            return
        latest = table.latest.get(file.group)
        if latest is not None and file in latest.files:
            yield f"{file.path} is deleted, a part of the latest slice"
        for savepoint, files in instants.savepoints.items():
            if file.path in files and self._since(f"{TIMELINE}{savepoint}") < looked:
                yield f"{file.path} is deleted, which savepoint {savepoint} keeps"
        for time, plan in instants.compactions.items():
            if file.path in _inputs(plan) and self._since(f"{TIMELINE}{time}.compaction.requested") < looked:
                yield f"{file.path} is deleted, which pending compaction {time} reads"
        if self._retain is not None and not self._is_cleaned_by_another(file.path):
            until = self._read_until.get(file.path)
            if until is not None and self._world.now() - until < self._retain:
                yield f"{file.path} is deleted {self._world.now() - until} after readers could begin to read it"

    def _has_twin(self, table: Snapshot, file: DataFile, looked: int) -> bool:
        """Whether another writer has just completed a compaction with it that we had completed with base files of our
        own: one of the two goes.
        """
        since = [self._since(p) for p in table.objects if _SUPERSEDES.fullmatch(p) and f"/{file.instant}_" in p]
        twins = [each for each in table.files if each.is_base and each.group == file.group]
        return len(since) > 1 and max(since) >= looked and sum(each.instant == file.instant for each in twins) > 1

    def _is_cleaned_by_another(self, path: str) -> bool:
        """Whether the plan of another writer's clean names it: that writer decided what is retained."""
        return any(
            path in plan_of_clean(stored.content)
            for name, stored in self._table.objects.items()
            if name.endswith(".clean.requested") and not self._table.creators.get(name, "").startswith(_OWN)
        )

    def _pins(self, completed: str, instant: str, looked: int) -> Iterator[str]:
        """Why a completed instant, and its file `completed`, must not leave the timeline."""
        table = self._read()
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
        if any(time[:17] <= instant and self._since(f"{TIMELINE}{time}") < looked for time in instants.savepoints):
            yield f"{instant} is archived, which is not older than a savepoint"
        if instant > self._table.archived_up_to:
            for group, parts in table.groups.items():
                for part in parts:
                    # A task that was cut off writes again what a clean has deleted. It is no part of what readers read.
                    since = None if part == table.latest.get(group) else self._since(completed)
                    for log in (each for each in part.logs if each.instant == instant):
                        if since is None or self._since(log.path) < since:
                            yield f"{instant} is archived, and {log.path} is in a slice"

    def _is_kept(self, instant: str, ranges: str) -> bool:
        """Whether the position as of this instant is stored beside the timeline."""
        kept = (o.content for path, o in self._table.objects.items() if path.endswith(f"/position/{instant}"))
        return json.loads(ranges)[-1] in [json.loads(content) for content in kept]

    def _times(self, requested: str, done: str, action: str) -> Iterator[str]:
        """A merge of file groups has a request time that no reader's range ends after which ends before it. No
        compaction is requested while an instant of ours is open: its log files would be in the new slice, whose base
        file completes after ranges that end with the instant.
        """
        instants = self._read().instants
        if action == "replacecommit":
            for each in instants.completed.values():
                if requested < each.completion_time < done:
                    yield f"{requested} replaces file groups as of {done}: {each.request_time} completed in between"
            return
        for time in instants.plans:
            path = f"{TIMELINE}{time}.compaction.requested"
            if requested < time < done and self._table.creators.get(path, "").startswith(_OWN):
                yield f"compaction {time} was requested while {requested} was open, which completed at {done}"

    def _makes_properties(self) -> Iterator[str]:
        """A table that is there is never made anew: its buckets and keys are what its properties said."""
        there = [path for path in self._table.objects if _PROVES_A_TABLE.match(path)]
        if there:
            yield f"{_PROPERTIES} is made anew beside {sorted(there)[:3]}"

    def _is_ahead(self, time: str) -> Iterator[str]:
        """No instant has a time that is far ahead: every later start would have to wait for it."""
        ahead = parse_time(time) - self._world.now()
        if ahead > _AHEAD:
            yield f"{time} is {ahead} ahead"

    def _second_operations(self, root: str, looked: int) -> Iterator[str]:
        """A compaction may be carried out although a file group of it was in another pending one."""
        plan = self._table.objects[f"{root}plan"].content.partition(b"\n")[2]
        instants = self._read().instants
        own = next((t for t, each in instants.compactions.items() if each == record(plan)), None)
        if own is None or self._is_started_by_another(own):
            return
        for time, other in instants.compactions.items():
            both = _groups(other) & _groups(instants.compactions[own])
            since = self._since(f"{TIMELINE}{time}.compaction.requested")
            if time != own and both and since < looked:
                yield f"{sorted(both)} are in two pending compactions: {own} and {time}"

    def _is_started_by_another(self, compaction: str) -> bool:
        """Whether another writer was faster than our look at what came before: it carries it out, whatever we say."""
        inflight = f"{TIMELINE}{compaction}.compaction.inflight"
        return inflight in self._table.objects and not self._table.creators.get(inflight, "").startswith(_OWN)

    def _bases(self, root: str, number: str, content: bytes) -> Iterator[str]:
        """Each base file of the round has the rows of all logs that completed before the compaction."""
        commit = content.partition(b"\n")[2]
        if not commit:
            return
        results = f"{root}round/{number}/result/"
        asked = max((o.step for path, o in self._table.objects.items() if path.startswith(results)), default=0)
        table = self._read()
        yield from self._rolled_back(root, number, asked)
        for path in _paths(record(commit)):
            base = data_file(path)
            if base is not None and path in table.objects and base.group not in table.instants.replaced:
                yield from self._base(table, base, asked)

    def _compaction(self, root: str) -> str:
        return str(json.loads(self._table.objects[f"{root}plan"].content.partition(b"\n")[0])["compaction"])

    def _rolled_back(self, root: str, number: str, asked: int) -> Iterator[str]:
        """A rollback that came before the last base file does away with the round, and is finished before the next."""
        compaction = self._compaction(root)
        known = json.loads(self._table.objects[f"{root}round/{number}/opened"].content)["rollbacks"]
        for path, stored in self._table.objects.items():
            match = _ROLLBACK.fullmatch(path)
            if match is None or stored.step >= asked or not stored.content:
                continue
            if record(stored.content)["instantToRollback"]["commitTime"] != compaction:
                continue
            finished = any(p.startswith(f"{TIMELINE}{match[1]}_") for p in self._table.objects)
            if match[1] not in known or not finished:
                yield f"round {number} of {compaction} is committed beside its rollback {match[1]}"

    def _at_work(self, path: str, looked: int) -> Iterator[str]:
        """A process takes a compaction over while another writer's executor is at work."""
        beat = self._table.objects[path]
        if beat.content or beat.step >= looked - _STEPS_BETWEEN:
            return
        alive = self._world.now() - beat.modified < timedelta(minutes=1)
        time, instants = path.removeprefix(_HEARTBEATS), self._read().instants
        # A scheduler without lock may give a compaction the time of our open instant, which has its own heartbeat.
        if alive and time in instants.compactions and time not in instants.pending:
            yield f"{path} is overwritten, and another writer's executor is at work"

    def _base(self, table: Snapshot, base: DataFile, asked: int) -> Iterator[str]:
        instants = table.instants
        if base.instant in instants.completed:
            return  # by another writer, which may have cleaned the logs since
        files = [file for file in table.files if file.group == base.group and instants.is_committed(file.instant)]
        older = [file for file in files if file.is_base and file.instant < base.instant]
        before = max(older, key=lambda file: file.instant, default=None)
        # A base file whose plan came later, without lock, may lack rows of logs that this compaction's plan names.
        planned = _inputs(instants.plans.get(base.instant, {}))
        deleted = (path for path in planned if path not in self._table.objects and base.group[1] in path)
        if any(path.endswith(FOREIGN_TOKEN) for path in deleted):
            return  # a rollback of another writer's instant, which completed meanwhile, deleted it
        logs = []
        for log in files:
            done = None if log.is_base else instants.completion_time(log.instant)
            if done is None or done >= base.instant:
                continue
            if before is not None and done < before.instant and log.path not in planned:
                continue
            if log.instant in instants.rolled_back or log.instant in self._table.overtaken:
                return  # whether its rows are in is not decided
            if self._since(f"{TIMELINE}{log.instant}_{done}.deltacommit") >= asked:
                return  # it came while the round was decided: the audit finds it
            logs.append(log)
        logs.sort(key=lambda each: each.order)
        wanted = _rows(table.merged(Slice("", before, tuple(logs))))
        found = _rows(entry.row for entry in entries_of(base, table.objects[base.path]) if entry.row is not None)
        if wanted != found:
            yield f"{base.path} has {found}, and should have {wanted} of {[log.path for log in logs]}"


def _rows(rows: Any) -> dict[str, tuple[Any, ...]]:
    return {row["_hoodie_record_key"]: tuple(row[name] for name in SCHEMA.names) for row in rows}


def _paths(commit: Mapping[str, Any]) -> list[str]:
    return [stat["path"] for stats in (commit["partitionToWriteStats"] or {}).values() for stat in stats]


def _groups(plan: Mapping[str, Any]) -> set[tuple[str, str]]:
    return {(each["partitionPath"], each["fileId"]) for each in plan["operations"] or ()}


def _inputs(plan: Mapping[str, Any]) -> set[str]:
    return {
        f"{each['partitionPath']}/{name}"
        for each in plan.get("operations") or ()
        for name in (each["dataFilePath"], *each["deltaFilePaths"])
        if name is not None
    }
