"""Tables that wait for a compaction: one file group whose base and log files have as many rows as a case wants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa

from bench.data import ORDERS, SEED, rows_of
from bucketingest.hudi.table.table import TableDefinition
from support.oracle.writer import HudiWriter
from support.tables.local_writer import LocalWriter

NAME: Final = "compacted"
RECORD_KEY: Final = "order_id"
ORDERING: Final = "updated_at"
_NARROW: Final = (RECORD_KEY, "note", "price", ORDERING)
_LATER_MICROSECONDS: Final = 10**12
"""Between the ordering values of one load and the next: the range of the values of one load."""
_NEW_KEYS: Final = 0.1
"""Share of the log files' rows that have keys the base file lacks."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What is compacted."""

    log_block: Literal["parquet", "avro"]
    wide: bool
    """18 columns of all kinds instead of 4."""
    base_rows: int
    """Rows of the base file; 0: there is none."""
    log_rows: int
    """Rows of each log file, all of different keys."""
    logs: int = 10

    @property
    def name(self) -> str:
        """As in the names of cases."""
        return f"{self.log_block}-{len(self.schema)}-columns" + ("" if self.base_rows else "-no-base")

    @property
    def rows(self) -> int:
        """Rows that a compaction reads."""
        return self.base_rows + self.logs * self.log_rows

    @property
    def schema(self) -> pa.Schema:
        """Columns without meta columns."""
        return self.table(np.arange(1), 0).schema

    def base(self) -> pa.Table:
        """Rows of the base file, one per key number, shuffled as a hash of their keys would."""
        return self.table(np.random.default_rng([SEED, 0]).permutation(self.base_rows), 0)

    def loads(self) -> Iterator[pa.Table]:
        """Rows of each log file: mostly of keys that the base file has, and later than all before."""
        keys = int((self.base_rows or self.logs * self.log_rows) * (1 + _NEW_KEYS))
        for number in range(1, self.logs + 1):
            chosen = np.random.default_rng([SEED, number]).permutation(keys)[: self.log_rows]
            yield self.table(chosen, number)

    def writer(self, path: Path) -> LocalWriter:
        """Ours: writes log files, as the job does."""
        definition = TableDefinition(NAME, (RECORD_KEY,), (), ORDERING, buckets=1)
        return LocalWriter(path, definition, self.schema, log_block=self.log_block)

    def table(self, keys: np.ndarray[Any, np.dtype[np.int64]], load: int) -> pa.Table:
        """A row for each key number, without meta columns; the same for the same arguments."""
        rows = rows_of(ORDERS, pa.array(keys), load)
        later = rows[ORDERING].cast(pa.int64()).to_numpy() + load * _LATER_MICROSECONDS
        ordering = pa.array(later).cast(pa.timestamp("us", tz="UTC"))
        rows = rows.set_column(rows.schema.get_field_index(ORDERING), ORDERING, ordering)
        if not self.wide:
            return rows.select(_NARROW)
        random = np.random.default_rng([SEED, load, 2])
        for number in range(3):
            rows = rows.append_column(f"n{number}", pa.array(random.integers(0, 2**62, len(keys))))
            texts = pa.array(random.integers(0, 10**9, len(keys))).cast(pa.string())
            rows = rows.append_column(f"s{number}", pa.array(texts, mask=random.random(len(keys)) < 0.1))
        days = random.integers(0, 20_000, len(keys)).astype(np.int32)
        return rows.append_column("day", pa.array(days).cast(pa.date32()))


def hudi_writer() -> HudiWriter:
    """How Hudi is configured for these tables: as in the other cases, and Zstandard in base files, as ours."""
    return HudiWriter(
        NAME,
        [RECORD_KEY],
        ordering=ORDERING,
        buckets=1,
        extra={
            "hoodie.parquet.compression.codec": "zstd",
            "hoodie.embed.timeline.server": "false",
            "hoodie.write.markers.type": "DIRECT",
        },
    )
