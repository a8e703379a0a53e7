"""Hudi's own writer as a neighbour that asks nobody: when it starts it rolls back every instant it finds inflight, and
after its write it compacts, cleans and archives what it likes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from soak.fault_plan import Service
from soak.job.resource import BUCKETS, PIPELINE
from soak.traffic import SCHEMA, hudi_rows
from support.oracle.client import HudiOracle
from support.oracle.environment import OracleError
from support.oracle.writer import HudiWriter

ATTEMPTS = 3
WRITER = HudiWriter(PIPELINE, record_key=["id"], partition_by=["region"], ordering="ts", buckets=BUCKETS)
_COMPACT = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
_CLEAN = {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "1"}
_ARCHIVE = {"hoodie.archive.automatic": "true", "hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
_OPTIONS = {
    Service.NONE: {},
    Service.COMPACT: _COMPACT,
    Service.CLEAN: _COMPACT | _CLEAN,
    Service.ARCHIVE: _COMPACT | _CLEAN | _ARCHIVE,
}


class HudiNeighbour:
    """Upserts rows of its own keys. The JVM behind it starts at the first use."""

    def __init__(self, table: Path, say: Callable[[str], None]) -> None:
        self._table = table
        self._say = say
        self._oracle: HudiOracle | None = None
        self._rows: dict[str, dict[str, object]] = {}
        self._compacted = False
        self.writes = 0
        self.services: dict[str, int] = {}
        """How many of its writes had each service."""
        self.failures: list[str] = []

    @property
    def oracle(self) -> HudiOracle:
        """Hudi's own reader and writer."""
        if self._oracle is None:
            self._oracle = HudiOracle.start()
        return self._oracle

    def upsert(self, service: Service) -> None:
        """Write the next rows, again if a concurrent commit made it fail. Raises OracleError when it keeps failing."""
        if service is Service.ARCHIVE and not self._compacted:
            # hudi-rs 0.5.0 does not read the history: of a file group without a base file it drops what was archived.
            # After a compaction every file group has one, and a write that archives compacts afterwards.
            self._write(Service.COMPACT)
        self._write(service)

    def _write(self, service: Service) -> None:
        self.writes += 1
        self.services[service.value] = self.services.get(service.value, 0) + 1
        rows, writer = hudi_rows(self.writes), replace(WRITER, extra=_OPTIONS[service])
        for left in reversed(range(ATTEMPTS)):
            try:
                self.oracle.upsert(self._table, rows, writer)
            except OracleError as error:
                self.failures.append(str(error)[:300])
                self._say(f"  Hudi's writer failed: {str(error)[:200]}")
                if not left:
                    raise
            else:
                break
        self._compacted |= service is not Service.NONE
        self._rows |= {row["id"]: row for row in rows.to_pylist()}

    def compact(self) -> None:
        """Compact whatever is left to compact, pending plans included."""
        self.oracle.schedule_compaction(self._table, WRITER)
        self.oracle.run_compaction(self._table, WRITER)

    def expected(self) -> pa.Table:
        """The rows that the table must have of it."""
        return pa.Table.from_pylist(list(self._rows.values()), SCHEMA)

    def close(self) -> None:
        """End the JVM."""
        if self._oracle is not None:
            self._oracle.close()
