"""Decodes a block of JSON messages into rows of a schema, and says why the other messages cannot be decoded."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from bucketingest.decode.json.alike.reader import AlikeReader
from bucketingest.decode.json.blocks import BlockReader
from bucketingest.decode.json.columns import converted, either, read_type
from bucketingest.decode.json.doubts import Block
from bucketingest.decode.json.exact import ExactDecoder
from bucketingest.decode.rows import Bulk, Decoded, batch, with_value


class JsonDecoder:
    """Decodes with the verdicts and values of Spark's `from_json`. Picklable."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._exact = ExactDecoder(schema)
        read = pa.schema([field.with_type(read_type(field.type)) for field in schema])
        self._alike = AlikeReader(read)
        self._blocks = BlockReader(read)

    def __reduce__(self) -> tuple[type[JsonDecoder], tuple[pa.Schema]]:
        return JsonDecoder, (self.schema,)

    def decode(self, messages: pa.BinaryArray) -> Decoded:
        """Decode the values of messages, null for one without a value."""
        messages, numbers, refused = with_value(messages)
        if not len(messages):
            return Decoded(batch([], self.schema), refused, 0)
        block = Block(messages)
        # Java counts characters: those beyond U+FFFF are two.
        return self._in_bulk(block).completed(
            lambda at: self._exact.decode(block.message(at)), "character", numbers, refused
        )

    def _in_bulk(self, block: Block) -> Bulk:
        """Rows of the messages that can be decoded together."""
        doubted = block.doubted()
        trusted = np.flatnonzero(~doubted)
        lines = block.lines if len(trusted) == len(doubted) else block.lines.take(pa.array(trusted))
        table, refused = self._read(lines)
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
        return Bulk(rows, doubted)

    def _read(self, lines: pa.Array) -> tuple[pa.Table, list[int]]:
        """The rows in order, and the numbers of the messages that are not among them."""
        alike = self._alike.read(lines)
        if not alike:
            return self._blocks.read(lines)
        left = np.delete(np.arange(len(lines)), np.concatenate([part.numbers for part in alike]))
        tables = [pa.Table.from_batches([part.rows]) for part in alike]
        if not left.size and len(tables) == 1:
            return tables[0], []
        numbers = [part.numbers for part in alike]
        refused: list[int] = []
        if left.size:
            table, refused = self._blocks.read(lines.take(pa.array(left)))
            tables.append(table)
            numbers.append(np.delete(left, refused))
        order = np.argsort(np.concatenate(numbers), kind="stable")
        return pa.concat_tables(tables).take(pa.array(order)), left[refused].tolist()


def _joined(column: pa.ChunkedArray) -> pa.Array:
    return (
        column.chunk(0)
        if column.num_chunks == 1
        else pa.concat_arrays(column.chunks)
        if column.num_chunks
        else pa.nulls(0, column.type)
    )
