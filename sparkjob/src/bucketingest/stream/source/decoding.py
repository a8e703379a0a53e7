"""From what the source delivers to the table's columns: decoding, the SQL transform, the delete predicate.

All of it is Spark's own expressions, compiled in the JVM: no row becomes a Python object.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - as everybody names it
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from bucketingest.decode.decoder_choice import why_refused
from bucketingest.decode.protobuf.columns import columns_of
from bucketingest.decode.protobuf.descriptors import read_message
from bucketingest.spec.model import BucketIngest, Format
from bucketingest.stream.errors import InvalidTransform, MissingConnector
from bucketingest.stream.source.messages import MessageDecoder, marked_messages
from bucketingest.stream.source.sources import CORRUPT
from bucketingest.stream.spark.arrow_map import map_in_arrow
from bucketingest.stream.spark.failures import essence
from bucketingest.write.plan import DELETE_COLUMN

_DATA: Final = "_bucketingest_data"
_BAD: Final = "_bucketingest_bad"
_DETAIL: Final = "_bucketingest_detail"
_ROW: Final = "_bucketingest_row"
_DECODED: Final = "_bucketingest_decoded"
PROBLEM: Final = "the record cannot be decoded with the schema"
NO_VALUE: Final = "the message has no value"
"""Why a message is a dead letter."""
_LENGTH_MAX: Final = 2**31 - 1
_VIEW: Final = "source"


@dataclass(frozen=True, slots=True)
class Decoded:
    """The rows of a micro-batch, decoded, before good and bad ones are separated."""

    rows: DataFrame
    """The decoded columns (Kafka: in the struct `_DATA`), what the message was, and `_BAD`."""
    can_fail: bool
    """Whether there can be rows that could not be decoded."""
    problem: str = PROBLEM
    """Why rows could not be decoded, in words for the dead-letter table."""

    def observed(self, observation: Observation) -> Decoded:
        """The same; when its rows are read, the observation also counts the bad ones (`bad`)."""
        return replace(self, rows=self.rows.observe(observation, F.count_if(F.col(_BAD)).alias("bad")))

    def good(self) -> DataFrame:
        """The rows that could be decoded, with the source's columns only."""
        if not self.can_fail:
            return self.rows
        # spark_partition_id keeps Spark from moving the filter below the decoding, which would then happen twice.
        return _source_columns(self.rows.filter(~F.col(_BAD) & (F.spark_partition_id() >= 0)))

    def all(self) -> DataFrame:
        """Good and bad rows, with the source's columns only."""
        return _source_columns(self.rows)

    def bad(self) -> DataFrame:
        """The rows that could not be decoded, as the dead-letter table's columns from `reason` on."""
        rows = self.rows.filter(F.col(_BAD) & (F.spark_partition_id() >= 0))
        detail = F.lit(self.problem)
        if _DATA not in rows.columns:
            return rows.select(
                F.lit("decode").alias("reason"), detail.alias("detail"), F.col(CORRUPT).cast("binary").alias("value")
            )
        detail = F.when(F.col("value").isNull(), F.lit(NO_VALUE)).otherwise(detail)
        if _DETAIL in rows.columns:
            detail = F.col(_DETAIL)
        return rows.select(
            F.lit("decode").alias("reason"),
            detail.alias("detail"),
            "topic",
            "partition",
            "offset",
            "timestamp",
            "key",
            "value",
        )


def _source_columns(rows: DataFrame) -> DataFrame:
    return rows.select(f"{_DATA}.*") if _DATA in rows.columns else rows.drop(CORRUPT, _BAD)


def decode(rows: DataFrame, resource: BucketIngest) -> Decoded:
    """Decode what the source delivered. Raises InvalidTransform for a schema that Spark cannot read."""
    format_ = resource.spec.format
    if format_ is None:
        if CORRUPT in rows.columns:
            return Decoded(rows.withColumn(_BAD, F.col(CORRUPT).isNotNull()), can_fail=True)
        return Decoded(rows, can_fail=False)
    if format_.type == "protobuf":
        return Decoded(_protobuf(rows, format_), can_fail=True)
    try:
        decoded = _json(rows, format_) if format_.type == "json" else _avro(rows, format_)
    except (AnalysisException, ParseException) as error:
        raise InvalidTransform(f"spec.format.schema: Spark cannot read it: {_first_line(error)}") from error
    except Py4JJavaError as error:  # Avro's parser throws it
        raise InvalidTransform(f"spec.format.schema: Spark cannot read it: {essence(error)[0]}") from error
    return Decoded(decoded, can_fail=True, problem=problem_of(format_))


