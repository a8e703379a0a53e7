"""How long `bucketingest audit` takes: a table and the table of a real PostgreSQL with the same rows, half of them in
base files and half in log files.

Run it with PYTHONPATH=tests:tools from the project's folder, after `make databases`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
import psycopg
import pyarrow as pa

from bucketingest.hudi.table.table import TableDefinition
from bucketingest.storage import open_storage
from devservers.mirror.databases import Postgres
from support.tables.local_writer import LocalWriter
from support.tables.services.compactions import compact

SCHEMA: Final = pa.schema(
    [
        ("id", pa.int64()),
        ("customer", pa.string()),
        ("amount", pa.decimal128(12, 2)),
        ("quantity", pa.int32()),
        ("paid", pa.bool_()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
ROWS_SQL: Final = """
CREATE TABLE orders AS SELECT id, 'customer ' || id % 1000 AS customer, (id % 1000000 * 0.01)::numeric(12,2) AS amount,
 (id % 1000)::int AS quantity, id % 2 = 0 AS paid, to_timestamp(id) AS at
 FROM generate_series(0::bigint, {last}::bigint) AS id"""


def main() -> None:
    """Print seconds and rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    count = parser.parse_args().rows
    with Postgres() as server, TemporaryDirectory() as folder:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(ROWS_SQL.format(last=count - 1))
            connection.execute("ALTER TABLE orders ADD PRIMARY KEY (id)")
            connection.execute("VACUUM ANALYZE orders")
        path = Path(folder) / "orders"
        writer = LocalWriter(path, TableDefinition("orders", ("id",), buckets=16), SCHEMA)
        writer.commit(_rows(0, count // 2))
        compact(open_storage(str(path)))
        writer.commit(_rows(count // 2, count))
        file = Path(folder) / "orders.yaml"
        file.write_text(json.dumps(_resource(path)))
        audit = ["-m", "bucketingest.cli.main", "audit", str(file), "--against", server.url, "--table", "public.orders"]
        began = time.monotonic()
        subprocess.run([sys.executable, *audit], check=True)
        print(f"{count} rows in {time.monotonic() - began:.0f} s")


def _rows(start: int, end: int) -> pa.Table:
    numbers = np.arange(start, end)
    cents = pa.array(numbers % 1_000_000).cast(pa.decimal128(21, 0)).cast(pa.decimal128(25, 2))
    amount = pa.compute.multiply(cents, pa.scalar("0.01", pa.string()).cast(pa.decimal128(3, 2)))
    names = pa.DictionaryArray.from_arrays(pa.array(numbers % 1000), pa.array([f"customer {n}" for n in range(1000)]))
    columns = [
        pa.array(numbers),
        names.cast(pa.string()),
        amount.cast(pa.decimal128(12, 2)),
        pa.array((numbers % 1000).astype(np.int32)),
        pa.array(numbers % 2 == 0),
        pa.array(numbers * 1_000_000).cast(pa.timestamp("us", "UTC")),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _resource(path: Path) -> dict[str, object]:
    spec = {
        "source": {"kafka": {"bootstrapServers": "none:9092", "topics": ["shop.public.orders"]}},
        "format": {"type": "json", "schema": "id BIGINT", "envelope": {"type": "debezium"}},
        "table": {"path": str(path)},
    }
    head = {"apiVersion": "bucketingest.dev/v1alpha1", "kind": "BucketIngest", "metadata": {"name": "orders"}}
    return {**head, "spec": spec}


if __name__ == "__main__":
    main()
