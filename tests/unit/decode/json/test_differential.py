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
from bucketingest.decode.json.columns import is_read_by_arrow, read_type
from bucketingest.decode.json.decoder import JsonDecoder
from bucketingest.decode.json.doubts import Block
from bucketingest.decode.json.times import MICROS_OF
from support.decoding.json_judge import NoRowError, Verbatim, row_of
from support.decoding.json_messages import JsonMessages
from support.decoding.json_values import SCHEMA

BLOCKS = (1, 2, 3, 5, 8, 13, 40, 200, 1000)
"""Numbers of messages decoded together, in turns."""
ALIKE = 400
"""Messages of one producer, decoded together."""
ALL = columns_of(SCHEMA)
COLUMNS = {
    "by Arrow": pa.schema([field for field in ALL if is_read_by_arrow(field.type)]),
    "by msgspec": ALL,
}
"""Arrow's reader reads no message of a schema with a MAP or a BINARY."""
COUNT = int(os.environ.get("FUZZED_MESSAGES", "6000"))
SEED = int(os.environ.get("FUZZED_SEED", "1"))
UNITS = sorted(MICROS_OF.values())


def differences(decoder: JsonDecoder, messages: list[bytes | None], unit: int) -> list[str]:
    """In words, which messages the decoder and the judge do not agree about."""
    decoded = decoder.decode(pa.array(messages, pa.binary()))
    refused = {each.number: each.why for each in decoded.refused}
    rows = iter(counted(decoded.rows))
    found = []
    for number, message in enumerate(messages):
        row = None if number in refused else next(rows)
        try:
            wanted = None if message is None else row_of(message, decoder.schema, unit)
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


@pytest.mark.parametrize("columns", COLUMNS.values(), ids=COLUMNS)
@pytest.mark.parametrize("unit", UNITS)
def test_messages_of_one_producer_are_what_the_page_says(unit: int, columns: pa.Schema) -> None:
    source = JsonMessages(SEED)
    read = pa.schema([field.with_type(read_type(field.type, unit)) for field in columns])
    differing: list[str] = []
    alike = 0
    for _ in range(max(3, COUNT // ALIKE // len(UNITS) // len(COLUMNS))):
        messages = source.alike(ALIKE)
        differing += differences(JsonDecoder(columns, unit), messages, unit)
        readable = pa.array([each for each in messages if each is not None and is_utf8(each)], pa.binary())
        alike += sum(len(each.numbers) for each in AlikeReader(read).read(Block(readable).lines))
    assert not differing, "\n".join(differing[:20])
    assert unit or columns is ALL or alike > COUNT // len(UNITS) // len(COLUMNS) // 10, "they have no shape in common"


@pytest.mark.parametrize("columns", COLUMNS.values(), ids=COLUMNS)
@pytest.mark.parametrize("unit", UNITS)
def test_odd_messages_are_what_the_page_says(unit: int, columns: pa.Schema) -> None:
    count = COUNT // len(UNITS) // len(COLUMNS)
    messages, decoder = JsonMessages(SEED + unit).take(count), JsonDecoder(columns, unit)
    differing: list[str] = []
    at = 0
    for size in itertools.cycle(BLOCKS):
        if at >= count:
            break
        differing += differences(decoder, messages[at : at + size], unit)
        at += size
    refused = {each.number for each in decoder.decode(pa.array(messages, pa.binary())).refused}
    assert count // 10 < len(refused) < count - count // 10, "too odd, or not odd enough"
    good = [message for number, message in enumerate(messages) if number not in refused]
    for start in range(0, len(good), 25):  # without odd ones, so that many are decoded together
        differing += differences(decoder, good[start : start + 25], unit)
    assert not differing, "\n".join(differing[:20])


@pytest.mark.parametrize("columns", COLUMNS.values(), ids=COLUMNS)
def test_one_odd_message_among_good_ones_is_what_it_is_alone(columns: pa.Schema) -> None:
    """Whichever way the others go, by position, by Arrow's reader or by msgspec."""
    source, decoder = JsonMessages(SEED), JsonDecoder(columns)
    differing: list[str] = []
    for odd in source.take(max(1, COUNT // ALIKE)):
        neighbours = [each for each in source.alike(100) if each is not None and row_or_none(each, columns)]
        differing += differences(decoder, [*neighbours[:50], odd, *neighbours[50:]], 0)
        alone, among = (
            decoder.decode(pa.array(messages, pa.binary())).refused for messages in ([odd], [*neighbours, odd])
        )
        assert [each.why for each in alone] == [each.why for each in among]
    assert not differing, "\n".join(differing[:20])


def row_or_none(message: bytes, columns: pa.Schema) -> dict[str, Any] | None:
    try:
        return row_of(message, columns, 0)
    except NoRowError:
        return None


def is_utf8(message: bytes) -> bool:
    try:
        message.decode()
    except UnicodeDecodeError:
        return False
    return True
