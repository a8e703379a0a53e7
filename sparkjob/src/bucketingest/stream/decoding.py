"""From what the source delivers to the table's columns: decoding, the SQL transform, the delete predicate.

All of it is Spark's own expressions, compiled in the JVM: no row becomes a Python object.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - as everybody names it
from pyspark.sql.avro.functions import from_avro

from bucketingest.spec.model import BucketIngest, Format
from bucketingest.stream.errors import InvalidTransform, MissingConnector
from bucketingest.stream.sources import CORRUPT
from bucketingest.write.plan import DELETE_COLUMN

_DATA: Final = "_bucketingest_data"
_BAD: Final = "_bucketingest_bad"
_VIEW: Final = "source"


@dataclass(frozen=True, slots=True)
class Decoded:
    """The rows of a micro-batch, decoded, before good and bad ones are told apart."""

    rows: DataFrame
    """The decoded columns (Kafka: in the struct `_DATA`), what the message was, and `_BAD`."""
    can_fail: bool
    """Whether there can be rows that could not be decoded."""

    def observed(self, observation: Observation) -> Decoded:
        """The same; when its rows are read, the observation learns their number (`bad`) in passing."""
        return replace(self, rows=self.rows.observe(observation, F.count_if(F.col(_BAD)).alias("bad")))

    def good(self) -> DataFrame:
        """The rows that could be decoded, with the source's columns only."""
        if not self.can_fail:
            return self.rows
        # spark_partition_id keeps Spark from moving the filter below the decoding, which would then happen twice.
        kept = self.rows.filter(~F.col(_BAD) & (F.spark_partition_id() >= 0))
        return kept.select(f"{_DATA}.*") if _DATA in self.rows.columns else kept.drop(CORRUPT, _BAD)

    def bad(self) -> DataFrame:
        """The rows that could not be decoded, as the dead-letter table's columns from `reason` on."""
        rows = self.rows.filter(F.col(_BAD) & (F.spark_partition_id() >= 0))
        detail = F.lit("the record cannot be decoded with the schema")
        if _DATA not in rows.columns:
            return rows.select(
                F.lit("decode").alias("reason"), detail.alias("detail"), F.col(CORRUPT).cast("binary").alias("value")
            )
        detail = F.when(F.col("value").isNull(), F.lit("the message has no value")).otherwise(detail)
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


def decode(rows: DataFrame, resource: BucketIngest) -> Decoded:
    """Decode what the source delivered. Raises InvalidTransform for a schema that Spark cannot read."""
    if resource.spec.format is not None:
        data = _decoder(resource.spec.format)
        try:
            decoded = rows.withColumn(_DATA, data)
        except (AnalysisException, ParseException) as error:
            raise InvalidTransform(f"spec.format.schema: Spark cannot read it: {_first_line(error)}") from error
        corrupt = (
            F.col(_DATA).isNull() if resource.spec.format.type == "avro" else F.col(f"{_DATA}.{CORRUPT}").isNotNull()
        )
        decoded = decoded.withColumn(_BAD, F.col("value").isNull() | F.col(_DATA).isNull() | corrupt)
        if resource.spec.format.type == "json":
            decoded = decoded.withColumn(_DATA, F.col(_DATA).dropFields(CORRUPT))
        return Decoded(decoded, can_fail=True)
    if CORRUPT in rows.columns:
        return Decoded(rows.withColumn(_BAD, F.col(CORRUPT).isNotNull()), can_fail=True)
    return Decoded(rows, can_fail=False)


def _decoder(format_: Format) -> Column:
    if format_.type == "json":
        schema = f"{format_.schema_text}, {CORRUPT} STRING"
        return F.from_json(
            F.col("value").cast("string"), schema, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
        )
    try:
        return from_avro(F.col("value"), format_.schema_text, {"mode": "PERMISSIVE"})
    except TypeError as error:  # PySpark's way to say that the JVM lacks the function
        raise MissingConnector(
            "Spark has no from_avro: its jar is missing. Run `make connectors`, name a folder that holds it in "
            "BUCKETINGEST_JARS, or set spark.conf spark.jars.packages"
        ) from error


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
    return str(error).strip().splitlines()[0]
