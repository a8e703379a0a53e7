"""A compaction of Hudi that comes between the decision of our commit and its completed file: no row is lost.

A completed file has the time that was decided. If a compaction was planned after that time and without the commit's log
files, readers put these under the compaction's base file, whose rows are merged without them: silently lost. So such a
commit must not be completed, or must be rolled back, and its rows ingested again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from bucketingest.cli.main import call
from bucketingest.hudi.table.table import TableDefinition
from support.oracle.client import HudiOracle
from support.oracle.expected import MergeRules
from support.oracle.intercepted import InterceptedStorage, nothing
from support.oracle.local_pipeline import LocalPipeline
from support.oracle.readers import assert_read_alike
from support.oracle.writer import HudiWriter
from support.storage.crashing_storage import Crash

pytestmark = pytest.mark.hudi

SCHEMA: Final = pa.schema([("id", pa.string()), ("region", pa.string()), ("at", pa.int64()), ("value", pa.string())])
RULES: Final = MergeRules(key=["id"], partition_by=["region"], ordering="at")
KEY: Final = ["region", "id"]
DEFINITION: Final = TableDefinition("compacted", ("id",), ("region",), "at", buckets=2)
THEIRS: Final = HudiWriter("compacted", ["id"], ["region"], "at", buckets=2)


def rows(at: int, count: int = 60) -> pa.Table:
    """Half of them update rows of the call with `at` one less."""
    numbers = range(at * count // 2, at * count // 2 + count)
    regions = [["eu", "us"][number % 2] for number in numbers]
    columns: dict[str, list[Any]] = {"id": [f"key-{number}" for number in numbers], "region": regions}
    return pa.table(columns | {"at": [at] * count, "value": [f"value {at}"] * count}, schema=SCHEMA)


@pytest.fixture
def pipeline(tmp_path: Path) -> LocalPipeline:
    """One that has committed twice, so that there is something to compact."""
    pipeline = LocalPipeline(tmp_path / "table", DEFINITION, SCHEMA, RULES)
    pipeline.ingest(rows(0), rows(1))
    return pipeline


def judge(hudi: HudiOracle, pipeline: LocalPipeline) -> None:
    assert_read_alike(hudi, pipeline.path, pipeline.expected.table(), KEY)


def killed_before_its_completed_file(pipeline: LocalPipeline, batch: pa.Table) -> None:
    storage = InterceptedStorage.that_crashes(pipeline.storage)
    pipeline.start(storage)
    with pytest.raises(Crash):
        pipeline.ingest(batch)
    assert storage.reached


@pytest.mark.parametrize("command", [False, True], ids=["start", "rollback"])
@pytest.mark.parametrize("planned", [True, False], ids=["planned", "compacted"])
def test_rows_of_a_decided_commit_survive_a_compaction_before_the_next_start(
    hudi: HudiOracle, pipeline: LocalPipeline, planned: bool, command: bool
) -> None:
    killed_before_its_completed_file(pipeline, rows(2))
    if planned:
        assert hudi.schedule_compaction(pipeline.path, THEIRS).num_rows == 1
    else:
        hudi.compact(pipeline.path, THEIRS)

    if command:
        assert call(["rollback", str(pipeline.path), "--force"]) == 0
    pipeline.start()
    pipeline.catch_up()

    judge(hudi, pipeline)
    if planned:
        run_planned(hudi, pipeline)
    assert pipeline.leftovers() == []
    pipeline.ingest(rows(3))
    hudi.compact(pipeline.path, THEIRS)
    judge(hudi, pipeline)


def run_planned(hudi: HudiOracle, pipeline: LocalPipeline) -> None:
    """Run the plan that is on the timeline; what readers see stays as it was."""
    assert hudi.run_compaction(pipeline.path, THEIRS)["state"].to_pylist() == ["COMPLETED"]
    judge(hudi, pipeline)


class Scheduler:
    """Hudi's, without a lock: it lists the timeline before our completed file is there."""

    def __init__(self, hudi: HudiOracle, table: Path, kept: Path) -> None:
        self._hudi = hudi
        self._table = table
        self._kept = kept
        self._timeline = table / ".hoodie" / "timeline"

    def plan(self) -> None:
        """Its plan gets onto the timeline at once."""
        assert self._hudi.schedule_compaction(self._table, THEIRS).num_rows == 1

    def plan_slowly(self) -> None:
        """Its plan is made; `put` brings it onto the timeline."""
        self.plan()
        (found,) = self._timeline.glob("*.compaction.requested")
        found.rename(self._kept / found.name)
        found.with_name(f".{found.name}.crc").unlink(missing_ok=True)

    def put(self) -> None:
        """Its plan gets onto the timeline."""
        (found,) = self._kept.glob("*.compaction.requested")
        found.rename(self._timeline / found.name)


@pytest.mark.parametrize("slow", [False, True], ids=["before the completed file", "right after the completed file"])
def test_a_plan_that_misses_the_commit_is_noticed_and_its_rows_come_again(
    hudi: HudiOracle, pipeline: LocalPipeline, tmp_path: Path, slow: bool
) -> None:
    scheduler = Scheduler(hudi, pipeline.path, tmp_path)
    before, after = (scheduler.plan_slowly, scheduler.put) if slow else (scheduler.plan, nothing)
    storage = InterceptedStorage(pipeline.storage, before=before, after=after)
    pipeline.start(storage)
    pipeline.ingest(rows(2))
    assert storage.reached

    judge(hudi, pipeline)
    run_planned(hudi, pipeline)
    pipeline.ingest(rows(3))
    judge(hudi, pipeline)
