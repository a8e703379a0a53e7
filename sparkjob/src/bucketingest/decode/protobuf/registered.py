"""Decodes Protobuf messages of a registry's schemas, behind Confluent's header and the indexes of a message.

With a message of the resource's own all are read as that one, by the numbers of its fields; else each as its own schema
has it, and its fields are the columns of their names. What has another name is another message.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import ClassVar, Final, Self

import numpy as np
import pyarrow as pa

from bucketingest.avro.conversion import converted, exact
from bucketingest.avro.cursors import Places, in_places
from bucketingest.decode.avro.registered import why_unresolved
from bucketingest.decode.avro.resolution import Incompatible
from bucketingest.decode.avro.schema import UnreadableSchema, read_reader, read_writer
from bucketingest.decode.protobuf.as_avro import as_avro, fitted_to, only_columns
from bucketingest.decode.protobuf.compiled import message_names
from bucketingest.decode.protobuf.decoder import ProtobufDecoder
from bucketingest.decode.protobuf.descriptors import read_message
from bucketingest.decode.protobuf.scanner import WireCursors
from bucketingest.decode.protobuf.schema import Message, UnreadableDescriptors
from bucketingest.decode.registered.wire_format import HEADER_BYTES, RegisteredDecoder, WriterSchema
from bucketingest.decode.rows import Decoded, Refused, batch

_DEPTH_MAX: Final = 32
"""Of messages inside messages: serializers name an index for each level."""
_FIRST: Final = "0"


class RegisteredProtobufDecoder(RegisteredDecoder):
    """Decodes messages of one name. A writer's text is its descriptor set, as `compiled` makes it. Picklable."""

    kind: ClassVar[str] = "PROTOBUF"

    def __init__(
        self, message: Message | str, schema: pa.Schema, writers: Mapping[int, WriterSchema], reader_text: str = ""
    ) -> None:
        """`message`: what all are read as; or the name of theirs, and `reader_text` the Avro schema of the columns.
        `schema`: the columns.
        """
        super().__init__(schema, writers)
        self._message, self._reader_text = message, reader_text
        self._name = message if isinstance(message, str) else message.name
        self._given = None if isinstance(message, str) else ProtobufDecoder(message, schema)

    def knowing(self, writers: Mapping[int, WriterSchema]) -> Self:
        """See `RegisteredDecoder`."""
        return type(self)(self._message, self.schema, writers, self._reader_text)

    def columns_in(self, writer: WriterSchema) -> str:
        """See `RegisteredDecoder`."""
        return _fitted(writer.text, self._name, self._reader_text)

    def _of_schema(self, schema_id: int, writer: WriterSchema, messages: pa.BinaryArray) -> Decoded | str:  # noqa: ARG002
        names = _names(writer.text)
        wanted = {path for path, name in names.items() if name == self._name}
        if isinstance(decoder := self._given or _decoder(writer.text, self._name, self._reader_text, self.schema), str):
            return decoder
        paths, which, behind = indexes_of(messages)
        good = np.array([path in wanted for path in paths])[which]
        refused = [Refused(at, self._other(names, paths[which[at]])) for at in np.flatnonzero(~good).tolist()]
        if not good.any():
            return Decoded(batch([], self.schema), refused, 0)
        numbers = np.flatnonzero(good)
        some = messages if not refused else messages.take(pa.array(numbers))
        decoded = as_columns(decoder.decode(some, behind[good]), self.schema, len(some))
        refused += [Refused(int(numbers[each.number]), each.why) for each in decoded.refused]
        refused.sort(key=lambda each: each.number)
        return Decoded(decoded.rows, refused, decoded.one_by_one)

    def _other(self, names: Mapping[str, str], path: str | None) -> str:
        """Why a message with such indexes is no row."""
        place = f"byte {HEADER_BYTES + 1}: "
        if path is None:
            return f"{place}it has no indexes of a message"
        if path not in names:
            return f"{place}the schema has no message with the indexes {path}"
        return f"{place}it is a {names[path]}, not a {self._name}"


