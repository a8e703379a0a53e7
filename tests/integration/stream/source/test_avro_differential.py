"""What the decoder on Arrow makes of a message is what Spark's from_avro makes of it, however odd its bytes are.

FUZZED_SCHEMAS says of how many schemas (12), FUZZED_MESSAGES how many of each (1,500), FUZZED_SEED which (1).
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody names it
from pyspark.sql.pandas.types import to_arrow_schema

from bucketingest.decode.avro.column_types import differing
from bucketingest.decode.avro.decoder import AvroDecoder
from bucketingest.decode.avro.schema import read_fields
from bucketingest.stream.source.decoding import decode
from bucketingest.stream.spark.session import prepared
from support.decoding.avro_messages import AvroMessages, as_text
from support.jobs.stream_runs import Lake

SCHEMAS = int(os.environ.get("FUZZED_SCHEMAS", "12"))
MESSAGES = int(os.environ.get("FUZZED_MESSAGES", "1500"))
SEED = int(os.environ.get("FUZZED_SEED", "1"))
BLOCKS = (1, 2, 3, 8, 40, 200, 1000)
"""Numbers of messages decoded together, in turns."""
SHOWN = 20

DELIBERATE = re.compile(
    r": (a byte that is not UTF-8|a number of \d+ bytes does not fit into DECIMAL\((\d|1[0-8]),\d+\))$"
)
"""Why we refuse messages that Spark takes: it keeps bytes that are no text, and 64 bits of a number that has more."""


def of_spark(
    spark: SparkSession, lake: Lake, schema: dict[str, Any], messages: list[bytes | None]
) -> tuple[pa.Schema, list[bool], pa.StructArray]:
    """The columns; for each message whether it is no row, and the row."""
    source = {"kafka": {"bootstrapServers": "kafka:9092", "topics": ["t"]}}
    format_ = {"type": "avro", "schema": as_text(schema)}
    resource = lake.resource(source, format=format_, table={"recordKey": ["id"]})
    table = pa.table({"number": pa.array(range(len(messages))), "value": pa.array(messages, pa.binary())})
    with prepared(spark):
        decoded = decode(spark.createDataFrame(table), resource)
        columns = pa.schema(list(to_arrow_schema(decoded.all().schema, timezone="UTC")))
        found = decoded.rows.select("number", F.col("_bucketingest_bad"), F.col("_bucketingest_data")).toArrow()
    found = found.sort_by("number").combine_chunks()
    return columns, found.column(1).to_pylist(), pa.concat_arrays(found.column(2).chunks)


@pytest.fixture
def bounded_lengths(spark: SparkSession) -> Iterator[None]:
    """Java's Avro makes room for a text or array of any length that a message says it has, and Spark would end."""
    jvm: Any = spark._jvm
    gateway: Any = spark.sparkContext._gateway
    names = [f"org.apache.avro.limits.{kind}.maxLength" for kind in ("bytes", "string", "collectionItems")]
    again = jvm.java.lang.Class.forName("org.apache.avro.SystemLimitException").getDeclaredMethod(
        "resetLimits", gateway.new_array(jvm.java.lang.Class, 0)
    )
    again.setAccessible(True)
    nothing = gateway.new_array(jvm.java.lang.Object, 0)
    for name in names:
        jvm.java.lang.System.setProperty(name, "1000000")
    again.invoke(None, nothing)
    yield
    for name in names:
        jvm.java.lang.System.clearProperty(name)
    again.invoke(None, nothing)


def differences(decoder: AvroDecoder, messages: pa.Array, bad: list[bool], rows: pa.StructArray) -> list[str]:
    """In words, what is not the same."""
    decoded = decoder.decode(messages)
    decoded.rows.validate(full=True)
    refused = {each.number: each.why for each in decoded.refused}
    differing_ = [
        f"Spark {'refuses' if is_bad else 'takes'}, we say {refused.get(at, 'a row')!r}: {messages[at]}"
        for at, is_bad in enumerate(bad)
        if is_bad != (at in refused) and not DELIBERATE.search(refused.get(at, ""))
    ]
    if differing_:
        return differing_
    good = [at for at in range(len(bad)) if at not in refused]
    wanted = pa.RecordBatch.from_struct_array(rows.take(pa.array(good, pa.int64())))
    return [
        f"{column.name}: Spark has {one}, we have {other}: {messages[at]}"
        for column in decoder.schema
        for at, one, other in zip(
            good, as_texts(wanted.column(column.name)), as_texts(decoded.rows.column(column.name)), strict=True
        )
        if one != other
    ]


def as_texts(values: pa.Array) -> list[str]:
    """Each value as text, the entries of maps in the order of their keys; times as whole numbers: Python lacks some."""
    return [repr(plain(value)) for value in numbers_for_times(values).to_pylist()]


def plain(value: Any) -> Any:
    if isinstance(value, list):
        items = [plain(item) for item in value]
        return sorted(items, key=repr) if items and isinstance(items[0], tuple) else items
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return tuple(plain(item) for item in value) if isinstance(value, tuple) else value


def numbers_for_times(values: pa.Array) -> pa.Array:
    """The same memory with other types."""
    kind = values.type
    if pa.types.is_timestamp(kind):
        return values.view(pa.int64())
    if pa.types.is_date32(kind):
        return values.view(pa.int32())
    mask = values.is_null()
    if pa.types.is_struct(kind):
        children = [numbers_for_times(child) for child in values.flatten()]
        return pa.StructArray.from_arrays(children, [field.name for field in kind], mask=mask)
    if pa.types.is_list(kind):
        items = numbers_for_times(values.values)
        return pa.ListArray.from_arrays(values.offsets, items, mask=mask)
    if pa.types.is_map(kind):
        return pa.MapArray.from_arrays(values.offsets, values.keys, numbers_for_times(values.items), mask=mask)
    return values


def test_every_verdict_and_every_value_is_sparks(spark: SparkSession, lake: Lake, bounded_lengths: None) -> None:
    source = AvroMessages(SEED)
    found: list[str] = []
    taken = refused = in_bulk = 0
    for _ in range(SCHEMAS):
        schema = source.schema()
        columns, _, _ = of_spark(spark, lake, schema, [None])
        assert differing(read_fields(as_text(schema)), columns) is None
        decoder = AvroDecoder(as_text(schema), columns)
        messages = source.take(schema, MESSAGES)
        _, bad, rows = of_spark(spark, lake, schema, messages)
        values = pa.array(messages, pa.binary())
        at = 0
        for size in itertools.cycle(BLOCKS):
            if at >= len(messages):
                break
            part = slice(at, at + size)
            new = differences(decoder, values[part], bad[part], rows[part])
            found += [f"{each} of {as_text(schema)}" for each in new]
            in_bulk += len(values[part]) - decoder.decode(values[part]).one_by_one
            at += size
        taken, refused = taken + len(bad) - sum(bad), refused + sum(bad)
    assert not found, f"{len(found)} of {SCHEMAS * MESSAGES}:\n" + "\n".join(found[:SHOWN])
    assert taken > SCHEMAS * MESSAGES // 3, "the messages are too odd"
    assert refused > SCHEMAS * MESSAGES // 10, "the messages are not odd enough"
    assert in_bulk > SCHEMAS * MESSAGES // 3, "the decoder of many messages has not been compared"
