"""Hudi's own writer as a neighbour that asks nobody: when it starts it rolls back every instant it finds inflight."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from soak.resource import BUCKETS, PIPELINE
from soak.traffic import SCHEMA, hudi_rows
from support.oracle.client import HudiOracle
from support.oracle.environment import OracleError
from support.oracle.writer import HudiWriter

ATTEMPTS = 3
WRITER = HudiWriter(PIPELINE, record_key=["id"], partition_by=["region"], ordering="ts", buckets=BUCKETS)


class HudiNeighbour:
    """Upserts rows of its own keys. The JVM behind it starts at the first use."""

    def __init__(self, table: Path, say: Callable[[str], None]) -> None:
        self._table = table
        self._say = say
        self._oracle: HudiOracle | None = None
        self._rows: dict[str, dict[str, object]] = {}
        self.writes = 0
        self.failures: list[str] = []

    @property
    def oracle(self) -> HudiOracle:
        """Hudi's own reader and writer."""
        if self._oracle is None:
            self._oracle = HudiOracle.start()
        return self._oracle

    def upsert(self) -> None:
        """Write the next rows, again if a concurrent commit made it fail. Raises OracleError when it keeps failing."""
        self.writes += 1
        rows = hudi_rows(self.writes)
        for left in reversed(range(ATTEMPTS)):
            try:
                self.oracle.upsert(self._table, rows, WRITER)
            except OracleError as error:
                self.failures.append(str(error)[:300])
                self._say(f"  Hudi's writer failed: {str(error)[:200]}")
                if not left:
                    raise
            else:
                break
        self._rows |= {row["id"]: row for row in rows.to_pylist()}

    def expected(self) -> pa.Table:
        """The rows that the table must have of it."""
        return pa.Table.from_pylist(list(self._rows.values()), SCHEMA)

    def close(self) -> None:
        """End the JVM."""
        if self._oracle is not None:
            self._oracle.close()
