"""Decodes Protobuf messages of a registry's schemas, behind Confluent's header and the indexes of a message.

Protobuf names fields by their numbers in every schema, so that all are read as the table's message. What the header
names is asked for only whether it has this message: of another one the numbers mean something else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import ClassVar, Final, Self

import numpy as np
import pyarrow as pa

from bucketingest.avro.cursors import Places, in_places
from bucketingest.decode.protobuf.decoder import ProtobufDecoder
from bucketingest.decode.protobuf.scanner import WireCursors
from bucketingest.decode.protobuf.schema import Message
from bucketingest.decode.registered.wire_format import HEADER_BYTES, RegisteredDecoder, WriterSchema
from bucketingest.decode.rows import Decoded, Refused, batch

_DEPTH_MAX: Final = 32
"""Of messages inside messages: serializers name an index for each level."""
_FIRST: Final = "0"


class RegisteredProtobufDecoder(RegisteredDecoder):
    """Decodes messages as the table's message. A writer's text has the names of its messages by their indexes, as
    `compiled` finds them. Picklable.
    """

    kind: ClassVar[str] = "PROTOBUF"

    def __init__(self, message: Message, schema: pa.Schema, writers: Mapping[int, WriterSchema]) -> None:
        """`schema`: the columns of the message."""
        super().__init__(schema, writers)
        self._message = message
        self._decoder = ProtobufDecoder(message, schema)

    def knowing(self, writers: Mapping[int, WriterSchema]) -> Self:
        """See `RegisteredDecoder`."""
        return type(self)(self._message, self.schema, writers)

    def _of_schema(self, schema_id: int, writer: WriterSchema, messages: pa.BinaryArray) -> Decoded:  # noqa: ARG002
        names = _names(writer.text)
        wanted = {path for path, name in names.items() if name == self._message.name}
        paths, behind = indexes_of(messages)
        good = np.fromiter((path in wanted for path in paths), np.bool_, len(paths))
        refused = [Refused(at, self._other(names, paths[at])) for at in np.flatnonzero(~good).tolist()]
        if not good.any():
            return Decoded(batch([], self.schema), refused, 0)
        numbers = np.flatnonzero(good)
        some = messages if not refused else messages.take(pa.array(numbers))
        decoded = self._decoder.decode(some, behind[good])
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
        return f"{place}it is a {names[path]}, not a {self._message.name}"


def indexes_of(messages: pa.BinaryArray) -> tuple[list[str | None], Places]:
    """The indexes behind each header, joined by commas, None if there are none; and where the message itself begins."""
    data, starts, ends = in_places(messages)
    cursors = WireCursors(data, starts + HEADER_BYTES, ends)
    counts = cursors.varints(None)
    odd = (counts < 0) | (counts > _DEPTH_MAX)
    cursors.doubted |= odd
    found: list[str | None] = [_FIRST] * len(messages)  # no index means the first message
    levels: list[list[str]] = [[] for _ in range(len(messages))] if (counts != 0).any() else []
    left = np.where(cursors.doubted, 0, counts)
    while len(rows := np.flatnonzero(left > 0)):
        step = cursors.of(rows)
        for row, number in zip(rows.tolist(), step.varints(None).tolist(), strict=True):
            levels[row].append(str(number))
        cursors.put(rows, step)
        left[rows] -= 1
    for row, path in enumerate(levels):
        if path:
            found[row] = ",".join(path)
    for row in np.flatnonzero(cursors.doubted).tolist():
        found[row] = None
    return found, cursors.at - starts


@lru_cache(256)
def _names(text: str) -> dict[str, str]:
    return json.loads(text)
