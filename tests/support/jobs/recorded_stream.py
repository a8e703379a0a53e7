"""A table that is nothing but a list: which part of the source each micro-batch was, and its rows.

Stands for the table where only the checkpoint is under test: it obeys the same rules about ranges.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from bucketingest.storage import open_storage
from bucketingest.stream.checkpoint.checkpoint import PreparedCheckpoint, SourceKind, prepare_checkpoint
from bucketingest.stream.checkpoint.positions import CheckpointPositions
from bucketingest.write.coordinator_api import Start, StartVerdict
from bucketingest.write.instants.source_range import Relation, SourceRange, relate

WAIT_SECONDS_MAX = 60


class Crash(Exception):
    """The process is gone, as far as the query can tell."""


@dataclass
class RecordedStream:
    """Rows by micro-batch, and what a start would find."""

    root: str
    """Checkpoint root, a local path."""
    source: SourceKind
    batches: list[tuple[SourceRange, list[Any]]] = field(default_factory=list)
    unfinished: SourceRange | None = None
    attempts: int = 0
    beginning: str | None = None
    verdict: StartVerdict | None = None
    """What the table says at the next start; None: what follows from its content."""

    @property
    def rows(self) -> list[Any]:
        return sorted(row for _, rows in self.batches for row in rows)

    @property
    def position(self) -> SourceRange | None:
        return self.batches[-1][0] if self.batches else None

    def start(self) -> Start:
        follows = StartVerdict.IN_STEP if self.batches else StartVerdict.NEW
        follows = StartVerdict.RESUMED if self.unfinished else follows
        return Start(self.position, self.unfinished, self.verdict or follows, "as the test says")

    def run(
        self, stream: DataFrame, *, begin: int | None = None, record: int | None = None, once: bool = True
    ) -> PreparedCheckpoint:
        """One start of a query. It crashes when it has started its `begin`-th new micro-batch (from 1), or recorded its
        `record`-th, else it ends when the source is read.
        """
        self.attempts += 1
        attempt = f"attempt-{self.attempts:08d}-1"
        storage = open_storage(self.root)
        prepared = prepare_checkpoint(
            storage, attempt=attempt, source=self.source, start=self.start(), beginning=self.beginning
        )
        directory = f"{self.root}/{prepared.directory}".rstrip("/")
        kind = "kafka" if self.source == "kafka" else "checkpoint"
        function = self._function(CheckpointPositions(open_storage(directory), kind), begin, record)  # type: ignore[arg-type]
        writer = stream.writeStream.foreachBatch(function).option("checkpointLocation", directory)
        writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime="0 seconds")
        query = writer.start()
        try:
            assert query.awaitTermination(WAIT_SECONDS_MAX), "still running"
            assert begin is None, "it was to crash"
            assert record is None, "it was to crash"
        except StreamingQueryException as error:
            if Crash.__name__ not in str(error):
                raise
        finally:
            query.stop()
        return prepared

    def _function(
        self, positions: CheckpointPositions, begin: int | None, record: int | None
    ) -> Callable[[DataFrame, int], None]:
        new = [0]

        def micro_batch(rows: DataFrame, batch_id: int) -> None:
            source_range = positions.range_of(batch_id)
            if relate(source_range, self.position) is Relation.DONE:
                rows.collect()  # a state is kept only of rows that were read
                return
            if self.unfinished is not None:
                assert source_range.same_rows_as(self.unfinished), (
                    f"{source_range} comes where {self.unfinished} was started"
                )
            self.unfinished = source_range
            new[0] += 1
            if new[0] == begin:
                raise Crash
            self.batches.append((source_range, [row[0] for row in rows.collect()]))
            self.unfinished = None
            if new[0] == record:
                raise Crash

        return micro_batch
