"""Hudi's own clustering beside our commits: what it plans, what we make of its plan, and what readers show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from bucketingest.hudi.history.archived import archived_services
from bucketingest.hudi.plans.replaced import clustered_slices, decoded_slices
from bucketingest.hudi.table.file_view import load_file_view
from bucketingest.hudi.table.table import StateRules, TableDefinition
from bucketingest.hudi.timeline.instant import CLUSTERING, REPLACE_COMMIT
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.storage import open_storage
from bucketingest.write.errors import InstantAborted
from support.oracle import hudi_rs
from support.oracle.client import HudiOracle
from support.oracle.compare import assert_same_rows
from support.oracle.expected import ExpectedTable, MergeRules
from support.oracle.writer import HudiWriter
from support.tables.local_writer import LocalWriter

pytestmark = pytest.mark.hudi

RULES = MergeRules(key=["id"], partition_by=["region"], ordering="at", deleted="gone")
SCHEMA = pa.schema(
    [("id", pa.string()), ("region", pa.string()), ("at", pa.int64()), ("value", pa.string()), ("gone", pa.bool_())]
)
DEFINITION = TableDefinition("merged", ("id",), ("region",), "at", state=StateRules())
EAGER = {
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.archive.automatic": "true",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}


def rows_of(keys: range, at: int) -> pa.Table:
    columns = {
        "id": [f"k{number}" for number in keys],
        "region": [("eu", "us")[number % 2] for number in keys],
        "at": [at] * len(keys),
        "value": [f"{at} {number}" for number in keys],
        "gone": [False] * len(keys),
    }
    return pa.table(columns, schema=SCHEMA)


def test_nothing_is_written_to_the_groups_of_its_plan_and_its_plan_is_read(hudi: HudiOracle, tmp_path: Path) -> None:
    path = tmp_path / "table"
    theirs = HudiWriter(
        name="merged",
        record_key=["id"],
        partition_by=["region"],
        ordering="at",
        everywhere={"hoodie.index.type": "SIMPLE"},
    )
    expected = ExpectedTable(RULES)
    storage = open_storage(str(path))

    def apply(at: int, write: Callable[[pa.Table], object]) -> None:
        rows = rows_of(range(10 * at, 10 * at + 15), at)
        write(rows)
        expected.apply(rows)

    def ours() -> LocalWriter:
        return LocalWriter(path, DEFINITION, SCHEMA, deleted="gone")

    def cluster(what: str) -> None:
        hudi.sql(f"call run_clustering(path => '{path}', op => '{what}')", theirs.session_conf())

    running = ours()
    apply(0, running.commit)
    apply(1, running.commit)
    cluster("schedule")
    (pending,) = [each for each in Timeline.load(storage).pending if each.action in (CLUSTERING, REPLACE_COMMIT)]
    slices = clustered_slices(storage, pending)
    latest = {
        (group.partition_path, group.file_id): group.latest
        for group in load_file_view(storage, Timeline.load(storage)).groups
    }
    for each in slices:
        found = latest[each.group]
        assert found is not None
        assert each.base_file == (None if found.base_file is None else str(found.base_file.name))
        assert each.base_instant == ("" if found.base_file is None else found.base_file.instant)
        assert set(each.log_files) == {str(file.name) for file in found.log_files}
    assert any(each.base_file for each in slices)
    assert any(each.log_files for each in slices)

    with pytest.raises(InstantAborted, match="pending clustering"):
        running.commit(rows_of(range(5), 2))
    cluster("execute")
    expected.compact()
    assert_same_rows(hudi.snapshot(path), expected.table(), RULES.identity)
    apply(2, ours().commit)
    assert_same_rows(hudi.snapshot(path), expected.table(), RULES.identity)
    assert_same_rows(hudi_rs.snapshot(path), expected.table(), RULES.identity)

    archiving = replace(theirs, extra=EAGER)
    for at in range(3, 9):
        apply(at, lambda rows: hudi.upsert(path, rows, archiving))
    archived = [
        each
        for services in archived_services(storage, "", pending.request_time)
        for each in services
        if each.instant.request_time == pending.request_time
    ]
    assert [decoded_slices(each.plan, "history") for each in archived] == [slices], "Hudi keeps the plan"
    assert ours().coordinator.position is not None