def decode_by(rows: DataFrame, resource: BucketIngest, decoder: MessageDecoder) -> Decoded:
    """Decode messages with our own decoder, for a transform that runs in Spark. Raises as `decode`."""
    names = ["key", "value", "topic", "partition", "offset", "timestamp"]
    made = decode(rows.select(*names), resource).rows.schema
    schema = StructType([*made.fields, StructField(_DETAIL, StringType())])

    def stage(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return marked_messages(batches, decoder, data=_DATA, bad=_BAD, detail=_DETAIL)

    return Decoded(map_in_arrow(rows.select(*names), stage, schema), can_fail=True)


def problem_of(format_: Format) -> str:
    """Why a message with a value is a dead letter, as far as that is known without looking at it."""
    if format_.confluent_schema_id is None:
        return PROBLEM
    schema_id = format_.confluent_schema_id
    return f"the record lacks Confluent's header of schema {schema_id}, or cannot be decoded with it"


def _json(rows: DataFrame, format_: Format) -> DataFrame:
    """Each message as the one member of an object: then text after the row, such as a second row, makes the message
    undecodable. Otherwise from_json would leave it out silently.
    """
    columns = StructType.fromDDL(format_.columns_text)
    schema = StructType([StructField(_ROW, columns), StructField(CORRUPT, StringType())])
    text = F.col("value").cast("string")
    member = F.concat(F.lit(f'{{"{_ROW}":'), text, F.lit("}"))
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    decoded = rows.withColumn(_DATA, F.from_json(member, schema, options))
    row, corrupt = F.col(_DATA).getField(_ROW), F.col(_DATA).getField(CORRUPT)
    # Bytes that are not UTF-8 would otherwise be replaced one by one with U+FFFD.
    bad = F.col("value").isNull() | row.isNull() | corrupt.isNotNull() | ~F.is_valid_utf8(text)
    return decoded.withColumn(_BAD, bad).withColumn(_DATA, row)


def _avro(rows: DataFrame, format_: Format) -> DataFrame:
    """A reader's schema with one more field, whose default only decoding can set: from_avro makes a malformed message a
    row of nulls (Spark 4.2, seen), which otherwise looks like a row whose values are null.
    """
    schema = json.loads(format_.columns_text)
    if not isinstance(schema, dict) or schema.get("type") != "record" or not isinstance(schema.get("fields"), list):
        raise InvalidTransform(
            "spec.format.schema: the Avro schema is not a record: a row's columns are a record's fields"
        )
    mark = {"name": _DECODED, "type": "boolean", "default": True}
    reader_schema = json.dumps(schema | {"fields": [*schema["fields"], mark]})
    options = {"mode": "PERMISSIVE", "avroSchema": reader_schema}
    try:
        data = from_avro(_payload(format_), format_.columns_text, options)
    except TypeError as error:  # PySpark's way to say that the JVM lacks the function
        raise MissingConnector(
            "Spark has no from_avro: its jar is missing. Run `make connectors`, name a folder that holds it in "
            "BUCKETINGEST_JARS, or set spark.conf spark.jars.packages"
        ) from error
    decoded = rows.withColumn(_DATA, data)
    bad = F.col("value").isNull() | F.col(_DATA).getField(_DECODED).isNull()
    return decoded.withColumn(_BAD, bad).withColumn(_DATA, F.col(_DATA).dropFields(_DECODED))


def _protobuf(rows: DataFrame, format_: Format) -> DataFrame:
    """The columns without their values: messages are never decoded by Spark. Raises InvalidTransform."""
    if (why := why_refused(format_)) is not None:
        raise InvalidTransform(f"spec.format.schema {why}")
    columns = from_arrow_schema(columns_of(read_message(format_.columns_text, format_.message_name)))
    return rows.withColumn(_DATA, F.lit(None).cast(columns)).withColumn(_BAD, F.lit(True))  # noqa: FBT003


def _payload(format_: Format) -> Column:
    """The Avro bytes of a message: after Confluent's header if one is required, null if it is another."""
    header = header_of(format_)
    if not header:
        return F.col("value")
    has_header = F.substring("value", 1, len(header)) == F.lit(header)
    return F.when(has_header, F.substring("value", len(header) + 1, _LENGTH_MAX))


def header_of(format_: Format) -> bytes:
    """With what each message begins: Confluent's header, or nothing."""
    return b"" if format_.confluent_schema_id is None else b"\0" + format_.confluent_schema_id.to_bytes(4, "big")


def transform(rows: DataFrame, sql: str) -> DataFrame:
    """The table's columns: the SELECT over the view `source`. Raises InvalidTransform."""
    rows.createOrReplaceTempView(_VIEW)
    try:
        return rows.sparkSession.sql(sql)
    except (AnalysisException, ParseException) as error:
        raise InvalidTransform(
            f"spec.transform.sql: {_first_line(error)}; columns of source: {', '.join(rows.columns)}"
        ) from error


def mark_deletes(rows: DataFrame, delete_when: str | None) -> DataFrame:
    """Add the delete column if there is a predicate. Raises InvalidTransform."""
    if delete_when is None:
        return rows
    try:
        return rows.withColumn(DELETE_COLUMN, F.coalesce(F.expr(delete_when).cast("boolean"), F.lit(False)))  # noqa: FBT003
    except (AnalysisException, ParseException) as error:
        raise InvalidTransform(
            f"spec.table.deleteWhen: {_first_line(error)}; columns of the table: {', '.join(rows.columns)}"
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rstrip(";")