def indexes_of(messages: pa.BinaryArray) -> tuple[list[str | None], Places, Places]:
    """The indexes behind the headers, joined by commas, None where there are none; which of these each message has; and
    where the message itself begins.
    """
    data, starts, ends = in_places(messages)
    cursors = WireCursors(data, starts + HEADER_BYTES, ends)
    counts = cursors.varints(None)
    cursors.doubted |= (counts < 0) | (counts > _DEPTH_MAX)
    found: list[str | None] = [_FIRST, None]  # no index means the first message
    which = np.zeros(len(messages), np.int64)
    left = np.where(cursors.doubted, 0, counts)
    while len(rows := np.flatnonzero(left > 0)):
        step = cursors.of(rows)
        numbers, number_of = np.unique(step.varints(None), return_inverse=True)
        paths, path_of = np.unique(which[rows] * len(numbers) + number_of, return_inverse=True)
        which[rows] = len(found) + path_of
        for before, number in (divmod(each, len(numbers)) for each in paths.tolist()):
            found.append(f"{found[before]},{numbers[number]}" if before else str(numbers[number]))
        cursors.put(rows, step)
        left[rows] -= 1
    which[cursors.doubted] = 1
    return found, which, cursors.at - starts


def columns_text(descriptors: str, name: str) -> str:
    """The Avro schema of a message's columns. Raises UnreadableSchema."""
    try:
        return json.dumps(as_avro(read_message(descriptors, name, leaves_out=True)))
    except UnreadableDescriptors as error:
        raise UnreadableSchema(str(error)) from error
    except RecursionError as error:
        raise UnreadableSchema("has more levels than can be read") from error


@lru_cache(256)
def _fitted(descriptors: str, name: str, reader_text: str) -> str:
    text = columns_text(descriptors, name)
    return json.dumps(fitted_to(read_reader(reader_text), read_writer(text))) if reader_text else text


@lru_cache(256)
def _names(descriptors: str) -> dict[str, str]:
    return message_names(descriptors)


@lru_cache(256)
def _decoder(descriptors: str, name: str, reader_text: str, columns: pa.Schema) -> ProtobufDecoder | str:
    """What decodes messages of a schema, or why none can be a row, in words that follow the schema's id."""
    try:
        if why := why_unresolved(_fitted(descriptors, name, reader_text), reader_text, columns):
            return why
    except UnreadableSchema as error:
        return f"cannot be read: it {error}"
    try:
        message = only_columns(read_message(descriptors, name, leaves_out=True), columns)
    except Incompatible as error:
        return f"cannot be read with the table's: {error}"
    return ProtobufDecoder(message) if message.fields else f"has no column in {name}"


def as_columns(decoded: Decoded, columns: pa.Schema, count: int) -> Decoded:
    """What was decoded of so many messages, with these columns: null where it has none. Messages with a value that
    does not fit are refused.
    """
    try:
        return replace(decoded, rows=_rows(decoded.rows, columns))
    except pa.ArrowInvalid:
        why = {
            at: text for at in range(decoded.rows.num_rows) if (text := _why_not(decoded.rows[at : at + 1], columns))
        }
        kept = decoded.without(why, count)
        return replace(kept, rows=_rows(kept.rows, columns))


def _why_not(row: pa.RecordBatch, columns: pa.Schema) -> str | None:
    for name, array in zip(row.schema.names, row.columns, strict=True):
        try:
            converted(array, columns.field(name).type, exact)
        except pa.ArrowInvalid as error:
            return f"field {name}: {error}"
    return None


def _rows(rows: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    known = dict(zip(rows.schema.names, rows.columns, strict=True))
    made = [
        converted(known[each.name], each.type, exact) if each.name in known else pa.nulls(rows.num_rows, each.type)
        for each in columns
    ]
    return pa.RecordBatch.from_arrays(made, schema=columns)
