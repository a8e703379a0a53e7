"""The other writers' table services change the objects in storage, but not what the simulation's reader shows."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from support.simulation.job.process import Limits, Process
from support.simulation.job.surroundings import Surroundings
from support.simulation.job.tasks import Routes, installed
from support.simulation.judge.instants import TIMELINE
from support.simulation.judge.reader import Place, read
from support.simulation.source import draw_rows
from support.simulation.store import Objects
from support.simulation.world import Chances, World
from support.simulation.writers import compaction
from support.simulation.writers.table_services import Service, TableServices
from support.simulation.writers.visit import Others, Visit

Rows = Mapping[Place, Sequence[Mapping[str, Any]]]


class Calm:
    """A table that a pipeline has written, without other active writers."""

    def __init__(self) -> None:
        self.world = World(1, Chances(), faults=0)
        self.table, letters = (
            Objects(url, lambda: (self.world.steps, self.world.now()), self.world.violation)
            for url in ("sim://table", "sim://letters")
        )
        self.around = Surroundings(self.world, self.table, [letters], draw_rows(random.Random(1), 40, growing=True))
        self.others = Others()
        routes = Routes()
        limits = Limits((5, 9), 1, 2, 0, 0.0, timedelta(0), None, locks=True)
        with installed(routes, self.world):
            for life in range(20):  # each but the last one is stopped by the schedule
                process = Process(f"process {life}", self.around, routes, limits)
                self.world.spawn(process.name, process.live)
                self.world.run(lambda: None)
                if process.finished:
                    break
            assert process.finished

    def serve(self, *services: Service) -> None:
        visit = Visit("services", self.world, self.table, self.others)
        self.world.spawn("services", TableServices(visit, services).live)
        self.world.run(lambda: None)
        assert self.world.violations == []

    @property
    def rows(self) -> Rows:
        return read(self.table.contents).rows()

    def paths(self, ending: str) -> list[str]:
        return [path for path in self.table.objects if path.endswith(ending)]


@pytest.mark.parametrize(
    "services", [["schedule"], ["schedule", "compact"], ["schedule", "compact", "clean"], ["archive"]]
)
def test_what_readers_see_stays(services: list[Service]) -> None:
    calm = Calm()
    before = calm.rows
    calm.serve(*services)
    assert _shown(calm.rows) == _shown(before)


def test_a_compaction_makes_a_base_file_of_each_file_group_and_a_clean_deletes_the_logs() -> None:
    calm = Calm()
    groups = len(read(calm.table.contents).groups)
    calm.serve("schedule", "compact", "clean")
    assert len(calm.paths(".parquet")) == groups
    assert not [path for path in calm.table.objects if ".log." in path]


def test_a_log_that_the_plan_of_its_compaction_leaves_out_is_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    calm = Calm()
    before = calm.rows
    original = compaction._operations

    def operations(*arguments: Any) -> list[dict[str, Any]]:
        return [each | {"deltaFilePaths": each["deltaFilePaths"][:-1]} for each in original(*arguments)]

    monkeypatch.setattr(compaction, "_operations", operations)
    calm.serve("schedule")
    assert _shown(calm.rows) == _shown(before)  # the slice of a pending compaction is read with the one before it
    calm.serve("compact")
    assert len(calm.rows) < len(before)


def test_archived_instants_are_in_the_history_and_not_on_the_timeline() -> None:
    calm = Calm()
    before = read(calm.table.contents).instants.completed
    for _ in range(6):  # how many instants it keeps is random
        calm.serve("archive")
    after = read(calm.table.contents).instants.completed
    assert after.keys() == before.keys()
    gone = [time for time, each in after.items() if not each.active]
    assert gone
    assert not [path for path in calm.table.objects if path.startswith(tuple(TIMELINE + time for time in gone))]


def test_a_deleted_partition_is_hidden_and_then_cleaned() -> None:
    calm = Calm()
    calm.serve("fill partition")
    assert ("zz", "foreign services") in calm.rows
    calm.serve("delete partition")
    assert ("zz", "foreign services") not in calm.rows
    calm.serve("clean")
    assert not [path for path in calm.table.objects if path.startswith("zz/.0")]


def test_an_added_column_is_seen_until_a_commit_lacks_it() -> None:
    calm = Calm()
    calm.serve("add column")
    assert [row["note"] for rows in calm.rows.values() for row in rows if row.get("note")] == ["services"]
    calm.serve("schedule", "compact")
    assert [row["note"] for rows in calm.rows.values() for row in rows if row.get("note")] == ["services"]


def _shown(rows: Rows) -> dict[Place, list[tuple[Any, ...]]]:
    return {place: [(row["offset"], row["at"]) for row in found] for place, found in rows.items()}
