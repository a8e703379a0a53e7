"""Messages whose schemas a registry has: the driver asks it, and what it decides is the same for all tasks of a
micro-batch and for all that repeat them.

A task that meets an id that is not decided fails, before anything is written. Then the driver looks which ids the
micro-batch has, asks for them, and has the micro-batch written again. That is rare: ids never change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from bucketingest.decode.avro.growth import grown
from bucketingest.decode.avro.schema import UnreadableSchema
from bucketingest.decode.kafka.message import VALUE
from bucketingest.decode.registered.subjects import writer_schema
from bucketingest.decode.registered.wire_format import UnknownSchemaIds, WriterSchema
from bucketingest.registry.lookups import KEPT_MAX, NEW_MAX, SchemaLookups
from bucketingest.stream.source.messages import MessageDecoder, ids_in
from bucketingest.stream.source.shape import RowShape
from bucketingest.stream.spark.arrow_map import map_in_arrow
from bucketingest.write.rows.write_status import WriteStatus

_ROUNDS_MAX: Final = 3
_IDS_MAX: Final = KEPT_MAX + NEW_MAX + 1

Write = Callable[[MessageDecoder], Sequence[WriteStatus]]


def ids_of(rows: DataFrame, columns: Sequence[str] = (VALUE,)) -> set[int]:
    """The ids of schemas in these columns of the messages of a micro-batch; of too many only so many. Reads all of
    them.
    """
    found = map_in_arrow(rows.select(*columns), lambda batches: ids_in(batches, _IDS_MAX), "id BIGINT").toArrow()
    return set(found.column("id").to_pylist())


class SchemaGrown(Exception):
    """Messages of a micro-batch have fields that are no columns yet; nothing of it is written."""

    def __init__(self, text: str, added: Mapping[int, Sequence[str]]) -> None:
        super().__init__(f"schemas {', '.join(map(str, added))} have fields that are no columns yet")
        self.text = text
        """The schema of the columns with them."""
        self.added = added
        """Their names, by the schema's id."""


class RegisteredMessages:
    """Decodes with what the registry has said, and asks it for what is new."""

    def __init__(
        self,
        shape: RowShape,
        rows: DataFrame,
        lookups: SchemaLookups,
        *,
        reader: str | None = None,
        find_ids: Callable[[DataFrame], set[int]] | None = None,
    ) -> None:
        """`rows`: any of the source's; they are not read. `reader`: the schema of the columns, if it is to grow with
        the messages'. Raises InvalidTransform if messages cannot be decoded.
        """
        self._blocks = shape.registered_blocks(rows)
        self._shape = shape
        self._lookups = lookups
        self._find_ids = find_ids or partial(ids_of, columns=shape.message_decoder(self._blocks).decoded)
        self._reader = reader
        self._covered: set[int] = set()
        self._is_first = True

    def write(self, rows: DataFrame, write: Write, gives_way: Callable[[], bool]) -> Sequence[WriteStatus]:
        """Write a micro-batch with a decoder that knows every id in it. Raises RegistryError, GaveWay, SchemaGrown, and
        what `write` does.
        """
        self._lookups.begin()
        if self._is_first:  # it will have ids that are not known, surely
            self._lookups.learn(self._find_ids(rows), gives_way)
        self._is_first = False
        for left in reversed(range(_ROUNDS_MAX)):
            try:
                return write(self._decoder())
            except PySparkException as error:
                if not left or UnknownSchemaIds.__name__ not in str(error):
                    raise
            self._lookups.learn(self._find_ids(rows), gives_way)
        raise AssertionError("the last round returns or raises")

    def _decoder(self) -> MessageDecoder:
        writers = {number: writer_schema(found, self._blocks.kind) for number, found in self._lookups.known().items()}
        if self._reader is not None:
            self._cover(self._reader, writers)
        return self._shape.message_decoder(self._blocks.knowing(writers))

    def _cover(self, reader: str, writers: Mapping[int, WriterSchema]) -> None:
        """Raise SchemaGrown if one of the schemas has a field that could be a column and is none."""
        added = {}
        for number in sorted(writers.keys() - self._covered):
            if not writers[number].why_not:
                try:
                    reader, names = grown(reader, self._blocks.columns_in(writers[number]))
                except UnreadableSchema:  # its messages are dead letters
                    names = ()
                if names:
                    added[number] = names
            self._covered.add(number)
        if added:
            raise SchemaGrown(reader, added)
