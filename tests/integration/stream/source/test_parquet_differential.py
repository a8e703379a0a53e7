"""Parquet files as our tasks read them and as Spark does: the same rows, in the same tasks, in the same order."""

from __future__ import annotations

import datetime as dt
import decimal
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType, _parse_datatype_string

from bucketingest.decode.parquet_files import Piece, read
from bucketingest.decode.sql.nodes import RowsInDoubt
from bucketingest.stream.source.scanned_files import pieces_of
from bucketingest.stream.spark.session import prepared

DDL = (
    "t STRING, b BINARY, o BOOLEAN, i8 TINYINT, i16 SMALLINT, i32 INT, i64 BIGINT, f FLOAT, d DOUBLE, "
    "small DECIMAL(7,2), large DECIMAL(38,18), day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, absent STRING"
)
LOCAL = pa.timestamp("us")
UTC = pa.timestamp("us", tz="UTC")
FILE = pa.schema(
    [
        ("T", pa.string()),
        ("b", pa.binary()),
        ("o", pa.bool_()),
        ("i8", pa.int8()),
        ("i16", pa.int16()),
        ("i32", pa.int32()),
        ("i64", pa.int64()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("small", pa.decimal128(7, 2)),
        ("large", pa.decimal128(38, 18)),
        ("day", pa.date32()),
        ("at", UTC),
        ("local", LOCAL),
        ("more", pa.list_(pa.int64())),
    ]
)
_YEAR_1, _JULIAN, _YEAR_9999 = -62_135_596_800_000_000, -12_219_400_000_000_000, 253_402_300_799_999_999
EDGES: dict[str, list[Any]] = {
    "T": ["", "a", "ä\0€𐍈", "x" * 5000],
    "b": [b"", b"\xff\x00", b"y" * 3000],
    "o": [True, False],
    "i8": [-128, 127, 0],
    "i16": [-(2**15), 2**15 - 1],
    "i32": [-(2**31), 2**31 - 1],
    "i64": [-(2**63), 2**63 - 1],
    "f": [0.0, -0.0, float("inf"), float("nan"), 1e-45],
    "d": [0.0, -0.0, float("-inf"), float("nan"), 5e-324],
    "small": [decimal.Decimal("-99999.99"), decimal.Decimal("0.01")],
    "large": [decimal.Decimal("9" * 20 + "." + "9" * 18), decimal.Decimal("-0.000000000000000001")],
    "day": [dt.date(1, 1, 1), dt.date(1582, 10, 10), dt.date(9999, 12, 31), dt.date(1969, 12, 31)],
    "at": [_YEAR_1, _JULIAN, 0, _YEAR_9999],
    "local": [_YEAR_1, _JULIAN, -1, _YEAR_9999],
    "more": [[], [1, 2]],
}
WRITERS: list[dict[str, Any]] = [
    {},
    {"use_dictionary": False, "data_page_version": "2.0", "compression": "zstd"},
    {"version": "1.0", "compression": "gzip", "store_decimal_as_integer": False},
    {"store_decimal_as_integer": True, "compression": "lz4", "data_page_size": 512},
    {"use_dictionary": False, "column_encoding": {"T": "DELTA_BYTE_ARRAY", "i64": "DELTA_BINARY_PACKED"}},
    {"store_schema": False, "use_dictionary": ["T"], "compression": "none"},
]


def rows_of(seed: int, count: int) -> pa.Table:
    """Rows of edges and nulls."""
    chosen = random.Random(seed)
    columns = [
        pa.array(
            [None if chosen.random() < 0.2 else chosen.choice(EDGES[field.name]) for _ in range(count)], field.type
        )
        for field in FILE
    ]
    return pa.Table.from_arrays(columns, schema=FILE)


def micro_batches(
    spark: SparkSession, folder: Path, ddl: str, checkpoint: Path
) -> list[tuple[pa.Table, list[list[Piece]]]]:
    """Of each micro-batch: the rows as Spark reads them, and the pieces that are ours to read."""
    seen: list[tuple[pa.Table, list[list[Piece]]]] = []

    def note(rows: DataFrame, _: int) -> None:
        seen.append((rows.toArrow(), pieces_of(rows)))

    with prepared(spark):
        stream = spark.readStream.format("parquet").schema(ddl).option("recursiveFileLookup", "true")
        rows = stream.option("maxFilesPerTrigger", 4).load(str(folder))
        writer = rows.writeStream.foreachBatch(note).option("checkpointLocation", str(checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()
    return seen


@pytest.fixture
def small_splits(spark: SparkSession) -> Any:
    names = {"spark.sql.files.maxPartitionBytes": "20000", "spark.sql.files.openCostInBytes": "0"}
    for name, value in names.items():
        spark.conf.set(name, value)
    yield
    for name in names:
        spark.conf.unset(name)


@pytest.mark.usefixtures("small_splits")
def test_rows_of_all_types_are_sparks_in_the_same_tasks_and_order(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    for number, options in enumerate(WRITERS):
        path = folder / f"deeper {number % 2}" / f"100% #{number} ä.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows_of(number, 400), path, row_group_size=70, **options)
    pq.write_table(rows_of(0, 0), folder / "empty.parquet")
    schema = _parse_datatype_string(DDL)
    assert isinstance(schema, StructType)
    columns = pa.schema(list(to_arrow_schema(schema, timezone="UTC")))

    seen = micro_batches(spark, folder, DDL, tmp_path / "checkpoint")

    assert len(seen) == 2
    assert max(len(tasks) for _, tasks in seen) > 10
    assert sum(rows.num_rows for rows, _ in seen) == 400 * len(WRITERS)
    for rows, tasks in seen:
        ours = pa.Table.from_batches([batch for pieces in tasks for batch in read(pieces, columns)], columns)
        assert ours.schema.types == rows.schema.types
        assert repr(ours.to_pylist()) == repr(rows.to_pylist())


def test_a_plan_of_another_form_is_sparks(spark: SparkSession) -> None:
    with pytest.raises(RowsInDoubt, match="another form than is known"):
        pieces_of(spark.range(3))
