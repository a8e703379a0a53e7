"""Decodes a block of JSON messages into rows of a schema, and says why the other messages cannot be decoded."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

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
        self._blocks = BlockReader(pa.schema([field.with_type(read_type(field.type)) for field in schema]))

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
        return Bulk(rows, doubted)


def _joined(column: pa.ChunkedArray) -> pa.Array:
    return (
        column.chunk(0)
        if column.num_chunks == 1
        else pa.concat_arrays(column.chunks)
        if column.num_chunks
        else pa.nulls(0, column.type)
    )
