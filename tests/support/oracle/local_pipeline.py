"""A pipeline on a local table, fed as the query feeds it: in order, from the table's position, again after a restart.

So a test beside Hudi can say what happens to the table, and the rows come again whenever the coordinator says so.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from bucketingest.hudi.table.table import TableDefinition
from bucketingest.storage import Storage, open_storage
from bucketingest.write.errors import ColumnsChanged, InstantAborted, PositionLost
from support.oracle.expected import ExpectedTable, MergeRules
from support.tables.table_runs import Attempt, TestTable, offsets
from support.tables.write_plans import write

TRIES_MAX = 5


@dataclass
class LocalPipeline:
    """Attempts of one pipeline, an instant per micro-batch, and what the table must hold of what it was given."""

    path: Path
    definition: TableDefinition
    schema: pa.Schema
    rules: MergeRules
    restarts: int = 0
    """How often an attempt ended because its position was lost."""
    aborted: int = 0
    """How often a micro-batch was written again because its instant was aborted."""
    expected: ExpectedTable = field(init=False)
    _table: TestTable = field(init=False)
    _attempt: Attempt = field(init=False)
    _batches: list[pa.Table] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._table = TestTable(self.definition, self.schema)
        self._table.storage = open_storage(str(self.path))
        self.expected = ExpectedTable(self.rules)
        self.start()

    @property
    def storage(self) -> Storage:
        """The table's storage, without faults."""
        return self._table.storage

    def leftovers(self) -> list[str]:
        """What should not stay once nothing is open."""
        return self._table.leftovers()

    def start(self, storage: Storage | None = None) -> None:
        """A new attempt, on `storage` instead of the table's own."""
        self._attempt = self._table.attempt(storage, reject="fail")

    def ingest(self, *batches: pa.Table) -> None:
        """Further micro-batches, after those that the table does not have yet."""
        for batch in batches:
            self._batches.append(batch)
            self.expected.apply(batch)
        self.catch_up()

    def catch_up(self) -> None:
        """Write the micro-batches that the table does not have, starting again when the position is lost, or when
        another writer has added columns.
        """
        for _ in range(TRIES_MAX):
            try:
                while (number := self._number_of_next()) < len(self._batches):
                    self._write(number, self._batches[number])
            except (PositionLost, ColumnsChanged):
                self.restarts += 1
                self.start()
            else:
                return
        raise AssertionError(f"the position was lost {TRIES_MAX} times")

    def _number_of_next(self) -> int:
        """The micro-batch at which the table ends, as the running attempt knows it."""
        position = self._attempt.coordinator.position
        return 0 if position is None else int(json.loads(position.end)["orders"]["0"])

    def _write(self, number: int, batch: pa.Table) -> None:
        attempt = self._attempt
        for _ in range(TRIES_MAX):
            try:
                attempt.coordinator.run(
                    offsets(number, number + 1),
                    lambda assignment: write(batch.to_batches(), attempt.plan(assignment), attempt.opened.storage),
                )
            except InstantAborted:
                self.aborted += 1
            else:
                return
        raise AssertionError(f"micro-batch {number} was aborted {TRIES_MAX} times")
