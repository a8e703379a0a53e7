"""Hudi's writer adds a column while our writer runs: our next commits must not make it disappear.

Readers take the table's columns from its newest commit. If our commit names only the columns of our own rows,
it hides the others, and a compaction after it drops their values for good.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from bucketingest.hudi.table.table import TableDefinition
from support.oracle.client import HudiOracle
from support.oracle.expected import MergeRules
from support.oracle.local_pipeline import LocalPipeline
from support.oracle.readers import assert_read_alike
from support.oracle.writer import HudiWriter

pytestmark = pytest.mark.hudi

SCHEMA: Final = pa.schema([("id", pa.string()), ("region", pa.string()), ("at", pa.int64()), ("value", pa.string())])
RULES: Final = MergeRules(key=["id"], partition_by=["region"], ordering="at")
KEY: Final = ["region", "id"]
DEFINITION: Final = TableDefinition("widened", ("id",), ("region",), "at", buckets=2)
THEIRS: Final = HudiWriter("widened", ["id"], ["region"], "at", buckets=2)
NOTES: Final = 50


def rows(at: int, label: str = "ours", count: int = 60) -> pa.Table:
    """Those of one label: half of them update rows of the call with `at` one less."""
    numbers = range(at * count // 2, at * count // 2 + count)
    regions = [["eu", "us"][number % 2] for number in numbers]
    columns: dict[str, list[Any]] = {"id": [f"{label}-{number}" for number in numbers], "region": regions}
    return pa.table(columns | {"at": [at] * count, "value": [f"value {at}"] * count}, schema=SCHEMA)


def with_notes() -> pa.Table:
    """Rows of Hudi's writer, with a column that ours do not have."""
    return rows(0, "theirs", NOTES).append_column("note", pa.array([f"note {n}" for n in range(NOTES)]))


def judge(hudi: HudiOracle, pipeline: LocalPipeline) -> None:
    """Snapshot and incremental read have the column with its values, and all rows."""
    expected = pipeline.expected.table()
    assert len(expected) - expected["note"].null_count == NOTES
    assert_read_alike(hudi, pipeline.path, expected, KEY)


@pytest.mark.parametrize("restarted", [False, True], ids=["running", "started again"])
def test_a_column_that_hudis_writer_adds_stays_through_our_commits_and_a_compaction(
    hudi: HudiOracle, tmp_path: Path, restarted: bool
) -> None:
    pipeline = LocalPipeline(tmp_path, DEFINITION, SCHEMA, RULES)
    pipeline.ingest(rows(0))
    hudi.upsert(tmp_path, with_notes(), THEIRS)
    pipeline.expected.apply(with_notes())
    if restarted:
        pipeline.start()

    pipeline.ingest(rows(1))

    judge(hudi, pipeline)
    hudi.compact(tmp_path, THEIRS)
    judge(hudi, pipeline)
    pipeline.ingest(rows(2))
    judge(hudi, pipeline)
