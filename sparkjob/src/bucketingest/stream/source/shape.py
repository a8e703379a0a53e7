"""From the source's rows to the table's rows, for a resource and for a user's own DataFrame."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from bucketingest.decode.avro.column_types import differing
from bucketingest.decode.avro.decoder import AvroDecoder
from bucketingest.decode.avro.schema import read_fields
from bucketingest.decode.decoder_choice import Way, way_of
from bucketingest.decode.json.decoder import JsonDecoder
from bucketingest.decode.json.exact import unsupported_type
from bucketingest.spec.model import BucketIngest, Format
from bucketingest.stream.source.decoding import (
    NO_VALUE,
    Decoded,
    decode,
    header_of,
    mark_deletes,
    problem_of,
    transform,
)
from bucketingest.stream.source.messages import MessageDecoder
from bucketingest.write.plan import DELETE_COLUMN


@dataclass(frozen=True, slots=True)
class RowShape:
    """How rows are decoded and reshaped."""

    resource: BucketIngest | None
    """None: the rows already have the table's columns."""
    delete_when: str | None

    def decoded(self, rows: DataFrame) -> Decoded:
        """The rows, with the undecodable ones marked."""
        return Decoded(rows, can_fail=False) if self.resource is None else decode(rows, self.resource)

    def way(self, rows: DataFrame) -> Way:
        """Whether messages are decoded on Arrow or by Spark, and why. Nothing is read."""
        if self.resource is None:
            return Way("spark", "rows come from a query of the user's own")
        way = way_of(self.resource)
        if way.name == "arrow" and (other := _unsupported(self._format, self._columns(rows))) is not None:
            return Way("spark", f"Spark makes a {other} of spec.format.schema")
        return way

    def decoder(self, rows: DataFrame) -> MessageDecoder | None:
        """What decodes messages on Arrow; None if Spark decodes."""
        if self.way(rows).name == "spark":
            return None
        columns, format_ = self._columns(rows), self._format
        blocks = (
            JsonDecoder(columns)
            if format_.type == "json"
            else AvroDecoder(format_.schema_text, columns, header_of(format_))
        )
        return MessageDecoder(blocks, problem_of(format_), NO_VALUE)

    @property
    def _format(self) -> Format:
        assert self.resource is not None, "a user's own query has no messages"
        assert self.resource.spec.format is not None, "what is decoded on Arrow has a format"
        return self.resource.spec.format

    def _columns(self, rows: DataFrame) -> pa.Schema:
        """Arrow schema of the decoded columns."""
        return pa.schema(list(to_arrow_schema(self.decoded(rows).all().schema, timezone="UTC")))

    def table_rows(self, good: DataFrame) -> DataFrame:
        """The table's columns and, with a predicate, the delete column."""
        if self.resource is not None:
            good = transform(good, self.resource.spec.transform.sql)
        return mark_deletes(good, self.delete_when)

    def is_repeatable(self, rows: DataFrame) -> bool:
        """Whether the same input gives the same rows each time; not so with rand() or a UDF that says so."""
        shaped = self.table_rows(self.decoded(rows).all())  # the filter for good rows would count as not so
        return bool(shaped._jdf.queryExecution().analyzed().deterministic())  # noqa: SLF001 - PySpark has no other way

    def schema(self, rows: DataFrame) -> pa.Schema:
        """Arrow schema of the table's columns; nothing is read. Timestamps are in UTC."""
        shaped = self.table_rows(self.decoded(rows).good())
        schema = to_arrow_schema(shaped.schema, timezone="UTC")
        return pa.schema([field for field in schema if field.name != DELETE_COLUMN])


def _unsupported(format_: Format, columns: pa.Schema) -> str | None:
    """A type in the columns that is not decoded on Arrow, in words; None if there is none."""
    if format_.type == "avro":
        return differing(read_fields(format_.schema_text), columns)
    other = unsupported_type(columns)
    return None if other is None else str(other)
