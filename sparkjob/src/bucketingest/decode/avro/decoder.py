"""Decodes a block of Avro messages into rows of a schema, and says why the other messages cannot be decoded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from bucketingest.avro.columns import read_resolved
from bucketingest.avro.cursors import DoubtingCursors, Places, padded
from bucketingest.decode.avro.exact import ExactDecoder
from bucketingest.decode.avro.schema import AvroRecord, read_fields
from bucketingest.decode.rows import Bulk, Decoded, Undecodable, batch, with_value


class RecordDecoder:
    """Decodes messages of one record. Its schema is as `avro/columns` takes it."""

    def __init__(self, record: AvroRecord, schema: pa.Schema, header: bytes = b"") -> None:
        """`schema`: the columns. `header`: with what each message begins."""
        self.schema = schema
        self._header = header
        self._record = record
        self._exact = ExactDecoder(record, schema)

    def decode(self, messages: pa.BinaryArray) -> Decoded:
        """Decode the values of messages, null for one without a value."""
        messages, numbers, refused = with_value(messages)
        if not len(messages):
            return Decoded(batch([], self.schema), refused, 0)
        offsets = np.frombuffer(messages.buffers()[1], np.int32, len(messages) + 1, messages.offset * 4)
        first, end = int(offsets[0]), int(offsets[-1])
        data = padded(np.frombuffer(messages.buffers()[2] or b"", np.uint8), first, end)
        starts, ends = offsets[:-1].astype(np.int64) - first, offsets[1:].astype(np.int64) - first

        def one(at: int) -> dict[str, Any]:
            return self._one(data[starts[at] : ends[at]].tobytes())

        return self._in_bulk(data, starts, ends).completed(one, "byte", numbers, refused)

    def _in_bulk(self, data: Any, starts: Places, ends: Places) -> Bulk:
        cursors = DoubtingCursors(data, starts.copy(), ends)
        for expected in self._header:
            # At the end of a message the byte behind it is read, which does no harm: it is doubted.
            cursors.doubted |= cursors.byte(None) != expected
        rows = read_resolved(cursors, self._record, self.schema)
        if cursors.doubted.any():
            rows = rows.filter(pa.array(~cursors.doubted))
        return Bulk(rows, cursors.doubted)

    def _one(self, message: bytes) -> dict[str, Any]:
        if not message.startswith(self._header):
            found = message[: len(self._header)].hex() or "nothing"
            raise Undecodable(0, f"the header is {found}, not {self._header.hex()}")
        try:
            return self._exact.decode(message[len(self._header) :])
        except Undecodable as error:
            error.at += len(self._header)
            raise


class AvroDecoder(RecordDecoder):
    """Decodes with the verdicts and values of Spark's `from_avro`. Picklable."""

    def __init__(self, schema_text: str, schema: pa.Schema, header: bytes = b"") -> None:
        """`schema`: the columns as Spark types them. `header`: with what each message begins."""
        super().__init__({"type": "record", "fields": read_fields(schema_text)}, schema, header)
        self._text = schema_text

    def __reduce__(self) -> tuple[type[AvroDecoder], tuple[str, pa.Schema, bytes]]:
        return AvroDecoder, (self._text, self.schema, self._header)
