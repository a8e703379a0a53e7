"""A table with an index with a state, which Hudi's own Spark writer writes in turn with us, by its SIMPLE and its BLOOM
index: no key gets a second file group, and every reader shows the same rows.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bucketingest.hudi.base.bloom_filter import FOOTER_KEY
from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.table.file_view import load_file_view
from bucketingest.hudi.table.table import InsertMode, StateRules, TableDefinition
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.index.errors import DuplicateKeys
from bucketingest.index.state.key_columns import keys_of_rows
from bucketingest.index.state.store import forget_state
from bucketingest.services.compaction.records import End
from bucketingest.services.compaction.work import Ended
from bucketingest.services.handover import hand_over
from bucketingest.storage import open_storage
from bucketingest.write.coordinator_api import Assignment
from bucketingest.write.instants.source_range import SourceRange
from bucketingest.write.rows.write_status import WriteStatus
from support.oracle import hudi_rs
from support.oracle.client import HudiOracle
from support.oracle.compare import assert_same_rows
from support.oracle.expected import ExpectedTable, MergeRules
from support.oracle.writer import HudiWriter
from support.tables.local_writer import PIPELINE, LocalWriter
from support.tables.services.compactions import compact, holder

pytestmark = pytest.mark.hudi

RULES: Final = MergeRules(key=["id"], partition_by=["region"], ordering="at", deleted="gone")
SCHEMA: Final = pa.schema(
    [("id", pa.string()), ("region", pa.string()), ("at", pa.int64()), ("value", pa.string()), ("gone", pa.bool_())]
)
DEFINITION: Final = TableDefinition("shared", ("id",), ("region",), "at", state=StateRules())
KEYS: Final = [f"k{number}-ä" if number % 5 == 0 else f"k{number}" for number in range(60)]


@pytest.fixture(autouse=True)
def local_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def theirs(index: str) -> HudiWriter:
    options = {"hoodie.index.type": index, "hoodie.parquet.small.file.limit": str(100 * 1024**2)}
    return HudiWriter(name="shared", record_key=["id"], partition_by=["region"], ordering="at", extra=options)


def draw(chance: random.Random, step: int, *, deletes: bool) -> pa.Table:
    keys = chance.sample(KEYS, 12)
    columns = {
        "id": keys,
        "region": [("eu", "us")[KEYS.index(key) % 2] for key in keys],
        "at": [step] * len(keys),
        "value": [f"{step} {key}" for key in keys],
        "gone": [deletes and chance.random() < 0.3 for _ in keys],
    }
    return pa.table(columns, schema=SCHEMA)


def check(hudi: HudiOracle, path: Path, expected: ExpectedTable) -> None:
    """Every reader shows each key once, as expected, and no key is in two file groups."""
    assert_same_rows(hudi.snapshot(path), expected.table(), RULES.identity)
    assert_same_rows(hudi_rs.snapshot(path), expected.table(), RULES.identity)
    storage = open_storage(str(path))
    groups: Counter[tuple[str, str]] = Counter()
    for group in load_file_view(storage, Timeline.load(storage)).groups:
        if group.latest is not None:
            keys = {key for array in keys_of_rows(storage, group.latest) for key in array.to_pylist()}
            groups.update((group.partition_path, key) for key in keys)
    assert set(groups.values()) <= {1}, [key for key, count in groups.items() if count > 1]


@pytest.mark.parametrize("inserts", ["base", "log"])
def test_hudis_writers_and_ours_in_turn(hudi: HudiOracle, tmp_path: Path, inserts: InsertMode) -> None:
    """With new keys in log files, the table is handed over before each of their writes."""
    chance, path, expected = random.Random(inserts), tmp_path / "table", ExpectedTable(RULES)
    definition = replace(DEFINITION, state=StateRules(inserts=inserts))
    writer = LocalWriter(path, definition, SCHEMA, deleted="gone")
    storage = open_storage(str(path))
    handed_over: list[Ended] = []

    def ours(step: int) -> None:
        rows = draw(chance, step, deletes=True)
        writer.commit(rows)
        expected.apply(rows)

    def by_hudi(index: str) -> Callable[[int], None]:
        def write(step: int) -> None:
            rows = draw(chance, step, deletes=False)
            if inserts == "log":
                handed_over.extend(hand_over(storage, holder(storage), utc_now))
            hudi.upsert(path, rows, theirs(index))
            expected.apply(rows)

        return write

    def compacted(_: int) -> None:
        assert set(compact(storage)) == {End.COMPLETED}
        expected.compact()

    def restarted(step: int) -> None:
        nonlocal writer
        if chance.random() < 0.5:
            forget_state(storage)
        writer = LocalWriter(path, definition, SCHEMA, deleted="gone")
        ours(step)

    simple, bloom = by_hudi("SIMPLE"), by_hudi("BLOOM")
    steps = [ours, simple, ours, bloom, ours, compacted, ours, simple, ours, compacted, ours, bloom, restarted, simple]
    steps += [ours, bloom, ours]
    for step, act in enumerate(steps, start=1):
        act(step)
        check(hudi, path, expected)
    assert bool(handed_over) == (inserts == "log")
    bases = path.glob("*/*.parquet")
    assert all(FOOTER_KEY.encode() in pq.read_metadata(base).metadata for base in bases)


def test_hudi_takes_over_a_table_without_knowing_of_buckets(hudi: HudiOracle, tmp_path: Path) -> None:
    path, expected = tmp_path / "table", ExpectedTable(RULES)
    rows = draw(random.Random(3), 1, deletes=False)
    LocalWriter(path, DEFINITION, SCHEMA, deleted="gone").commit(rows)
    expected.apply(rows)
    properties = (path / ".hoodie" / "hoodie.properties").read_text()
    assert "bucket.count" not in properties

    rows = rows.set_column(2, "at", pa.array([2] * rows.num_rows, pa.int64()))
    hudi.upsert(path, rows, theirs("SIMPLE"))
    expected.apply(rows)
    check(hudi, path, expected)


def test_duplicates_that_hudi_makes_of_new_keys_in_log_files_are_named(hudi: HudiOracle, tmp_path: Path) -> None:
    """Its BLOOM index does not find them. Nobody has handed the table over."""
    path, rows = tmp_path / "table", draw(random.Random(4), 1, deletes=False)
    writer = LocalWriter(path, replace(DEFINITION, state=StateRules(inserts="log")), SCHEMA, deleted="gone")
    writer.commit(rows)
    hudi.upsert(path, rows, theirs("BLOOM"))
    with pytest.raises(DuplicateKeys) as raised:
        writer.commit(rows)
    partition = [row["id"] for row in rows.to_pylist() if row["region"] == raised.value.partition_path]
    assert raised.value.count == len(partition)
    assert {key for key, _, _ in raised.value.sample} <= set(partition)


def test_a_base_file_of_an_aborted_instant_has_no_reader_however_late_it_comes(
    hudi: HudiOracle, tmp_path: Path
) -> None:
    class Killed(Exception):
        pass

    path, expected, chance = tmp_path / "table", ExpectedTable(RULES), random.Random(5)
    first, second = (draw(chance, step, deletes=False) for step in (1, 2))
    writer = LocalWriter(path, DEFINITION, SCHEMA, deleted="gone")
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
    check(hudi, path, expected)

    LocalWriter(path, DEFINITION, SCHEMA, deleted="gone", write_tasks=3).commit(second)  # other work: it is aborted
    expected.apply(second)
    assert not any(file.exists() for file in orphans)
    for file, content in orphans.items():
        file.write_bytes(content)
    check(hudi, path, expected)
