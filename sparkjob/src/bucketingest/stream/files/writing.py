"""Writes one micro-batch of files: the tasks read them in their order, and what cannot be read is set aside or stops
the run. Nothing is written before every task has read all of its files.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType, BooleanType, StringType, StructField, StructType

from bucketingest.decode.files.reader import FileReader
from bucketingest.hudi.naming import version_of
from bucketingest.hudi.rollback.markers import marked_files
from bucketingest.spec.fields.source import ChangedFiles
from bucketingest.storage import open_storage
from bucketingest.stream.errors import SourceFilesChanged
from bucketingest.stream.files.log import FileBatch
from bucketingest.stream.files.opening import FileChanged, as_they_are
from bucketingest.stream.files.reading import FileRefused, TaskFiles
from bucketingest.stream.files.source import FilesInput
from bucketingest.stream.files.unknown_columns import UnknownColumns
from bucketingest.stream.micro_batch import (
    LeftToSpark,
    current_task,
    drain,
    raised,
    write_letters,
    write_micro_batch,
    write_packed,
)
from bucketingest.stream.source.decoding import BAD, DATA, DETAIL, Decoded
from bucketingest.stream.source.shape import RowShape
from bucketingest.stream.spark.arrow_map import Stage, map_in_arrow
from bucketingest.write.errors import ConflictingAttempt, RowsRejected
from bucketingest.write.plan import WritePlan
from bucketingest.write.rows.shuffle import SHUFFLE_DDL
from bucketingest.write.rows.write_status import WriteStatus

log = logging.getLogger(__name__)

_ROUNDS_MAX: Final = 5
"""How often a micro-batch is read because its files are bad or change, before the query fails."""


@dataclass(frozen=True, slots=True)
class FilesWriter:
    """Writes micro-batches of files."""

    session: SparkSession
    reader: FileReader
    shape: RowShape
    changed: ChangedFiles
    is_splittable: bool
    unknown: UnknownColumns

    @classmethod
    def of(cls, files: FilesInput, shape: RowShape, rows: DataFrame) -> Self:
        """For a source. `rows`: any with its columns, of the session that writes."""
        session = rows.sparkSession
        unknown = UnknownColumns(session.sparkContext)
        return cls(session, files.reader, shape, files.source.changed, files.is_splittable, unknown)

    def write(self, batch: FileBatch, plan: WritePlan) -> Sequence[WriteStatus]:
        """Write one. Raises RowsRejected, SourceFilesChanged, ConflictingAttempt, and what `write_packed` does."""
        files = self._files(batch)
        for left in reversed(range(_ROUNDS_MAX)):
            try:
                return self._written(files, plan)
            except PySparkException as error:
                if not left:
                    raise
                files = self._after(error, batch, files, plan)
                _check_nothing_written(plan, error)
        raise AssertionError("the last round returns or raises")

    def _files(self, batch: FileBatch) -> TaskFiles:
        slots = self.session.sparkContext.defaultParallelism
        return TaskFiles.of(batch, self.reader, slots, is_splittable=self.is_splittable, met=self.unknown.met)

    def _written(self, files: TaskFiles, plan: WritePlan) -> Sequence[WriteStatus]:
        statuses, has_refused = self._on_arrow(files, plan) or self._in_spark(files, plan)
        self.unknown.warn()
        if has_refused or files.set_aside:
            columns = "reason STRING, detail STRING, value BINARY"
            statuses += write_letters(self._in_tasks(files, files.letters, columns), plan)
        return statuses

    def _on_arrow(self, files: TaskFiles, plan: WritePlan) -> tuple[list[WriteStatus], bool] | None:
        """What was written, and whether there are records that are no rows; None if the SQL is Spark's to evaluate."""
        if not self.shape.on_arrow:
            return None
        program = self.shape.program
        packed = self._in_tasks(files, lambda task: files.packed(plan, program, task), SHUFFLE_DDL)
        try:
            statuses = write_packed(packed, plan)
        except LeftToSpark as doubt:  # nothing is written; the same rows are in doubt each time
            log.warning("a micro-batch is left to Spark's SQL", extra={"reason": str(doubt)})
            return None
        return statuses, any(status.undecoded for status in statuses)

    def _in_spark(self, files: TaskFiles, plan: WritePlan) -> tuple[list[WriteStatus], bool]:
        observation = Observation()
        decoded = self._decoded(files).observed(observation)
        statuses = write_micro_batch(self.shape.table_rows(decoded.good()), plan)
        return statuses, bool(observation.get["bad"])

    def _decoded(self, files: TaskFiles) -> Decoded:
        rows = from_arrow_schema(self.reader.columns, prefer_timestamp_ntz=True)
        columns = StructType(
            [
                StructField(DATA, rows),
                StructField(BAD, BooleanType()),
                StructField(DETAIL, StringType()),
                StructField("value", BinaryType()),
            ]
        )
        marked = self._in_tasks(files, lambda task: files.marked(task, data=DATA, bad=BAD, detail=DETAIL), columns)
        return Decoded(marked, can_fail=True)

    def _after(self, error: PySparkException, batch: FileBatch, files: TaskFiles, plan: WritePlan) -> TaskFiles:
        """What to read after an error of a task. Raises it if it is another."""
        if (changed := raised(error, FileChanged)) is not None:
            if self.changed == "stop":
                raise SourceFilesChanged(
                    f"{batch.root}/{changed} was changed after it was listed and before it was read to its end. Write "
                    "files under another name and rename them when they are whole, or set source.files.changed"
                ) from error
            return self._files(as_they_are(batch))
        if (refused := raised(error, FileRefused)) is None:
            raise error
        number, _, why = refused.partition(" ")
        if plan.dead_letters_url is None:
            raise RowsRejected(
                f"{batch.root}/{batch.files[int(number)].path}: {why}; with errors.mode deadLetter the file is set "
                "aside, as a row of the dead-letter table"
            ) from error
        found = self._in_tasks(files, files.bad_rows, "number BIGINT, why STRING").toArrow()
        bad = dict(zip(found["number"].to_pylist(), found["why"].to_pylist(), strict=True))
        return replace(files, set_aside={**files.set_aside, int(number): why, **bad})

    def _in_tasks(
        self, files: TaskFiles, stage: Callable[[int], Iterator[pa.RecordBatch]], columns: str | StructType
    ) -> DataFrame:
        count = len(files.tasks)
        tasks = self.session.range(0, count, 1, count)
        return map_in_arrow(tasks, _of_task(stage), columns)


def _check_nothing_written(plan: WritePlan, error: PySparkException) -> None:
    """Raise ConflictingAttempt if tasks have written rows: the next round would leave those behind that it does not
    have, since a file of a file group is visible by its name alone. Only the dead letters are read after that, and the
    files of a shuffle that Spark lost.
    """
    storage = open_storage(plan.table_url, plan.storage_options)
    marked = marked_files(storage, plan.instant_time)
    if any(version_of(path) in (plan.sequence, None) for path in marked):
        why = "a file was changed or deleted after its rows were written and before the micro-batch was complete"
        raise ConflictingAttempt(why) from error


def _of_task(stage: Callable[[int], Iterator[pa.RecordBatch]]) -> Stage:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        drain(batches)
        yield from stage(current_task())

    return run
