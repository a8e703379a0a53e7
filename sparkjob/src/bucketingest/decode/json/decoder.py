"""Decodes a block of JSON messages into rows of a schema, and says of each other message why it is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from bucketingest.decode.json.blocks import BlockReader
from bucketingest.decode.json.columns import converted, either, read_type
from bucketingest.decode.json.doubts import Block, Mask
from bucketingest.decode.json.exact import ExactDecoder
from bucketingest.decode.json.scanner import Undecodable


@dataclass(frozen=True, slots=True)
class Refused:
    """A message that is no row."""

    number: int
    """Of the message, in the block."""
    why: str
    """Field, position in the message's text from 1 on, and what is wrong; "" if the message has no value."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a block of messages is. Each message is either a row or refused."""

    rows: pa.RecordBatch
    """In the order of the messages."""
    refused: list[Refused]
    one_by_one: int
    """How many messages were not decoded in bulk."""


class JsonDecoder:
    """Decodes with the verdicts and values of Spark's `from_json`. Picklable."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._exact = ExactDecoder(schema)
        self._blocks = BlockReader(pa.schema([field.with_type(read_type(field.type)) for field in schema]))

    def __reduce__(self) -> tuple[type[JsonDecoder], tuple[pa.Schema]]:
        return JsonDecoder, (self.schema,)

    def decode(self, messages: pa.BinaryArray) -> Decoded:
        """Decode the values of messages, null for one without a value."""
        refused = []
        numbers = np.arange(len(messages))
        if messages.null_count:
            is_null = messages.is_null().to_numpy(zero_copy_only=False)
            refused = [Refused(int(number), "") for number in numbers[is_null]]
            numbers, messages = numbers[~is_null], messages.drop_null()
        if not len(messages):
            return Decoded(self._batch([]), refused, 0)
        block = Block(messages)
        bulk, one_by_one = self._in_bulk(block)
        if not one_by_one.any():
            return Decoded(bulk, refused, 0)
        rows, found = [], []
        for at in np.flatnonzero(one_by_one).tolist():
            try:
                rows.append(self._exact.decode(block.message(at)))
            except Undecodable as error:
                refused.append(Refused(int(numbers[at]), describe(error)))
            else:
                found.append(at)
        refused.sort(key=lambda each: each.number)
        if rows:
            bulk = _merged(bulk, self._batch(rows), np.concatenate((np.flatnonzero(~one_by_one), found)))
        return Decoded(bulk, refused, int(one_by_one.sum()))

    def _in_bulk(self, block: Block) -> tuple[pa.RecordBatch, Mask]:
        """Rows of the messages that can be decoded together, and which messages these are not."""
        doubted = block.doubted()
        trusted = np.flatnonzero(~doubted)
        lines = block.lines if len(trusted) == len(doubted) else block.lines.take(pa.array(trusted))
        table, refused = self._blocks.read(lines)
        doubted[trusted[refused]] = True
        columns, uncertain = [], None
        for field, column in zip(self.schema, table.columns, strict=True):
            values, doubts = converted(_joined(column), field.type)
            columns.append(values)
            uncertain = either(uncertain, doubts)
        rows = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        if uncertain is not None:
            rows = rows.filter(pa.array(~uncertain))
            doubted[np.flatnonzero(~doubted)[uncertain]] = True
        return rows, doubted

    def _batch(self, rows: list[dict[str, Any]]) -> pa.RecordBatch:
        columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in self.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def describe(error: Undecodable) -> str:
    """Where and why, in words. The position counts characters as Java does: those beyond U+FFFF are two."""
    path = ".".join(reversed(error.path)).replace(".[", "[")
    place = f"field {path}, character {error.at + 1}" if path else f"character {error.at + 1}"
    return f"{place}: {error.why}"


def _joined(column: pa.ChunkedArray) -> pa.Array:
    return (
        column.chunk(0)
        if column.num_chunks == 1
        else pa.concat_arrays(column.chunks)
        if column.num_chunks
        else pa.nulls(0, column.type)
    )


def _merged(first: pa.RecordBatch, second: pa.RecordBatch, order: Any) -> pa.RecordBatch:
    """The rows of both, `order` having the place of each."""
    both = pa.Table.from_batches([first, second]).take(pa.array(np.argsort(order, kind="stable"))).combine_chunks()
    (batch,) = both.to_batches()
    return batch
