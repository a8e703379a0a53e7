"""Decodes a block of Avro messages into rows of a schema, and says why the other messages cannot be decoded."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from bucketingest.avro.columns import read_resolved
from bucketingest.avro.cursors import Bools, DoubtingCursors, Places, in_places
from bucketingest.decode.avro.exact import ExactDecoder
from bucketingest.decode.avro.schema import AvroRecord, read_record
from bucketingest.decode.registered.wire_format import HEADER_BYTES
from bucketingest.decode.rows import Bulk, Decoded, Undecodable, batch, with_value

_OTHER_HEADER: Final = (
    "it is a message behind Confluent's header of five bytes: format.registry or format.confluentSchemaId says so"
)


class RecordDecoder:
    """Decodes messages of one record. Its schema is as `avro/columns` takes it."""

    def __init__(
        self, record: AvroRecord, schema: pa.Schema, header: bytes = b"", *, may_have_header: bool = True
    ) -> None:
        """`schema`: the columns. `header`: with what each message begins. `may_have_header`: where it should have none,
        a message behind Confluent's header is refused as one.
        """
        self.schema = schema
        self._header = header
        self._may_have_header = may_have_header and not header
        self._record = record
        self._exact = ExactDecoder(record, schema)

    def decode(self, messages: pa.BinaryArray) -> Decoded:
        """Decode the values of messages, null for one without a value."""
        messages, numbers, refused = with_value(messages)
        if not len(messages):
            return Decoded(batch([], self.schema), refused, 0)
        data, starts, ends = in_places(messages)

        def one(at: int) -> dict[str, Any]:
            return self._one(data[starts[at] : ends[at]].tobytes())

        return self._in_bulk(data, starts, ends).completed(one, "byte", numbers, refused)

    def _in_bulk(self, data: Any, starts: Places, ends: Places) -> Bulk:
        rows, doubted = self._read(data, starts, ends, self._header)
        if self._may_have_header:
            # Such a message may begin with zero bytes of its own: it is in doubt if it is also one behind a header,
            # whose id is from 1 to 2^24 (registries count them up).
            odd = np.flatnonzero((data[starts] == 0) & (ends - starts >= HEADER_BYTES) & ~doubted)
            first = data[starts[odd, None] + np.arange(1, HEADER_BYTES)]
            odd = odd[(first[:, 0] == 0) & (first[:, 1:] != 0).any(axis=1)]
            if len(odd):
                _, lacking = self._read(data, starts[odd] + HEADER_BYTES, ends[odd], b"")
                doubted[odd] = ~lacking
        return Bulk(rows.filter(pa.array(~doubted)) if doubted.any() and rows.num_rows else rows, doubted)

    def _read(self, data: Any, starts: Places, ends: Places, header: bytes) -> tuple[pa.RecordBatch, Bools]:
        """A row of each message, and those that are in doubt."""
        cursors = DoubtingCursors(data, starts.copy(), ends)
        for expected in header:
            # At the end of a message the byte behind it is read, which does no harm: it is doubted.
            cursors.doubted |= cursors.byte(None) != expected
        try:
            rows = read_resolved(cursors, self._record, self.schema)
        except RecursionError:  # a type inside itself: some message has it very often
            return batch([], self.schema), np.ones(len(starts), np.bool_)
        return rows, cursors.doubted | (cursors.at != ends)

    def _one(self, message: bytes) -> dict[str, Any]:
        if not message.startswith(self._header):
            found = message[: len(self._header)].hex() or "nothing"
            raise Undecodable(0, f"the header is {found}, not {self._header.hex()}")
        try:
            row = self._exact.decode(message[len(self._header) :])
        except Undecodable as error:
            error.at += len(self._header)
            if self._has_other_header(message):
                raise Undecodable(0, _OTHER_HEADER) from error
            raise
        if self._has_other_header(message):
            raise Undecodable(0, _OTHER_HEADER)
        return row

    def _has_other_header(self, message: bytes) -> bool:
        if (
            not self._may_have_header
            or len(message) < HEADER_BYTES
            or message[:2] != b"\0\0"
            or not any(message[2:HEADER_BYTES])
        ):
            return False
        try:
            self._exact.decode(message[HEADER_BYTES:])
        except Undecodable:
            return False
        return True


class AvroDecoder(RecordDecoder):
    """Decodes messages of one schema. Picklable."""

    def __init__(self, schema_text: str, schema: pa.Schema, header: bytes = b"") -> None:
        """`schema`: the columns. `header`: with what each message begins."""
        super().__init__(read_record(schema_text), schema, header)
        self._text = schema_text

    def __reduce__(self) -> tuple[type[AvroDecoder], tuple[str, pa.Schema, bytes]]:
        return AvroDecoder, (self._text, self.schema, self._header)
