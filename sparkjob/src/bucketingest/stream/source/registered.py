"""Messages whose schemas a registry has: the driver asks it, and what it decides is the same for all tasks of a
micro-batch and for all that repeat them.

A task that meets an id that is not decided fails, before anything is written. Then the driver looks which ids the
micro-batch has, asks for them, and has the micro-batch written again. That is rare: ids never change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from bucketingest.decode.kafka.message import VALUE
from bucketingest.decode.registered.subjects import writer_schema
from bucketingest.decode.registered.wire_format import UnknownSchemaIds, WriterSchema
from bucketingest.registry.lookups import KEPT_MAX, NEW_MAX, SchemaLookups
from bucketingest.spec.job_report import LISTED_MAX, RefusedSchema, SchemasReport
from bucketingest.stream.errors import SchemaRefused
from bucketingest.stream.source.columns_schema import ColumnsSchema
from bucketingest.stream.source.messages import MessageDecoder, ids_in
from bucketingest.stream.source.shape import RowShape
from bucketingest.stream.spark.arrow_map import map_in_arrow
from bucketingest.write.rows.write_status import WriteStatus

log = logging.getLogger(__name__)

_ROUNDS_MAX: Final = 3
_IDS_MAX: Final = KEPT_MAX + NEW_MAX + 1

Write = Callable[[MessageDecoder], Sequence[WriteStatus]]


def ids_of(rows: DataFrame, columns: Sequence[str] = (VALUE,)) -> set[int]:
    """The ids of schemas in these columns of the messages of a micro-batch; of too many only so many. Reads all of
    them.
    """
    found = map_in_arrow(rows.select(*columns), lambda batches: ids_in(batches, _IDS_MAX), "id BIGINT").toArrow()
    return set(found.column("id").to_pylist())


class RegisteredMessages:
    """Decodes with what the registry has said, and asks it for what is new."""

    def __init__(
        self,
        shape: RowShape,
        rows: DataFrame,
        lookups: SchemaLookups,
        *,
        columns: ColumnsSchema | None = None,
        stops: bool = False,
        tell: Callable[[SchemasReport], None] = lambda _: None,
        find_ids: Callable[[DataFrame], set[int]] | None = None,
    ) -> None:
        """`rows`: any of the source's; they are not read. `columns`: their schema, if it grows with the messages'.
        `stops`: a schema that no message can be read by ends the query. `tell`: is told when more schemas are known.
        Raises InvalidTransform if messages cannot be decoded.
        """
        self._blocks = shape.registered_blocks(rows)
        self._shape = shape
        self._lookups = lookups
        self._find_ids = find_ids or partial(ids_of, columns=shape.message_decoder(self._blocks).decoded)
        self._columns = columns
        self._stops = stops
        self._tell = tell
        self._refused: dict[int, str] = {}
        self._reported: set[int] = set()
        self._is_first = True

    def write(
        self, rows: Callable[[], DataFrame], write: Write, gives_way: Callable[[], bool]
    ) -> Sequence[WriteStatus]:
        """Write a micro-batch with a decoder that knows every id in it. Its `rows` are read for ids alone. Raises
        RegistryError, GaveWay, SchemaGrown, SchemaRefused, and what `write` does.
        """
        self._lookups.begin()
        if self._is_first:  # it will have ids that are not known, surely
            self._lookups.learn(self._find_ids(rows()), gives_way)
        self._is_first = False
        for left in reversed(range(_ROUNDS_MAX)):
            try:
                return write(self._decoder())
            except (PySparkException, UnknownSchemaIds) as error:  # the tasks' own arrives as text
                if not left or UnknownSchemaIds.__name__ not in f"{type(error).__name__}: {error}":
                    raise
            self._lookups.learn(self._find_ids(rows()), gives_way)
        raise AssertionError("the last round returns or raises")

    def _decoder(self) -> MessageDecoder:
        writers = {number: writer_schema(found, self._blocks.kind) for number, found in self._lookups.known().items()}
        if self._columns is not None:
            self._columns.cover(writers, self._blocks.columns_in)
            for number in self._columns.refused.keys() & writers.keys():
                writers[number] = WriterSchema(why_not=self._columns.refused[number])
        blocks = self._blocks.knowing(writers)
        new = sorted(writers.keys() - self._reported)
        for number in new:
            self._reported.add(number)
            if (why := blocks.why_refused(number)) is not None:
                if self._stops:
                    raise SchemaRefused(
                        f"schema {number} {why}. Register a schema that can be read as the table's, give "
                        "spec.format.schema, or set spec.errors.schema to deadLetter"
                    )
                log.error("messages of a schema are dead letters", extra={"schema": number, "reason": why})
                self._refused[number] = why
            elif self._columns is not None and (
                fields := self._columns.left_out(self._blocks.columns_in, writers[number])
            ):
                log.warning("fields of a schema are no columns", extra={"schema": number, "fields": fields})
        if new:
            self._tell(self._report())
        return self._shape.message_decoder(blocks)

    def _report(self) -> SchemasReport:
        growths = () if self._columns is None else self._columns.growths
        return SchemasReport(
            refused_schemas=len(self._refused),
            refused=tuple(
                RefusedSchema(id=each, reason=why) for each, why in islice(self._refused.items(), LISTED_MAX)
            ),
            growths=len(growths),
            last_growth=growths[-1] if growths else None,
        )
