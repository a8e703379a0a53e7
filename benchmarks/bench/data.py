"""The benchmarks' input: seeded tables, so that every run and both sides get the same rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

SEED: Final = 20_26
FILE_ROWS: Final = 500_000
REGIONS: Final = ("ap", "eu", "sa", "us")
STATES: Final = ("created", "paid", "shipped", "delivered", "returned")


@dataclass(frozen=True, slots=True)
class Dataset:
    """A table's input, and its key, partition and ordering columns."""

    name: str
    record_key: str
    partition_by: str | None
    ordering: str
    schema_ddl: str
    """The columns as Spark writes a schema; needed for messages, which do not bring it."""
    partitions: int = 4
    """Partitions of the table, if it has a partition column."""


ORDERS: Final = Dataset(
    "11-columns",
    "order_id",
    "region",
    "updated_at",
    "order_id STRING, customer STRING, status STRING, note STRING, quantity INT, price DOUBLE, amount DECIMAL(12,2), "
    "discount DOUBLE, flag BOOLEAN, updated_at TIMESTAMP, region STRING",
)
NUMBERS: Final = Dataset(
    "1-string-10-bigint", "id", None, "n0", ", ".join(["id STRING", *(f"n{i} BIGINT" for i in range(10))])
)
TEXTS: Final = Dataset("20-string", "s0", None, "s1", ", ".join(f"s{i} STRING" for i in range(20)))
DATASETS: Final = {dataset.name: dataset for dataset in (ORDERS, NUMBERS, TEXTS)}


def rows_of(dataset: Dataset, keys: pa.Array, seed: int) -> pa.Table:
    """One row per key number, in the keys' order; another seed gives other values for the same keys."""
    random = np.random.default_rng([SEED, seed])
    if dataset.schema_ddl == ORDERS.schema_ddl:
        return _orders(keys, random, dataset.partitions)
    if dataset is NUMBERS:
        count = len(keys)
        columns = {f"n{i}": pa.array(random.integers(0, 2**62, count)) for i in range(10)}
        return pa.table({"id": _text("id-", keys), **columns})
    return pa.table(
        {"s0": _text("id-", keys)} | {f"s{i}": _text("", _numbers(random, len(keys), 10**9)) for i in range(1, 20)}
    )


def write_input(dataset: Dataset, folder: Path, *, rows: int, seed: int, keys: int | None = None) -> float:
    """Write `rows` rows as Parquet files, shuffled; each of `keys` keys (default: one per row) equally often.

    Returns the mean size of a row in bytes, in Arrow's form.
    """
    folder.mkdir(parents=True)
    order = np.random.default_rng([SEED, seed, 1]).permutation(rows) % (keys or rows)
    size = 0
    for number, start in enumerate(range(0, rows, FILE_ROWS)):
        table = rows_of(dataset, pa.array(order[start : start + FILE_ROWS]), seed * 100_000 + number)
        pq.write_table(table, folder / f"part-{number:05d}.parquet", compression="snappy")
        size += table.nbytes
    return size / rows


def _orders(keys: pa.Array, random: np.random.Generator, partitions: int) -> pa.Table:
    regions = [*REGIONS, *(f"r{number:04d}" for number in range(len(REGIONS), partitions))][:partitions]
    count = len(keys)
    microseconds = 1_700_000_000_000_000 + random.integers(0, 10**12, count)
    cents = pa.array(random.integers(0, 10**8, count)).cast(pa.decimal128(20, 0))
    return pa.table(
        {
            "order_id": _text("order-", keys),
            "customer": _text("customer-", _numbers(random, count, 100_000)),
            "status": pa.array(np.array(STATES)[random.integers(0, len(STATES), count)]),
            "note": _text("a note that is about forty bytes long ", _numbers(random, count, 10**9)),
            "quantity": pa.array(random.integers(1, 100, count).astype(np.int32)),
            "price": pa.array(random.random(count) * 1000),
            "amount": pc.multiply(cents, pa.scalar(1, pa.decimal128(1, 0))).cast(pa.decimal128(12, 2)),
            "discount": pa.array(random.random(count)),
            "flag": pa.array(random.random(count) < 0.1),
            "updated_at": pa.array(microseconds).cast(pa.timestamp("us", tz="UTC")),
            # a key stays in its partition, whatever the seed
            "region": pa.array(np.array(regions)[keys.to_numpy() % partitions]),
        }
    )


def _numbers(random: np.random.Generator, count: int, below: int) -> pa.Array:
    return pa.array(random.integers(0, below, count))


def _text(prefix: str, numbers: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(prefix, pc.utf8_lpad(numbers.cast(pa.string()), 10, "0"), "")
