"""What the decoder on Arrow makes of a message is what Spark's from_json makes of it, however odd it is.

FUZZED_MESSAGES says how many (20,000), FUZZED_SEED which (1).
"""

from __future__ import annotations

import itertools
import os

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from bucketingest.decode.json.alike.reader import AlikeReader
from bucketingest.decode.json.columns import read_type
from bucketingest.decode.json.decoder import JsonDecoder
from bucketingest.decode.json.doubts import Block
from bucketingest.stream.source.decoding import decode
from bucketingest.stream.spark.session import prepared
from support.decoding.json_messages import JsonMessages
from support.decoding.json_values import SCHEMA
from support.jobs.stream_runs import Lake

BLOCKS = (1, 2, 3, 5, 8, 13, 40, 200, 1000)
"""Numbers of messages decoded together, in turns: large blocks of odd messages are decoded one by one."""
ALIKE = 400
"""Messages of one producer, decoded together; as many of them as of others."""
GOOD_BLOCK = 25
"""Of messages that are rows, so that many of them are decoded together."""
PORTION = 20_000
SHOWN = 20


@pytest.fixture
def count() -> int:
    return int(os.environ.get("FUZZED_MESSAGES", "20000"))


def of_spark(spark: SparkSession, lake: Lake, messages: list[bytes | None]) -> tuple[list[bool], pa.StructArray]:
    """For each message whether it is no row, and the row."""
    source = {"kafka": {"bootstrapServers": "kafka:9092", "topics": ["t"]}}
    resource = lake.resource(source, format={"type": "json", "schema": SCHEMA}, table={"recordKey": ["id"]})
    table = pa.table({"number": pa.array(range(len(messages))), "value": pa.array(messages, pa.binary())})
    with prepared(spark):
        decoded = decode(spark.createDataFrame(table), resource).rows
        found = decoded.select("number", F.col("_bucketingest_bad"), F.col("_bucketingest_data")).toArrow()
    found = found.sort_by("number").combine_chunks()
    return found.column(1).to_pylist(), pa.concat_arrays(found.column(2).chunks)


def differences(decoder: JsonDecoder, messages: pa.Array, bad: list[bool], rows: pa.StructArray) -> list[str]:
    """In words, what is not the same."""
    decoded = decoder.decode(messages)
    refused = {each.number: each.why for each in decoded.refused}
    differing = [
        f"Spark {'refuses' if is_bad else 'takes'}, we say {refused.get(at, 'a row')!r}: {messages[at]}"
        for at, is_bad in enumerate(bad)
        if is_bad != (at in refused)
    ]
    if differing:
        return differing
    good = [at for at, is_bad in enumerate(bad) if not is_bad]
    wanted = pa.RecordBatch.from_struct_array(rows.take(pa.array(good, pa.int64())))
    for field in decoder.schema:
        theirs, ours = wanted.column(field.name), decoded.rows.column(field.name)
        if theirs.equals(ours) and not pa.types.is_floating(field.type):  # 0.0 equals -0.0
            continue
        differing += [
            f"{field.name}: Spark has {one}, we have {other}: {messages[at]}"
            for at, one, other in zip(good, as_texts(theirs), as_texts(ours), strict=True)
            if one != other
        ]
    return differing


def as_texts(values: pa.Array) -> list[str]:
    """Each value as text; Arrow's own where Python has no such value."""
    try:
        return [repr(value) for value in values.to_pylist()]
    except (OverflowError, ValueError):
        return [str(values.slice(at, 1)) for at in range(len(values))]


def test_messages_of_one_producer_have_sparks_verdicts_and_values(spark: SparkSession, lake: Lake, count: int) -> None:
    source = JsonMessages(int(os.environ.get("FUZZED_SEED", "1")))
    differing: list[str] = []
    taken = together = 0
    for start in range(0, count, PORTION):
        blocks = [source.alike(ALIKE) for _ in range(min(PORTION, count - start) // ALIKE)]
        bad, rows = of_spark(spark, lake, list(itertools.chain(*blocks)))
        schema = pa.schema(list(rows.type))
        read = pa.schema([field.with_type(read_type(field.type)) for field in schema])
        for number, block in enumerate(blocks):
            part = slice(number * ALIKE, (number + 1) * ALIKE)
            messages = pa.array(block, pa.binary())
            differing += differences(JsonDecoder(schema), messages, bad[part], rows[part])
            if (lines := Block(messages)).is_utf8:
                together += sum(len(each.numbers) for each in AlikeReader(read).read(lines.lines))
        taken += len(bad) - sum(bad)
    assert not differing, f"{len(differing)} of {count}:\n" + "\n".join(differing[:SHOWN])
    assert taken > count // 2
    assert together > count // 10, "they have no shape in common"


def test_every_verdict_and_every_value_is_sparks(spark: SparkSession, lake: Lake, count: int) -> None:
    source = JsonMessages(int(os.environ.get("FUZZED_SEED", "1")))
    differing: list[str] = []
    taken = refused = in_bulk = 0
    for start in range(0, count, PORTION):
        messages = source.take(min(PORTION, count - start))
        bad, rows = of_spark(spark, lake, messages)
        decoder = JsonDecoder(pa.schema(list(rows.type)))
        values = pa.array(messages, pa.binary())
        at = 0
        for size in itertools.cycle(BLOCKS):
            if at >= len(messages):
                break
            part = slice(at, at + size)
            differing += differences(decoder, values[part], bad[part], rows[part])
            at += size
        good = pa.array([number for number, is_bad in enumerate(bad) if not is_bad])
        for start_of_part in range(0, len(good), GOOD_BLOCK):
            part_of_good = good[start_of_part : start_of_part + GOOD_BLOCK]
            together = values.take(part_of_good)
            differing += differences(decoder, together, [False] * len(together), rows.take(part_of_good))
            in_bulk += len(together) - decoder.decode(together).one_by_one
        taken, refused = taken + len(bad) - sum(bad), refused + sum(bad)
    assert not differing, f"{len(differing)} of {count}:\n" + "\n".join(differing[:SHOWN])
    assert taken > count // 10, "the messages are too odd: nearly none is a row"
    assert refused > count // 10, "the messages are not odd enough"
    assert in_bulk > count // 10, "Arrow's reader has not been compared"
