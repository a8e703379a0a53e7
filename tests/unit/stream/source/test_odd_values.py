"""Each odd value of each type is a row's value or a dead letter, as the table says: all in one block, and alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pytest

from bucketingest.decode.avro.decoder import AvroDecoder
from bucketingest.decode.json.decoder import JsonDecoder
from bucketingest.decode.kafka.message import VALUE
from bucketingest.decode.message_columns import columns_of
from bucketingest.decode.protobuf.decoder import ProtobufDecoder
from bucketingest.decode.protobuf.descriptors import read_message
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.stream.source.messages import BlockDecoder, MessageDecoder
from support.decoding.odd_values import Name, expected_of, messages_of, model_of, reasons_of
from support.oracle import hudi_rs
from support.tables.local_writer import LocalWriter

NAMES: tuple[Name, ...] = get_args(Name)


def decoder_of(name: Name) -> MessageDecoder:
    format_ = model_of(name)
    columns = columns_of(format_)
    blocks: BlockDecoder
    match name:
        case "json":
            blocks = JsonDecoder(columns)
        case "avro":
            blocks = AvroDecoder(format_.columns_text, columns)
        case "protobuf":
            blocks = ProtobufDecoder(read_message(format_.columns_text, format_.message_name), columns)
    return MessageDecoder(blocks, "no row", "no value")


def block_of(values: Sequence[bytes | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({VALUE: pa.array(values, pa.binary())})


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("name", NAMES)
def test_each_value_is_what_the_table_says(name: Name, size: int) -> None:
    messages, decoder = list(messages_of(name)), decoder_of(name)
    rows: dict[str, Any] = {}
    reasons: dict[int, str] = {}
    for start in range(0, len(messages), size):
        part = block_of(messages[start : start + size])
        decoded = decoder.decode(part)
        reasons |= {start + each.number: each.why for each in decoded.refused}
        numbers = decoded.numbers(part.num_rows).tolist()
        rows |= {str(start + at): row for at, row in zip(numbers, decoded.rows.to_pylist(), strict=True)}
    expected = expected_of(name)
    assert sorted(rows) == sorted(expected)
    for number, wanted in expected.items():
        found = {column: value for column, value in rows[number].items() if value is not None and column != "id"}
        assert repr(plain(found)) == repr(plain({key: value for key, value in wanted.items() if value is not None}))
    wrong = {number: (reasons[number], why) for number, why in reasons_of(name).items() if why not in reasons[number]}
    assert not wrong
    assert sorted(reasons) == sorted(reasons_of(name))


@pytest.mark.parametrize("name", NAMES)
def test_each_value_is_read_from_a_table_as_it_was_written(name: Name, tmp_path: Path) -> None:
    rows = decoder_of(name).decode(block_of(list(messages_of(name)))).rows
    # hudi-rs 0.5.0 cannot open a table with a time without a zone.
    readable = [field.name for field in rows.schema if field.type != pa.timestamp("us")]
    rows = rows.select(readable)
    table = tmp_path / "table"
    writer = LocalWriter(table, TableDefinition("t", ("id",), (), None, buckets=4), rows.schema)
    writer.commit(pa.Table.from_batches([rows]))
    found = {row["id"]: row for row in hudi_rs.snapshot(table).select(readable).to_pylist()}
    assert {number: as_text(row) for number, row in found.items()} == {
        row["id"]: as_text(row) for row in rows.to_pylist()
    }


def as_text(value: Any) -> str:
    """Readers have classes of their own for times."""
    if isinstance(value, dict):
        return str({name: as_text(each) for name, each in value.items()})
    if isinstance(value, list):
        return str([as_text(each) for each in value])
    return str(value.isoformat()) if hasattr(value, "isoformat") else repr(value)


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """Times as text: Arrow's zone and Python's are two objects."""
    return {name: value.isoformat() if hasattr(value, "isoformat") else value for name, value in row.items()}
