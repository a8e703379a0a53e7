"""Hudi's compaction plan, carried out by us: its readers and writers go on with our base files."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

from bucketingest.hudi.merge.merge_rules import merge_rules
from bucketingest.hudi.plans.compaction_plan import read_compaction_plan
from bucketingest.hudi.table.schema import avro_to_arrow, with_meta_columns
from bucketingest.hudi.table.table import TableDefinition, load_table
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import COMMIT, COMPACTION
from bucketingest.hudi.timeline.instant_time import format_time
from bucketingest.hudi.timeline.timeline import Timeline, complete, create_inflight, path_of
from bucketingest.services.compaction.commit import compaction_commit
from bucketingest.services.merge.merge_group import compact_group
from bucketingest.storage import open_storage
from bucketingest.write.open_table import stored_schema
from support.oracle.client import HudiOracle
from support.oracle.compare import assert_same_rows
from support.oracle.expected import ExpectedTable, MergeRules
from support.oracle.readers import assert_read_alike
from support.oracle.writer import HudiWriter
from support.tables.local_writer import LocalWriter

pytestmark = pytest.mark.hudi

SCHEMA = pa.schema(
    [("id", pa.string()), ("region", pa.string()), ("at", pa.int64()), ("value", pa.string()), ("gone", pa.bool_())]
)
RULES = MergeRules(key=["id"], partition_by=["region"], ordering="at", deleted="gone")
DEFINITION = TableDefinition("compacted", ("id",), ("region",), "at", buckets=2)
KEY = ["region", "id"]


def rows(at: int, first: int, count: int, *, gone: bool = False) -> pa.Table:
    numbers = range(first, first + count)
    return pa.Table.from_pylist(
        [
            {"id": f"key-{n}", "region": ("eu", "us")[n % 2], "at": at, "value": f"{at}", "gone": gone and n % 3 == 0}
            for n in numbers
        ],
        schema=SCHEMA,
    )


def run_pending(path: Path) -> CommitMetadata:
    """Carry out the only pending plan, and complete its compaction."""
    storage = open_storage(str(path))
    timeline = Timeline.load(storage)
    (pending,) = timeline.pending
    time = pending.request_time
    schema = stored_schema(load_table(storage), timeline)
    plan = read_compaction_plan(storage, time)
    assert schema is not None
    assert plan is not None
    create_inflight(storage, time, COMPACTION)
    rules = merge_rules(load_table(storage), avro_to_arrow(with_meta_columns(schema)))
    stats = [compact_group(storage, each, time, rules, token="1-0-0") for each in plan.operations]
    commit = compaction_commit(stats, schema)
    complete(storage, time, format_time(datetime.now(UTC)), commit.encode(), COMMIT)
    return commit


def completed_compaction(path: Path) -> CommitMetadata:
    storage = open_storage(str(path))
    newest = [each for each in Timeline.load(storage).completed if each.action == COMMIT][-1]
    return CommitMetadata.decode(storage.get(path_of(newest)), "commit")


@pytest.mark.parametrize("log_block", ["parquet", "avro"])
def test_readers_and_later_compactions_of_hudi_go_on_with_our_base_files(
    hudi: HudiOracle, tmp_path: Path, log_block: Literal["parquet", "avro"]
) -> None:
    path = tmp_path / "table"
    theirs = HudiWriter("compacted", ["id"], ["region"], "at", buckets=2, log_block=log_block)
    writer = LocalWriter(path, DEFINITION, SCHEMA, deleted="gone", log_block=log_block)
    expected = ExpectedTable(RULES)

    def commit(batch: pa.Table) -> None:
        writer.commit(batch)
        expected.apply(batch)

    def judge() -> None:
        assert_read_alike(hudi, path, expected.table(), KEY)

    commit(rows(2, 0, 40))
    commit(rows(3, 10, 20, gone=True))
    assert hudi.schedule_compaction(path, theirs).num_rows == 1
    run_pending(path)
    expected.compact()
    judge()
    assert_same_rows(hudi.read_optimized(path), expected.table(), KEY)

    commit(rows(1, 0, 50))
    commit(rows(4, 30, 30, gone=True))
    judge()
    assert hudi.schedule_compaction(path, theirs).num_rows == 1
    run_pending(path)
    expected.compact()
    judge()

    hudi.upsert(path, rows(5, 50, 20), theirs)
    expected.apply(rows(5, 50, 20))
    hudi.compact(path, theirs)
    expected.compact()
    judge()
    assert_same_rows(hudi.read_optimized(path), expected.table(), KEY)


def test_our_commit_says_what_hudis_says_of_the_same_plan(hudi: HudiOracle, tmp_path: Path) -> None:
    path = tmp_path / "table"
    theirs = HudiWriter("compacted", ["id"], ["region"], "at", buckets=2)
    writer = LocalWriter(path, DEFINITION, SCHEMA, deleted="gone")
    writer.commit(rows(1, 0, 40))
    hudi.compact(path, theirs)
    writer.commit(rows(2, 20, 40))
    writer.commit(rows(3, 30, 20, gone=True))
    assert hudi.schedule_compaction(path, theirs).num_rows == 1
    copy = tmp_path / "by-hudi"
    shutil.copytree(path, copy)
    (pending,) = Timeline.load(open_storage(str(copy))).pending
    hudi.run_compaction(copy, theirs, pending.request_time)
    hudis = completed_compaction(copy)
    ours = run_pending(path)

    assert (ours.operation_type, ours.compacted) == (hudis.operation_type, hudis.compacted)
    assert json.loads(ours.extra_metadata["schema"]) == json.loads(hudis.extra_metadata["schema"])
    assert ours.write_stats.keys() == hudis.write_stats.keys()
    for partition_path, stats in hudis.write_stats.items():
        by_group = {stat.file_id: stat for stat in ours.write_stats[partition_path]}
        for theirs_of_group in stats:
            own = by_group[theirs_of_group.file_id].to_avro()
            other = theirs_of_group.to_avro()
            differing = {name for name in own if own[name] != other[name]}
            # Hudi counts only the content of the blocks as the size of the log files.
            allowed = {"path", "totalWriteBytes", "fileSizeInBytes", "totalLogSizeCompacted"}
            assert differing <= allowed, [(own, other)]
