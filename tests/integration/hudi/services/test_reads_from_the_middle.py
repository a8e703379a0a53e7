"""Time travel and incremental reads that begin or end before, between and after our compactions give what they give
where Hudi compacted a copy of the table.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from bucketingest.cli.main import call
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.hudi.timeline.instant import DELTA_COMMIT
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.storage import open_storage
from support.oracle.client import HudiOracle
from support.oracle.compare import assert_same_rows
from support.oracle.expected import ExpectedTable, MergeRules
from support.oracle.readers import BEGINNING
from support.oracle.writer import HudiWriter
from support.tables.local_writer import LocalWriter

pytestmark = pytest.mark.hudi

SCHEMA = pa.schema(
    [("id", pa.string()), ("region", pa.string()), ("at", pa.int64()), ("value", pa.string()), ("gone", pa.bool_())]
)
KEY = ["region", "id"]
STEPS = ("new", "update", "late", "compact", "late", "update", "compact", "update", "late")
LATE = (2, 3, 6)
"""Numbers of the commits whose rows are older than those in the table."""
MOMENTS = (1, 2, 4, 5, 6)
RANGES = ((-1, 6), (1, 2), (1, 3), (2, 4), (4, 6))
"""Commits after which incremental reads begin, and with which they end; -1: from the beginning."""


@dataclass
class Side:
    """The table, compacted by us or by Hudi."""

    path: Path
    ordering: str | None
    writer: LocalWriter = field(init=False)

    def open(self) -> None:
        definition = TableDefinition("middle", ("id",), ("region",), self.ordering, buckets=2)
        self.writer = LocalWriter(self.path, definition, SCHEMA, deleted="gone")

    @property
    def commits(self) -> list[tuple[str, str]]:
        """Request and completion time of each."""
        timeline = Timeline.load(open_storage(str(self.path)))
        done = [each for each in timeline.completed if each.action == DELTA_COMMIT]
        return [(each.request_time, each.completion_time or "") for each in done]

    def changes(self, hudi: HudiOracle, begin: int, end: int) -> pa.Table:
        """What an incremental read of these commits shows, each row with the number of its commit."""
        commits = self.commits
        rows = hudi.incremental(self.path, commits[begin][1] if begin >= 0 else BEGINNING, commits[end][1])
        numbers = {request: number for number, (request, _) in enumerate(commits)}
        found = [numbers[time] for time in rows["_hoodie_commit_time"].to_pylist()]
        return rows.append_column("commit", pa.array(found, pa.int64()))


def batch(number: int, step: str) -> pa.Table:
    """40 keys of which half were in the batch before; of a late one, with ordering values that are older."""
    rows = [
        {
            "id": f"key-{key}",
            "region": ("eu", "us")[key % 2],
            "at": 0 if step == "late" else number,
            "value": f"{number}",
            "gone": key % 5 == number % 5,
        }
        for key in range(20 * (number % 3), 20 * (number % 3) + 40)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


@pytest.mark.parametrize("ordering", ["at", None], ids=["event time", "commit time"])
def test_reads_from_the_middle_are_those_of_a_table_that_hudi_compacted(
    hudi: HudiOracle, tmp_path: Path, ordering: str | None
) -> None:
    """An incremental read merges what its commits wrote, and base files that were made meanwhile. So it shows late rows
    although the table has newer ones.
    """
    ours, theirs = Side(tmp_path / "ours", ordering), Side(tmp_path / "by-hudi", ordering)
    hudis = HudiWriter("middle", ["id"], ["region"], ordering, buckets=2)
    expected = ExpectedTable(MergeRules(key=["id"], partition_by=["region"], ordering=ordering, deleted="gone"))
    batches: list[pa.Table] = []
    tables: list[pa.Table] = []
    ours.open()
    sides = [ours]
    for step in STEPS:
        if step == "compact":
            if len(sides) == 1:
                shutil.copytree(ours.path, theirs.path)
                theirs.open()
                sides.append(theirs)
            assert call(["compact", "--all", str(ours.path)]) == 0
            hudi.compact(theirs.path, hudis)
            expected.compact()
            continue
        batches.append(batch(len(batches), step))
        for side in sides:
            side.writer.commit(batches[-1])
        expected.apply(batches[-1])
        tables.append(expected.table())

    for number in MOMENTS:
        assert_same_rows(hudi.as_of(ours.path, ours.commits[number][1]), tables[number], KEY)
    for begin, end in RANGES:
        read, by_hudi = (side.changes(hudi, begin, end) for side in sides)
        assert_same_rows(read, by_hudi, KEY)
        if end - begin == 1 and end in LATE:
            late = batches[end].filter(pc.invert(batches[end]["gone"]))
            assert_same_rows(read.drop_columns(["commit"]), late, KEY)
