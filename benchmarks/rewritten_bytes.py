"""What a promise to readers of base files costs: bytes of new base files for each byte that was ingested before.

Needs no Spark: the write path and the merge are the project's own, the hours between two compactions are left out.
Run it with PYTHONPATH=tests from the project's folder.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from bucketingest.hudi.table.table import TableDefinition
from bucketingest.services.compaction.choose import CompactionTriggers
from bucketingest.spec.fields.runtime import Slo
from bucketingest.spec.fields.services import Services
from bucketingest.storage import Storage, open_storage
from support.tables.local_writer import LocalWriter
from support.tables.services.compactions import compact

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        ("at", pa.int64()),
        *((f"number_{n}", pa.float64()) for n in range(4)),
        *((f"text_{n}", pa.string()) for n in range(3)),
    ]
)
COMMIT_SECONDS = 30


def main() -> None:
    """Print a row for each promise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=200_000, help="rows of the table")
    parser.add_argument("--rate", type=int, default=100, help="changed rows per second")
    parser.add_argument("--minutes", type=int, nargs="*", default=[1, 5, 15, 60])
    given = parser.parse_args()
    print("| promise | log files of a group | ingested MB | written again MB | again for each byte |")
    print("| --- | --- | --- | --- | --- |")
    for minutes in given.minutes:
        slo = Slo.model_validate({"readOptimizedFreshness": f"{minutes}m"})
        seconds = CompactionTriggers.of(Services(), slo).log_age.total_seconds()
        with TemporaryDirectory() as folder:
            commits, ingested, again = _measured(Path(folder), given.keys, given.rate, seconds)
        figures = f"{commits} | {ingested / 1e6:.2f} | {again / 1e6:.1f} | {again / ingested:.1f}"
        print(f"| {minutes}m | {figures} |", flush=True)


def _measured(folder: Path, keys: int, rate: int, seconds: float) -> tuple[int, int, int]:
    """Commits between two compactions, bytes of their log files, and bytes of the base files of the second."""
    chance = random.Random(7)
    writer = LocalWriter(folder, TableDefinition("t", ("id",), (), "at", buckets=4), SCHEMA)
    storage = open_storage(str(folder))
    writer.commit(_rows(chance, range(keys)))
    compact(storage)
    before = dict(_sizes(storage))
    left, commits = round(rate * seconds), 0
    while left > 0:
        count = min(left, rate * COMMIT_SECONDS)
        writer.commit(_rows(chance, (chance.randrange(keys) for _ in range(count))))
        left, commits = left - count, commits + 1
    written = {path: size for path, size in _sizes(storage) if path not in before}
    compact(storage)
    again = sum(size for path, size in _sizes(storage) if path not in before and path not in written)
    return commits, sum(written.values()), again


def _rows(chance: random.Random, keys: range | Iterator[int]) -> pa.Table:
    ids = [f"key-{key:012d}" for key in keys]
    columns = {"id": ids, "at": [chance.randrange(10**9) for _ in ids]}
    columns |= {f"number_{n}": [chance.random() for _ in ids] for n in range(4)}
    columns |= {f"text_{n}": [f"{chance.getrandbits(64):x} of {n}" for _ in ids] for n in range(3)}
    return pa.table(columns, schema=SCHEMA)


def _sizes(storage: Storage) -> Iterator[tuple[str, int]]:
    return ((each.path, each.size) for each in storage.list() if not each.path.startswith(".hoodie/"))


if __name__ == "__main__":
    main()
