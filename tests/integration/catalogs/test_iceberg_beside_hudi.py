"""Hudi's own writer, compactor and clean change the base files: the Iceberg table has them all after the next sync."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from bucketingest.hudi.table.table import TableDefinition
from support.catalogs.iceberg import IcebergLake, in_order
from support.oracle.client import HudiOracle
from support.oracle.writer import HudiWriter
from support.tables.local_writer import LocalWriter

pytestmark = pytest.mark.hudi

SCHEMA = pa.schema([("id", pa.string()), ("region", pa.string()), ("at", pa.int64())])
DEFINITION = TableDefinition("shared", ("id",), ("region",), "at", buckets=2)
THEIRS = HudiWriter("shared", ["id"], ["region"], "at", buckets=2)


def rows(at: int, count: int) -> pa.Table:
    made = [{"id": f"key-{n}", "region": ("eu", "us")[n % 2], "at": at} for n in range(count)]
    return pa.Table.from_pylist(made, schema=SCHEMA)


def test_after_each_step_of_hudi_it_has_exactly_the_base_files(hudi: HudiOracle, tmp_path: Path) -> None:
    lake = IcebergLake(tmp_path / "lake")
    writer = LocalWriter(lake.base, DEFINITION, SCHEMA)

    def judge(at: dict[int, int]) -> None:
        lake.sync()
        assert all(Path(file).exists() for file in lake.files())
        shown = lake.rows()
        assert shown == in_order(hudi.read_optimized(lake.base)) == lake.rows_of_duckdb()
        assert len(shown) == lake.counted()
        assert {n: sum(each["at"] == n for each in shown) for n in at} == at

    writer.commit(rows(1, 40))
    judge({1: 0})
    hudi.compact(lake.base, THEIRS)
    judge({1: 40})
    hudi.upsert(lake.base, rows(2, 10), THEIRS)
    writer.commit(rows(3, 5))
    judge({1: 40, 2: 0, 3: 0})
    hudi.compact(lake.base, THEIRS)
    judge({1: 30, 2: 5, 3: 5})
    assert hudi.clean(lake.base, THEIRS).num_rows == 1
    judge({1: 30, 2: 5, 3: 5})
    hudi.delete_partition(lake.base, rows(4, 1), "us", THEIRS)
    judge({1: 15, 2: 2, 3: 3})
