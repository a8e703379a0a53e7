"""Decodes a block of Protobuf messages into rows, and says why the other messages cannot be decoded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from bucketingest.avro.cursors import Places, in_places
from bucketingest.decode.protobuf.bulk import read_columns
from bucketingest.decode.protobuf.columns import columns_of
from bucketingest.decode.protobuf.exact import ExactDecoder
from bucketingest.decode.protobuf.scanner import WireCursors
from bucketingest.decode.protobuf.schema import Message
from bucketingest.decode.rows import Bulk, Decoded, batch, with_value


class ProtobufDecoder:
    """Decodes messages as docs/kafka-protobuf.md says what they mean. Picklable."""

    def __init__(self, message: Message, schema: pa.Schema | None = None) -> None:
        """`schema`: the columns as the table has them, of the same types."""
        self.schema = columns_of(message) if schema is None else schema
        self._message = message
        self._exact = ExactDecoder(message)

    def decode(self, messages: pa.BinaryArray, skipped: Places | None = None) -> Decoded:
        """Decode the values of messages, null for one without a value. `skipped`: with so many bytes each begins that
        are none of the message, if none is null.
        """
        messages, numbers, refused = with_value(messages)
        if not len(messages):
            return Decoded(batch([], self.schema), refused, 0)
        data, starts, ends = in_places(messages)
        before = np.zeros(len(starts), np.int64) if skipped is None else skipped

        def one(at: int) -> dict[str, Any]:
            return self._exact.decode(data[starts[at] : ends[at]].tobytes(), int(before[at]))

        return self._in_bulk(data, starts + before, ends).completed(one, "byte", numbers, refused)

    def _in_bulk(self, data: Any, starts: Places, ends: Places) -> Bulk:
        cursors = WireCursors(data, starts, ends)
        columns = [
            column.cast(field.type) if column.type != field.type else column
            for column, field in zip(read_columns(cursors, self._message), self.schema, strict=True)
        ]
        rows = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        if cursors.doubted.any():
            rows = rows.filter(pa.array(~cursors.doubted))
        return Bulk(rows, cursors.doubted)
