"""However messages are put into blocks, each is what the page says: a plain model on Python's own parser is the judge.

FUZZED_MESSAGES says how many (6,000), FUZZED_SEED which (1).
"""

from __future__ import annotations

import itertools
import os
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from bucketingest.decode.ddl import columns_of
from bucketingest.decode.json.alike.reader import AlikeReader
from bucketingest.decode.json.decoder import JsonDecoder
from bucketingest.decode.json.times import MICROS_OF
from support.decoding.json_judge import NoRowError, Verbatim, row_of
from support.decoding.json_messages import JsonMessages
from support.decoding.json_values import SCHEMA

BLOCKS = (1, 2, 3, 5, 8, 13, 40, 200, 1000)
"""Numbers of messages decoded together, in turns."""
ALIKE = 400
"""Messages of one producer, decoded together."""
COLUMNS = columns_of(SCHEMA)
COUNT = int(os.environ.get("FUZZED_MESSAGES", "6000"))
SEED = int(os.environ.get("FUZZED_SEED", "1"))
UNITS = sorted(MICROS_OF.values())
LEVELS_MAX = 500
"""So many are surely read; above, it is the interpreter's stack that decides."""


def differences(decoder: JsonDecoder, messages: list[bytes | None], unit: int) -> list[str]:
    """In words, which messages the decoder and the judge do not agree about."""
    decoded = decoder.decode(pa.array(messages, pa.binary()))
    refused = {each.number: each.why for each in decoded.refused}
    rows = iter(counted(decoded.rows))
    found = []
    for number, message in enumerate(messages):
        row = None if number in refused else next(rows)
        if message is not None and message.count(b"[") > LEVELS_MAX:
            continue
        try:
            wanted = None if message is None else row_of(message, COLUMNS, unit)
        except NoRowError:
            wanted = None
        if (row is None) != (wanted is None):
            found.append(f"{message!r}: {refused.get(number)} and {wanted}")
        elif row is not None and message is not None and not same(row, wanted, message):
            found.append(f"{message!r}: {row} and {wanted}")
    assert next(rows, None) is None, "more rows than messages"
    return found


def counted(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows, with times as their count: Python has fewer years and digits."""
    schema = pa.schema([field.with_type(number_type(field.type)) for field in rows.schema])
    return pa.Table.from_batches([rows]).cast(schema).to_pylist()


def number_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        return pa.struct([field.with_type(number_type(field.type)) for field in fields])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(number_type(kind.value_type)))
    if pa.types.is_temporal(kind):
        return pa.int64() if pa.types.is_timestamp(kind) else pa.int32()
    return kind


def same(found: Any, wanted: Any, message: bytes) -> bool:
    """Also the sign of zero, and NaN is itself."""
    if isinstance(wanted, Verbatim):
        return isinstance(found, str) and wanted.is_written_as(found, message)
    if isinstance(wanted, dict):
        return found is not None and all(same(found[name], value, message) for name, value in wanted.items())
    if isinstance(wanted, list):
        return (
            found is not None
            and len(found) == len(wanted)
            and all(itertools.starmap(lambda one, other: same(one, other, message), zip(found, wanted, strict=True)))
        )
    if isinstance(wanted, Decimal):
        return bool(found == wanted)
    return repr(found) == repr(wanted)


@pytest.mark.parametrize("unit", UNITS)
def test_messages_of_one_producer_are_what_the_page_says(unit: int) -> None:
    source, decoder = JsonMessages(SEED), JsonDecoder(COLUMNS, unit)
    differing: list[str] = []
    alike = 0
    for _ in range(max(1, COUNT // ALIKE // len(UNITS))):
        messages = source.alike(ALIKE)
        differing += differences(decoder, messages, unit)
        readable = pa.array([each for each in messages if each is not None and is_utf8(each)], pa.binary())
        alike += sum(len(each.numbers) for each in AlikeReader(COLUMNS, unit).read(readable))
    assert not differing, "\n".join(differing[:20])
    assert unit or alike > COUNT // len(UNITS) // 10, "they have no shape in common"


def is_utf8(message: bytes) -> bool:
    try:
        message.decode()
    except UnicodeDecodeError:
        return False
    return True


@pytest.mark.parametrize("unit", UNITS)
def test_odd_messages_are_what_the_page_says(unit: int) -> None:
    count = COUNT // len(UNITS)
    messages, decoder = JsonMessages(SEED + unit).take(count), JsonDecoder(COLUMNS, unit)
    differing: list[str] = []
    at = 0
    for size in itertools.cycle(BLOCKS):
        if at >= count:
            break
        differing += differences(decoder, messages[at : at + size], unit)
        at += size
    assert not differing, "\n".join(differing[:20])
    refused = len(decoder.decode(pa.array(messages, pa.binary())).refused)
    assert count // 10 < refused < count - count // 10, "too odd, or not odd enough"
