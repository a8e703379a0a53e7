"""Decodes a block of JSON messages into rows of a schema, and says why the other messages cannot be decoded.

Messages that are alike are read by position, all others by msgspec with types that are made from the columns: at first
with STRING as text, and those that are refused once more, with STRING as whatever the message has there.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from bucketingest.decode.json.alike.reader import AlikeReader
from bucketingest.decode.json.alike.text import Places
from bucketingest.decode.json.columns import row_of
from bucketingest.decode.json.reasons import why_refused
from bucketingest.decode.rows import Decoded, Refused, batch


class _Rows(NamedTuple):
    numbers: Places
    """Of their messages."""
    rows: pa.RecordBatch


class JsonDecoder:
    """Decodes JSON as docs/kafka-json.md says what it means. Picklable."""

    def __init__(self, schema: pa.Schema, unit: int = 0) -> None:
        """`unit`: of numbers in TIMESTAMP columns, see `times.MICROS_OF`."""
        self.schema = schema
        self._unit = unit
        self._alike = AlikeReader(schema, unit)
        self._quick = _Reader(schema, unit, verbatim=False)
        self._careful = _Reader(schema, unit, verbatim=True)

    def __reduce__(self) -> tuple[type[JsonDecoder], tuple[pa.Schema, int]]:
        return JsonDecoder, (self.schema, self._unit)

    def decode(self, messages: pa.BinaryArray) -> Decoded:
        """Decode the values of messages, null for one without a value."""
        refused = dict.fromkeys(np.flatnonzero(messages.is_null()).tolist(), "") | _not_utf8(messages)
        left = np.delete(np.arange(len(messages)), list(refused))
        parts: list[_Rows] = []
        for alike in self._alike.read(messages.take(pa.array(left)) if refused else messages):
            parts.append(_Rows(left[alike.numbers], alike.rows))
        if parts:
            left = np.setdiff1d(left, np.concatenate([part.numbers for part in parts]), assume_unique=True)
        part, again = self._quick.read(messages, left)
        parts.append(part)
        if again:
            part, unreadable = self._careful.read(messages, np.array(sorted(again)))
            parts.append(part)
            refused |= unreadable
        return Decoded(
            self._in_order(parts), [Refused(number, refused[number]) for number in sorted(refused)], len(again)
        )

    def _in_order(self, parts: list[_Rows]) -> pa.RecordBatch:
        parts = [part for part in parts if len(part.numbers)]
        if len(parts) <= 1:
            return parts[0].rows if parts else batch([], self.schema)
        order = np.argsort(np.concatenate([part.numbers for part in parts]), kind="stable")
        together = pa.Table.from_batches([part.rows for part in parts])
        (rows,) = together.take(pa.array(order)).combine_chunks().to_batches()
        return rows


class _Reader:
    """Reads messages one after the other, and their values column by column."""

    def __init__(self, schema: pa.Schema, unit: int, *, verbatim: bool) -> None:
        self._schema = schema
        self._unit = unit
        self._verbatim = verbatim
        row = row_of(schema, unit, verbatim=verbatim)
        self._array = row.array
        self._decode = msgspec.json.Decoder(row.kind).decode

    def read(self, messages: pa.BinaryArray, numbers: Places) -> tuple[_Rows, dict[int, str]]:
        """The rows of some of the messages, which are UTF-8, and why each of the others is none."""
        found, kept, refused = [], [], dict[int, str]()
        decode, row = self._decode, pa.struct(list(self._schema))
        for number, message in zip(numbers.tolist(), messages.take(pa.array(numbers)).to_pylist(), strict=True):
            try:
                found.append(decode(message))
            except (msgspec.DecodeError, RecursionError) as error:
                refused[number] = why_refused(error, message, row, self._unit) if self._verbatim else ""
            else:
                kept.append(number)
        array, refusals = self._array(found)
        rows, places = pa.RecordBatch.from_struct_array(array).cast(self._schema), np.array(kept, np.int64)
        if refusals:
            refused |= {kept[at]: f"field {refusal.path}: {refusal.why}" for at, refusal in refusals.items()}
            good = np.ones(len(places), np.bool_)
            good[list(refusals)] = False
            rows, places = rows.filter(pa.array(good)), places[good]
        return _Rows(places, rows), refused


def _not_utf8(messages: pa.BinaryArray) -> dict[int, str]:
    """Which messages are not UTF-8: msgspec does not look into what it skips."""
    try:
        messages.cast(pa.string())
    except pa.ArrowInvalid:
        pass
    else:
        return {}
    refused = {}
    for number, message in enumerate(messages.to_pylist()):
        try:
            (message or b"").decode()
        except UnicodeDecodeError as error:
            refused[number] = f"byte {error.start + 1}: it is not UTF-8"
    return refused
