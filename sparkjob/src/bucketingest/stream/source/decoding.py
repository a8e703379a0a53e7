"""From what the source delivers to the table's columns, where Spark has to do it: the SQL transform, the delete
predicate. All of it is Spark's own expressions, compiled in the JVM; messages come decoded.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - as everybody names it
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BooleanType, StringType, StructField, StructType

from bucketingest.decode.debezium.events import DELETED
from bucketingest.stream.errors import InvalidTransform
from bucketingest.stream.source.messages import MessageDecoder, marked_messages
from bucketingest.stream.spark.arrow_map import map_in_arrow
from bucketingest.write.plan import DELETE_COLUMN

if TYPE_CHECKING:  # a worker does without the model of the spec
    from bucketingest.spec.formats.format import Format

DATA: Final = "_bucketingest_data"
BAD: Final = "_bucketingest_bad"
DETAIL: Final = "_bucketingest_detail"
PROBLEM: Final = "the record cannot be decoded with the schema"
NO_VALUE: Final = "the message has no value"
"""Why a message is a dead letter."""
_VIEW: Final = "source"
_named: Final = threading.Lock()
"""A session has one view of the name; the threads of several tables may use it."""
MESSAGE: Final = "_bucketingest_message"
_OF_MESSAGE: Final = ("topic", "partition", "offset", "timestamp", "key", "value")


@dataclass(frozen=True, slots=True)
class Decoded:
    """The rows of a micro-batch, decoded, before good and bad ones are separated."""

    rows: DataFrame
    """The decoded columns (Kafka: in the struct `DATA`), what the message was, and `BAD`."""
    can_fail: bool
    """Whether there can be rows that could not be decoded."""

    def observed(self, observation: Observation) -> Decoded:
        """The same; when its rows are read, the observation also counts the bad ones (`bad`)."""
        return replace(self, rows=self.rows.observe(observation, F.count_if(F.col(BAD)).alias("bad")))

    def good(self) -> DataFrame:
        """The rows that could be decoded, with the source's columns only."""
        if not self.can_fail:
            return self.rows
        # spark_partition_id keeps Spark from moving the filter below the decoding, which would then happen twice.
        return _source_columns(self.rows.filter(~F.col(BAD) & (F.spark_partition_id() >= 0)))

    def good_with_messages(self) -> DataFrame:
        """As `good`, and as last column the message of each row. There must be messages."""
        rows = self.rows.filter(~F.col(BAD) & (F.spark_partition_id() >= 0))
        return rows.select(f"{DATA}.*", F.struct(*_OF_MESSAGE).alias(MESSAGE))

    def all(self) -> DataFrame:
        """Good and bad rows, with the source's columns only."""
        return _source_columns(self.rows)

    def bad(self) -> DataFrame:
        """The rows that could not be decoded, as the dead-letter table's columns from `reason` on."""
        rows = self.rows.filter(F.col(BAD) & (F.spark_partition_id() >= 0))
        return rows.select(
            F.lit("decode").alias("reason"),
            F.col(DETAIL).alias("detail"),
            *_OF_MESSAGE,
        )


def _source_columns(rows: DataFrame) -> DataFrame:
    return rows.select(f"{DATA}.*") if DATA in rows.columns else rows


def decode_by(rows: DataFrame, columns: pa.Schema, decoder: MessageDecoder) -> Decoded:
    """Messages with the columns that they have, for a transform that runs in Spark."""
    kept = rows.select(*dict.fromkeys([*_OF_MESSAGE, *decoder.needs]))
    data = from_arrow_schema(columns, prefer_timestamp_ntz=True)
    marks = [StructField(DATA, data), StructField(BAD, BooleanType()), StructField(DETAIL, StringType())]
    schema = StructType([*kept.schema.fields, *marks])

    def stage(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return marked_messages(batches, decoder, data=DATA, bad=BAD, detail=DETAIL)

    return Decoded(map_in_arrow(kept, stage, schema), can_fail=True)


def problem_of(format_: Format) -> str:
    """Why a message with a value is a dead letter, as far as that is known without looking at it."""
    if format_.confluent_schema_id is None:
        return PROBLEM
    schema_id = format_.confluent_schema_id
    return f"the record lacks Confluent's header of schema {schema_id}, or cannot be decoded with it"


def header_of(format_: Format) -> bytes:
    """With what each message begins: Confluent's header, or nothing."""
    return b"" if format_.confluent_schema_id is None else b"\0" + format_.confluent_schema_id.to_bytes(4, "big")


def transform(rows: DataFrame, sql: str) -> DataFrame:
    """The table's columns: the SELECT over the view `source`. Raises InvalidTransform."""
    try:
        with _named:
            rows.createOrReplaceTempView(_VIEW)
            return rows.sparkSession.sql(sql)
    except (AnalysisException, ParseException) as error:
        raise InvalidTransform(
            f"spec.transform.sql: {_first_line(error)}; columns of source: {', '.join(rows.columns)}"
        ) from error


def mark_deletes(rows: DataFrame, delete_when: str | None, *, enveloped: bool = False) -> DataFrame:
    """Add the delete column if there is a predicate. `enveloped`: it names the envelope's column, which the table has
    not. Raises InvalidTransform.
    """
    if delete_when is None:
        return rows
    if enveloped and DELETED not in rows.columns:
        raise InvalidTransform(
            f"spec.transform.sql does not select {DELETED}, which says what is deleted: add it to the SELECT; the "
            "table does not get it"
        )
    try:
        marked = rows.withColumn(DELETE_COLUMN, F.coalesce(F.expr(delete_when).cast("boolean"), F.lit(False)))  # noqa: FBT003
        return marked.drop(DELETED) if enveloped else marked
    except (AnalysisException, ParseException) as error:
        raise InvalidTransform(
            f"spec.table.deleteWhen: {_first_line(error)}; columns of the table: {', '.join(rows.columns)}"
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rstrip(";")
