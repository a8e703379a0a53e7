"""Decodes messages in Confluent's wire format: a header names the schema, and the messages of each schema are decoded
together.

What an id is was decided before, and the same for all tasks of a micro-batch: nothing here asks a registry.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketingest.decode.rows import Decoded, Refused, batch, with_value

HEADER_BYTES: Final = 5
ID_MAX: Final = 2**31 - 1
_HEADER: Final = np.dtype([("magic", "u1"), ("id", ">u4")])


@dataclass(frozen=True, slots=True)
class WriterSchema:
    """What messages are that name a schema by its id: its text, or why they are dead letters."""

    text: str = ""
    why_not: str = ""


class UnknownSchemaIds(Exception):
    """Messages have ids of which it is not decided what they are. The text is the ids."""


class RegisteredDecoder(ABC):
    """Decodes a block of messages of any of the known schemas. Picklable."""

    kind: ClassVar[str]
    """The registry's word for the schemas' type."""

    def __init__(self, schema: pa.Schema, writers: Mapping[int, WriterSchema]) -> None:
        """`schema`: the columns."""
        self.schema = schema
        self._writers = writers

    @abstractmethod
    def knowing(self, writers: Mapping[int, WriterSchema]) -> Self:
        """The same with other schemas."""

    @abstractmethod
    def _of_schema(self, schema_id: int, writer: WriterSchema, messages: pa.BinaryArray) -> Decoded | str:
        """Messages that were written with a schema, with their headers; or why they all cannot be decoded, in words
        that follow the id.
        """

    def columns_in(self, writer: WriterSchema) -> str:
        """The schema of what becomes a row of messages. Raises UnreadableSchema if there is none."""
        return writer.text

    def why_refused(self, schema_id: int) -> str | None:
        """Why no message of a known schema can be decoded, in words that follow the id; None if some can."""
        writer = self._writers[schema_id]
        found = writer.why_not or self._of_schema(schema_id, writer, pa.array([], pa.binary()))
        return found if isinstance(found, str) else None

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
        decoded = writer.why_not or self._of_schema(schema_id, writer, messages)
        if isinstance(decoded, str):
            why = f"byte 2: schema {schema_id} {decoded}"
            return Decoded(batch([], self.schema), [Refused(at, why) for at in range(len(messages))], 0)
        refused = [Refused(each.number, f"schema {schema_id}, {each.why}") for each in decoded.refused]
        return Decoded(decoded.rows, refused, decoded.one_by_one)

    def _merged(self, rows: list[pa.RecordBatch], order: list[npt.NDArray[np.int64]]) -> pa.RecordBatch:
        if len(rows) <= 1:
            return rows[0] if rows else batch([], self.schema)
        return pa.concat_batches(rows).take(pa.array(np.argsort(np.concatenate(order), kind="stable")))


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


def without_header(messages: pa.BinaryArray) -> pa.BinaryArray:
    """What follows the header in each message, none of them null, all of which have one."""
    count = len(messages)
    if not count:
        return messages
    ends = np.frombuffer(messages.buffers()[1], np.int32, count + 1, messages.offset * 4)
    # Headers and what follows them in turns; every second piece is taken.
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[0::2], offsets[1::2] = ends, ends[:-1] + HEADER_BYTES
    buffers = [None, pa.py_buffer(offsets), messages.buffers()[2]]
    pieces = pa.BinaryArray.from_buffers(pa.binary(), 2 * count, buffers)
    return pieces.take(pa.array(np.arange(1, 2 * count, 2, dtype=np.int32)))


def _no_header(message: bytes) -> str:
    found = message[:HEADER_BYTES].hex() or "nothing"
    return f"byte 1: it begins with {found}, which is not Confluent's header: a zero byte and a schema's id"
