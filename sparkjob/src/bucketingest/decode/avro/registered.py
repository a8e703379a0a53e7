"""Decodes messages in Confluent's wire format: each with the schema that its header names, resolved with the reader's.

Which schema an id has is decided before, and the same for all tasks of a micro-batch: nothing here asks a registry.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketingest.decode.avro.decoder import RecordDecoder
from bucketingest.decode.avro.resolution import Incompatible, resolved
from bucketingest.decode.avro.schema import UnreadableSchema, WriterSchema, read_reader, read_writer
from bucketingest.decode.rows import Decoded, Refused, batch, with_value

HEADER_BYTES: Final = 5
ID_MAX: Final = 2**31 - 1
_HEADER: Final = np.dtype([("magic", "u1"), ("id", ">u4")])
_RESOLVED_MAX: Final = 256
"""Pairs of schemas that a worker's process keeps resolved, for its next tasks."""


class UnknownSchemaIds(Exception):
    """Messages have ids of which it is not decided what they are. The text is the ids."""


class RegisteredAvroDecoder:
    """Decodes a block of messages of any of the known schemas. Picklable."""

    def __init__(self, reader_text: str, schema: pa.Schema, writers: Mapping[int, WriterSchema]) -> None:
        """`schema`: the columns, as Spark types those of the reader's schema."""
        self.schema = schema
        self._reader_text = reader_text
        self._writers = writers

    def knowing(self, writers: Mapping[int, WriterSchema]) -> RegisteredAvroDecoder:
        """The same with other schemas."""
        return RegisteredAvroDecoder(self._reader_text, self.schema, writers)

    def decode(self, messages: pa.BinaryArray) -> Decoded:
        """Decode the values of messages, null for one without a value. Raises UnknownSchemaIds."""
        messages, numbers, refused = with_value(messages)
        ids = ids_of(messages)
        found = np.unique(ids[ids >= 0]).tolist()
        if unknown := [str(each) for each in found if each not in self._writers]:
            raise UnknownSchemaIds(", ".join(unknown))
        parts = [(np.flatnonzero(ids == each), each) for each in found]
        refused += [
            Refused(int(numbers[at]), _no_header(messages[at].as_py())) for at in np.flatnonzero(ids < 0).tolist()
        ]
        rows: list[pa.RecordBatch] = []
        order: list[npt.NDArray[np.int64]] = []
        one_by_one = 0
        for places, schema_id in parts:
            some = messages if len(places) == len(messages) else messages.take(pa.array(places))
            decoded = self._decoded(schema_id, some)
            is_row = np.ones(len(places), np.bool_)
            for each in decoded.refused:
                is_row[each.number] = False
                refused.append(Refused(int(numbers[places[each.number]]), each.why))
            rows.append(decoded.rows)
            order.append(places[is_row])
            one_by_one += decoded.one_by_one
        refused.sort(key=lambda each: each.number)
        return Decoded(self._merged(rows, order), refused, one_by_one)

    def _decoded(self, schema_id: int, messages: pa.BinaryArray) -> Decoded:
        writer = self._writers[schema_id]
        record = writer.why_not or _resolved(writer.text, self._reader_text, self.schema)
        if isinstance(record, str):
            why = f"byte 2: schema {schema_id} {record}"
            return Decoded(batch([], self.schema), [Refused(at, why) for at in range(len(messages))], 0)
        header = b"\0" + schema_id.to_bytes(4, "big")
        decoded = RecordDecoder(record, self.schema, header).decode(messages)
        refused = [Refused(each.number, f"schema {schema_id}, {each.why}") for each in decoded.refused]
        return Decoded(decoded.rows, refused, decoded.one_by_one)

    def _merged(self, rows: list[pa.RecordBatch], order: list[npt.NDArray[np.int64]]) -> pa.RecordBatch:
        if len(rows) <= 1:
            return rows[0] if rows else batch([], self.schema)
        table = pa.Table.from_batches(rows).take(pa.array(np.argsort(np.concatenate(order), kind="stable")))
        merged = table.combine_chunks().to_batches()
        return merged[0] if merged else batch([], self.schema)


def ids_of(messages: pa.BinaryArray) -> npt.NDArray[np.int64]:
    """The schema's id in the header of each message, none of them null; -1 for one that has no such header."""
    if not len(messages):
        return np.zeros(0, np.int64)
    offsets = np.frombuffer(messages.buffers()[1], np.int32, len(messages) + 1, messages.offset * 4).astype(np.int64)
    data = np.frombuffer(messages.buffers()[2] or b"", np.uint8)
    ids = np.full(len(messages), -1, np.int64)
    long_enough = np.flatnonzero(np.diff(offsets) >= HEADER_BYTES)
    if len(long_enough):
        headers = np.ndarray(len(data) - HEADER_BYTES + 1, _HEADER, data, strides=(1,))[offsets[long_enough]]
        found = headers["id"].astype(np.int64)
        ids[long_enough] = np.where((headers["magic"] == 0) & (found <= ID_MAX), found, -1)
    return ids


def _no_header(message: bytes) -> str:
    found = message[:HEADER_BYTES].hex() or "nothing"
    return f"byte 1: it begins with {found}, which is not Confluent's header: a zero byte and a schema's id"


@lru_cache(_RESOLVED_MAX)
def _resolved(writer_text: str, reader_text: str, columns: pa.Schema) -> dict[str, Any] | str:
    """The writer's record resolved with the reader's, or why it cannot be."""
    try:
        writer = read_writer(writer_text)
    except UnreadableSchema as error:
        return f"cannot be read: it {error}"
    try:
        return resolved(writer, read_reader(reader_text), columns)
    except Incompatible as error:
        return f"cannot be read with the table's: {error}"
