"""Readers that plan now and read later: the commits of a range, and the table as it was. Meanwhile much happens."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from support.simulation.judge.file_content import entries_of
from support.simulation.judge.incremental import Shown, before, changes
from support.simulation.judge.reader import Place, Snapshot
from support.simulation.store import Objects
from support.simulation.world import World

_PLANS: Final = 0.3
"""How often a reader comes after a commit."""
_BEGINS: Final = 3
_WAITS: Final = (1, 30, 200, 1000, 5000)


@dataclass(frozen=True, slots=True)
class _Plan:
    begin: str
    end: str
    instants: frozenset[str]
    """Those of the range."""
    sources: frozenset[str]
    """Those, and what wrote the rows of the table: also a late file of an instant that was rolled back, which readers
    take for an archived one until the next start sweeps it.
    """
    writes: frozenset[str]
    """All that had completed."""
    rows: Shown
    """What they brought, as a snapshot query shows it at the time of the plan."""
    table: Shown
    """All rows at that time."""
    taken_back: Mapping[Place, Any]
    """The newest version of each key in the files of instants that others took back: their rows come again, in order,
    and until the newest one is there, a reader of the later commits alone sees the older ones.
    """
    due: int


class Readers:
    """Those of one schedule. With random numbers of their own."""

    def __init__(self, seed: int, world: World, table: Objects, *, locks: bool) -> None:
        """`locks`: whether the pipeline holds the table's lock from the choice of a completion time to its file."""
        self._locks = locks
        self._rng = random.Random(f"readers {seed}")
        self._world = world
        self._table = table
        self._plans: list[_Plan] = []
        self._seen = 0

    def between_turns(self) -> None:
        """Plans are made after commits, and carried out when they are due."""
        done = self._world.counts["completes"] + self._world.counts["compactions completed"]
        if done > self._seen and self._rng.random() < _PLANS:
            self._plan()
        self._seen = done
        if any(plan.due <= self._world.steps for plan in self._plans):
            self._read(self._world.steps)

    def read_all(self) -> None:
        """Nothing happens any more: carry all plans out that are left."""
        self._read(None)

    def _plan(self) -> None:
        now = self._table.snapshot
        completed = now.instants.by_completion
        if not completed:
            return
        end = completed[-1].completion_time
        table = _shown(now)
        for begin in {
            self._rng.choice(["", *(each.completion_time for each in completed[:-1])]) for _ in range(_BEGINS)
        }:
            instants = frozenset(each.request_time for each in completed if begin < each.completion_time)
            rows = {place: row for place, row in table.items() if row["_hoodie_commit_time"] in instants}
            due = self._world.steps + self._rng.choice(_WAITS)
            gone = now.instants.rolled_back | self._table.overtaken
            sources = instants.union(row["_hoodie_commit_time"] for row in table.values())
            writes = frozenset(now.instants.completed)
            self._plans.append(_Plan(begin, end, instants, sources, writes, rows, table, _versions(now, gone), due))

    def _read(self, now: int | None) -> None:
        due = [plan for plan in self._plans if now is None or plan.due <= now]
        self._plans = [plan for plan in self._plans if plan not in due]
        table = self._table.snapshot
        for plan in due:
            gone = table.instants.rolled_back | self._table.overtaken
            if plan.sources & gone or not plan.instants <= table.instants.completed.keys():
                continue  # its rows come again, later
            if not self._locks and _came_late(plan, table):
                continue
            self._world.counts["reads"] += 1
            for violation in _wrong(plan, table):
                self._world.violation(violation)


def _came_late(plan: _Plan, table: Snapshot) -> bool:
    """Whether a write has completed since the plan at a time that the plan is past: without a common lock another
    writer's file can come between the choice of a time and the file, as between two writers of Hudi's.
    """
    writes = (each for each in table.instants.completed.values() if each.action == "deltacommit")
    return any(each.completion_time <= plan.end and each.request_time not in plan.writes for each in writes)


def _wrong(plan: _Plan, table: Snapshot) -> Iterator[str]:
    found = changes(table, plan.begin, plan.end)
    new = {place: row for place, row in found.items() if place in plan.rows or not _came_again(plan, place, row)}
    yield from _differs(f"Spark from {plan.begin or 'the beginning'} to {plan.end}", new, plan.rows)
    yield from _differs(f"the table as of {plan.end}", _shown(before(table, plan.end)), plan.table)


def _came_again(plan: _Plan, place: Place, row: Mapping[str, Any]) -> bool:
    """Whether this is a row of an instant that was taken back, which has a version of the key that is not older."""
    return place in plan.taken_back and row["at"] <= plan.taken_back[place]


def _versions(table: Snapshot, instants: Collection[str]) -> Mapping[Place, Any]:
    """The greatest ordering value of each key in the files of these instants."""
    found: dict[Place, Any] = {}
    for file in table.files:
        for entry in entries_of(file, table.objects[file.path]) if file.instant in instants else ():
            place = file.partition, entry.key
            found[place] = max(found.get(place, entry.ordering), entry.ordering)
    return found


def _differs(what: str, found: Shown, wanted: Shown) -> Iterator[str]:
    lost = [place for place in wanted if place not in found]
    more = [place for place in found if place not in wanted]
    other = [place for place in found if place in wanted and found[place]["offset"] != wanted[place]["offset"]]
    if lost or more or other:
        yield f"{what}: lacks {sorted(lost)}, has {sorted(more)} too, and other rows of {sorted(other)}"


def _shown(table: Snapshot) -> Shown:
    return {
        (partition, row["_hoodie_record_key"]): row
        for (partition, _), each in table.latest.items()
        for row in table.merged(each)
    }
