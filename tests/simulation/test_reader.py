"""The simulation's own reader sees what the project's reader sees, in every kind of block."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Literal

import pytest

from bucketingest.hudi.log.reader import read_log
from support.simulation.job.process import Limits, Process
from support.simulation.job.surroundings import Surroundings
from support.simulation.job.tasks import Routes, installed
from support.simulation.judge.file_content import entries_of
from support.simulation.judge.reader import read
from support.simulation.source import draw_rows
from support.simulation.spec import JobSpec
from support.simulation.store import Objects
from support.simulation.world import Chances, World


@pytest.mark.parametrize("log_block", ["parquet", "avro"])
def test_both_readers_see_the_same_rows_and_deletions(log_block: Literal["parquet", "avro"]) -> None:
    world = World(1, Chances(), faults=0)
    clock = lambda: (world.steps, world.now())  # noqa: E731 - short, and used twice
    table, letters = (Objects(url, clock, world.violation) for url in ("sim://table", "sim://letters"))
    routes = Routes()
    around = Surroundings(world, table, [letters], draw_rows(random.Random(2), 300))
    limits = Limits((10, 20), 2, 2, 0, 0.0, timedelta(0), None, locks=False)
    with installed(routes, world):
        world.spawn("process", Process("process", around, routes, limits, JobSpec(log_block=log_block)).live)
        world.run(lambda: None)
    assert world.violations == []
    found = read(table.contents)
    files = [file for file in found.files if found.instants.is_visible(file.instant)]
    seen = [
        (file.path, entry.key, entry.row) for file in files for entry in entries_of(file, table.contents[file.path])
    ]
    expected = []
    for file in files:
        for block in read_log(table.contents[file.path]):
            rows = [] if block.rows is None else block.rows.to_pylist()
            expected += [(file.path, row["_hoodie_record_key"], row) for row in rows]
            expected += [(file.path, delete.record_key, None) for delete in block.deletes]
    assert seen == expected
    assert {row is None for _, _, row in seen} == {True, False}
