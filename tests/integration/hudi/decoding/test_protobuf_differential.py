"""What the decoder of Protobuf makes of a message is what Spark's from_protobuf makes of it, however odd its bytes are.

FUZZED_SCHEMAS says of how many schemas (6), FUZZED_MESSAGES how many of each (500), FUZZED_SEED which (5).
"""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bucketingest.decode.protobuf.decoder import ProtobufDecoder
from bucketingest.decode.protobuf.descriptors import read_message
from devservers.locations import require
from support.decoding.protobuf_messages import ProtobufMessages
from support.decoding.protobuf_rows import numbers_for_times, plain
from support.oracle.client import HudiOracle

pytestmark = pytest.mark.hudi

SCHEMAS = int(os.environ.get("FUZZED_SCHEMAS", "6"))
MESSAGES = int(os.environ.get("FUZZED_MESSAGES", "500"))
SEED = int(os.environ.get("FUZZED_SEED", "5"))
DELIBERATE = re.compile(
    r": (a byte that is not UTF-8|-?\d+ seconds do not fit into TIMESTAMP|the enum \w+ has no number -?\d+|"
    r"wire type \d, which a field of type \w+ cannot have)$"
)
"""Why we refuse messages that Spark takes: it replaces bytes that are no text, wraps times, and leaves out what is odd
inside a message.
"""
LONG = re.compile(rb"[\x80-\xff]{9}[^\x01]")
"""A number of ten bytes that needs fewer: Java may read another one."""


def last_entries(value: Any) -> Any:
    """Of a map's key that occurs twice only the last value: Spark keeps both."""
    if isinstance(value, dict):
        return {name: last_entries(each) for name, each in value.items()}
    if not isinstance(value, list):
        return value
    if value and isinstance(value[0], tuple):
        return list({key: last_entries(each) for key, each in value}.items())
    return [last_entries(each) for each in value]


def test_every_verdict_and_every_value_is_sparks(hudi: HudiOracle, tmp_path: Path) -> None:
    require("spark-protobuf")
    source = ProtobufMessages(SEED)
    seen: Counter[str] = Counter()
    for number in range(SCHEMAS):
        schema = source.schema()
        file = tmp_path / f"{number}.desc"
        file.write_bytes(schema.files.SerializeToString())
        decoder = ProtobufDecoder(read_message(schema.text, schema.name))
        given = source.take(schema, MESSAGES)
        values = pa.array(given, pa.binary())
        found = hudi.from_protobuf(values, file, schema.name)
        wanted = pa.RecordBatch.from_arrays(found.flatten(), names=[field.name for field in found.type])
        decoded = decoder.decode(values)
        assert wanted.schema.names == decoded.rows.schema.names
        refused = {each.number: each.why for each in decoded.refused}
        rows = iter(numbers_for_times(decoded.rows))
        for at, spark in enumerate(plain(last_entries(each)) for each in numbers_for_times(wanted)):
            is_bad = all(value is None for value in spark.values())
            if at in refused:
                assert is_bad or DELIBERATE.search(f": {refused[at]}"), (refused[at], given[at], spark)
                seen["refused"] += 1
                continue
            ours = plain(next(rows))
            message = given[at]
            assert message is not None
            if ours != spark:
                assert LONG.search(message), (schema.files, message)
                seen["long numbers"] += 1
            seen["rows"] += 1
    assert seen["rows"] > SCHEMAS * MESSAGES // 3
    assert seen["refused"] > SCHEMAS * MESSAGES // 10
    assert seen["long numbers"] <= SCHEMAS * MESSAGES // 500
