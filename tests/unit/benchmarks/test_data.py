from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from bench.data import DATASETS, ORDERS, Dataset, rows_of, write_input


@pytest.mark.parametrize("dataset", DATASETS.values(), ids=lambda dataset: str(dataset.name))
def test_every_run_gets_the_same_rows(dataset: Dataset) -> None:
    keys = pa.array(range(100))
    assert rows_of(dataset, keys, 1).equals(rows_of(dataset, keys, 1))
    assert not rows_of(dataset, keys, 1).equals(rows_of(dataset, keys, 2))


@pytest.mark.parametrize("dataset", DATASETS.values(), ids=lambda dataset: str(dataset.name))
def test_the_schema_for_spark_names_the_columns_in_order(dataset: Dataset) -> None:
    names = [column.split()[0] for column in dataset.schema_ddl.split(", ")]
    assert names == rows_of(dataset, pa.array([1, 2]), 1).column_names


def test_another_input_has_the_same_keys_in_the_same_partitions(tmp_path: Path) -> None:
    for seed in (0, 1):
        write_input(ORDERS, tmp_path / str(seed), rows=1000, seed=seed)
    first, second = (pq.read_table(tmp_path / str(seed)).sort_by("order_id") for seed in (0, 1))
    assert len(pc.unique(first["order_id"])) == 1000
    assert first.select(["order_id", "region"]).equals(second.select(["order_id", "region"]))
    assert not first["price"].equals(second["price"])


def test_with_fewer_keys_than_rows_each_key_is_equally_frequent(tmp_path: Path) -> None:
    write_input(ORDERS, tmp_path / "in", rows=1000, seed=0, keys=100)
    counts = pq.read_table(tmp_path / "in")["order_id"].value_counts().field("counts")
    assert counts.to_pylist() == [10] * 100
