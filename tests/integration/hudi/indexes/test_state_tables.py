"""A table with an index with a state, which Hudi's own Spark writer writes in turn with us, by its SIMPLE and its BLOOM
index: no key gets a second file group, and every reader shows the same rows.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bucketingest.hudi.base.bloom_filter import FOOTER_KEY
from bucketingest.hudi.table.table import InsertMode
from bucketingest.index.errors import DuplicateKeys
from bucketingest.write.coordinator_api import Assignment
from bucketingest.write.errors import InstantAborted
from bucketingest.write.instants.source_range import SourceRange
from bucketingest.write.rows.write_status import WriteStatus
from support.oracle.client import HudiOracle
from support.oracle.expected import ExpectedTable
from support.tables.local_writer import PIPELINE, LocalWriter
from turns.rows import RULES, SCHEMA, hudis
from turns.table import SharedTable, Step, check_table, definition, hudis_writer

pytestmark = pytest.mark.hudi


@pytest.fixture(autouse=True)
def local_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def drawn(chance: random.Random, step: int) -> pa.Table:
    """Rows of keys that are new."""
    return hudis(chance, step, ExpectedTable(RULES), ())


@pytest.mark.parametrize("inserts", ["base", "log"])
def test_hudis_writers_and_ours_in_turn(hudi: HudiOracle, tmp_path: Path, inserts: InsertMode) -> None:
    """With new keys in log files, the table is handed over before each of their writes. `make turns` goes on."""
    table = SharedTable(tmp_path / "table", inserts, hudi, inserts)
    steps = [Step.OURS, Step.SIMPLE, Step.OURS, Step.BLOOM, Step.OURS, Step.COMPACT, Step.OURS, Step.SIMPLE, Step.OURS]
    steps += [Step.DELETE, Step.MERGE, Step.OURS, Step.HUDI_CLEANS, Step.FORGET, Step.OURS, Step.BLOOM, Step.OURS]
    for step in steps:
        table.take(step)
        table.check(spark=step is not Step.OURS)  # after ours comes one of another kind, or the end
    table.check()
    assert bool(table.counts["compactions of handovers"]) == (inserts == "log")
    bases = table.path.glob("*/*.parquet")
    assert all(FOOTER_KEY.encode() in pq.read_metadata(base).metadata for base in bases)


def test_hudi_takes_over_a_table_without_knowing_of_buckets(hudi: HudiOracle, tmp_path: Path) -> None:
    path, expected = tmp_path / "table", ExpectedTable(RULES)
    rows = drawn(random.Random(3), 1)
    LocalWriter(path, definition("base"), SCHEMA, deleted="gone").commit(rows)
    expected.apply(rows)
    properties = (path / ".hoodie" / "hoodie.properties").read_text()
    assert "bucket.count" not in properties

    rows = rows.set_column(2, "at", pa.array([20] * rows.num_rows, pa.int64()))
    hudi.upsert(path, rows, hudis_writer("SIMPLE"))
    expected.apply(rows)
    check_table(path, expected, hudi)


def test_duplicates_that_hudi_makes_of_new_keys_in_log_files_are_named(hudi: HudiOracle, tmp_path: Path) -> None:
    """Its BLOOM index does not find them. Nobody has handed the table over."""
    path, rows = tmp_path / "table", drawn(random.Random(4), 1)
    writer = LocalWriter(path, definition("log"), SCHEMA, deleted="gone")
    writer.commit(rows)
    hudi.upsert(path, rows, hudis_writer("BLOOM"))
    with pytest.raises(DuplicateKeys) as raised:
        writer.commit(rows)
    partition = [row["id"] for row in rows.to_pylist() if row["region"] == raised.value.partition_path]
    assert raised.value.count == len(partition)
    assert {key for key, _, _ in raised.value.sample} <= set(partition)


@pytest.mark.parametrize("policy", ["LAZY", "EAGER"])
def test_keys_that_hudi_inserts_between_our_plan_and_our_decision_are_updated(
    hudi: HudiOracle, tmp_path: Path, policy: str
) -> None:
    """With EAGER, Hudi's default, it also rolls back our instant."""
    path, expected, chance = tmp_path / "table", ExpectedTable(RULES), random.Random(6)
    first, second = (drawn(chance, step) for step in (1, 2))
    writer = LocalWriter(path, definition("base"), SCHEMA, deleted="gone")
    writer.commit(first)
    expected.apply(first)
    theirs = hudis_writer("SIMPLE", {"hoodie.clean.failed.writes.policy": policy})

    def beside(assignment: Assignment) -> list[WriteStatus]:
        statuses = writer.write(second, assignment)
        hudi.upsert(path, second, theirs)
        expected.apply(second)
        return statuses

    its_range = SourceRange("checkpoint", "0", "1", query_id=PIPELINE, batch_id=1)
    with pytest.raises(InstantAborted):
        writer.coordinator.run(its_range, beside)
    check_table(path, expected, hudi)

    newer = second.set_column(3, "value", pa.array([f"ours {number}" for number in range(second.num_rows)]))
    outcome = writer.coordinator.run(its_range, lambda assignment: writer.write(newer, assignment))
    expected.apply(newer)
    assert outcome.inserts == 0
    check_table(path, expected, hudi)


def test_a_base_file_of_an_aborted_instant_has_no_reader_however_late_it_comes(
    hudi: HudiOracle, tmp_path: Path
) -> None:
    class Killed(Exception):
        pass

    path, expected, chance = tmp_path / "table", ExpectedTable(RULES), random.Random(5)
    first, second = (drawn(chance, step) for step in (1, 2))
    writer = LocalWriter(path, definition("base"), SCHEMA, deleted="gone")
    writer.commit(first)
    expected.apply(first)
    before = set(path.glob("*/*.parquet"))

    def die(assignment: Assignment) -> list[WriteStatus]:
        writer.write(second, assignment)
        raise Killed

    with pytest.raises(Killed):
        writer.coordinator.run(SourceRange("checkpoint", "0", "1", query_id=PIPELINE, batch_id=1), die)
    orphans = {file: file.read_bytes() for file in set(path.glob("*/*.parquet")) - before}
    assert orphans
    check_table(path, expected, hudi)

    other_work = LocalWriter(path, definition("base"), SCHEMA, deleted="gone", write_tasks=3)
    other_work.commit(second)  # the instant is aborted
    expected.apply(second)
    assert not any(file.exists() for file in orphans)
    for file, content in orphans.items():
        file.write_bytes(content)
    check_table(path, expected, hudi)
