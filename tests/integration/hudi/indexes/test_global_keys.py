"""A table in which a key is in one partition only, which Hudi's own Spark writer writes in turn with us, by its
GLOBAL_SIMPLE index: each key moves with its newest row, and every reader shows it in one partition.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from bucketingest.hudi.table.table import StateRules, TableDefinition
from bucketingest.index.state.store import forget_state
from bucketingest.services.protocol.records import End
from bucketingest.storage import open_storage
from support.oracle import hudi_rs
from support.oracle.client import HudiOracle
from support.oracle.compare import assert_same_rows
from support.oracle.expected import ExpectedTable, MergeRules
from support.oracle.writer import HudiWriter
from support.tables.local_writer import LocalWriter
from support.tables.services.compactions import compact

pytestmark = pytest.mark.hudi

RULES: Final = MergeRules(key=["id"], partition_by=[], ordering="at", deleted="gone")
SCHEMA: Final = pa.schema(
    [("id", pa.string()), ("region", pa.string()), ("at", pa.int64()), ("value", pa.string()), ("gone", pa.bool_())]
)
DEFINITION: Final = TableDefinition("shared", ("id",), ("region",), "at", state=StateRules(is_global=True))
KEYS: Final = [f"k{number}-ä" if number % 5 == 0 else f"k{number}" for number in range(40)]


@pytest.fixture(autouse=True)
def local_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def theirs() -> HudiWriter:
    options = {
        "hoodie.index.type": "GLOBAL_SIMPLE",
        "hoodie.simple.index.update.partition.path": "true",
        "hoodie.parquet.small.file.limit": str(100 * 1024**2),
    }
    return HudiWriter(name="shared", record_key=["id"], partition_by=["region"], ordering="at", extra=options)


def draw(chance: random.Random, step: int, there: Collection[str] = ()) -> pa.Table:
    """Rows in any partition. Of the keys that are `there`, some are deletes, or older than what the table has."""
    keys = chance.sample(KEYS, 12)
    late = [key in there and chance.random() < 0.25 for key in keys]
    columns = {
        "id": keys,
        "region": [chance.choice(("eu", "us", "asia")) for _ in keys],
        "at": [10 * step - (15 if each else 0) for each in late],
        "value": [f"{step} {key}" for key in keys],
        "gone": [key in there and chance.random() < 0.2 for key in keys],
    }
    return pa.table(columns, schema=SCHEMA)


def test_keys_move_by_hudis_writer_and_by_ours_in_turn(hudi: HudiOracle, tmp_path: Path) -> None:
    chance, path, expected = random.Random(14), tmp_path / "table", ExpectedTable(RULES)
    writer = LocalWriter(path, DEFINITION, SCHEMA, deleted="gone")
    storage = open_storage(str(path))
    moved = older = 0

    def ours(step: int) -> None:
        nonlocal moved, older
        rows = draw(chance, step, set(expected.table()["id"].to_pylist()) if step > 1 else ())
        outcome = writer.commit(rows)
        moved, older = moved + outcome.moved, older + outcome.older
        expected.apply(rows)

    def by_hudi(step: int) -> None:
        rows = draw(chance, step)
        hudi.upsert(path, rows, theirs())
        expected.apply(rows)

    def compacted(_: int) -> None:
        assert set(compact(storage)) == {End.COMPLETED}
        expected.compact()

    def restarted(step: int) -> None:
        nonlocal writer
        forget_state(storage)
        writer = LocalWriter(path, DEFINITION, SCHEMA, deleted="gone")
        ours(step)

    steps: list[Callable[[int], None]] = [ours, ours, by_hudi, ours, compacted, by_hudi, restarted, ours]
    for step, act in enumerate(steps, start=1):
        act(step)
        assert_same_rows(hudi.snapshot(path), expected.table(), RULES.identity)
        assert_same_rows(hudi_rs.snapshot(path), expected.table(), RULES.identity)
    assert moved
    assert older
