"""The simulation's own reader sees what the project's reader sees, in every kind of block."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Literal

import pytest

from bucketingest.hudi.log_reader import read_log
from support.simulation.process import Limits, Process, Surroundings
from support.simulation.reader import read
from support.simulation.source import draw_rows
from support.simulation.store import Objects
from support.simulation.tasks import Routes, installed
from support.simulation.world import Chances, World


@pytest.mark.parametrize("log_block", ["parquet", "avro"])
def test_both_readers_see_the_same_rows_and_deletions(log_block: Literal["parquet", "avro"]) -> None:
    world = World(1, Chances(), faults=0)
    clock = lambda: (world.steps, world.now())  # noqa: E731 - short, and used twice
    table, letters = (Objects(url, clock, world.violation) for url in ("sim://table", "sim://letters"))
    routes = Routes()
    around = Surroundings(world, table, letters, draw_rows(random.Random(1), 60))
    limits = Limits((10, 20), 2, 2, 0, log_block, 0.0, timedelta(0), None, locks=False)
    with installed(routes, world.now):
        world.spawn("process", Process("process", around, routes, limits).live)
        world.run(lambda: None)
    assert world.violations == []
    contents = {path: stored.content for path, stored in table.objects.items()}
    seen = [(entry.file.path, entry.key, entry.row) for entry in read(contents).entries()]
    expected = []
    for file in read(contents).visible(archived=False):
        for block in read_log(contents[file.path]):
            rows = [] if block.rows is None else block.rows.to_pylist()
            expected += [(file.path, row["_hoodie_record_key"], row) for row in rows]
            expected += [(file.path, delete.record_key, None) for delete in block.deletes]
    assert seen == expected
    assert {row is None for _, _, row in seen} == {True, False}
