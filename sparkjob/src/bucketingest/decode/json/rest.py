"""Members of messages that the schema lacks, as JSON text in one column: nothing is lost, and no type is guessed."""

from __future__ import annotations

from typing import Final

import msgspec
import pyarrow as pa

from bucketingest.decode.json.decoder import JsonDecoder
from bucketingest.decode.json.doubts import UNREADABLE
from bucketingest.decode.rows import Decoded

REST: Final = "_rest"
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class RestDecoder:
    """Decodes JSON as `JsonDecoder`, with a last column `REST`. Picklable."""

    def __init__(self, schema: pa.Schema, unit: int = 0) -> None:
        """`schema`: with that column."""
        self.schema = schema
        self._unit = unit
        self._decoder = JsonDecoder(pa.schema([each for each in schema if each.name != REST]), unit)
        self._known = frozenset(self._decoder.schema.names)

    def __reduce__(self) -> tuple[type[RestDecoder], tuple[pa.Schema, int]]:
        return RestDecoder, (self.schema, self._unit)

    def decode(self, messages: pa.BinaryArray) -> Decoded:
        """Decode the values of messages, null for one without a value."""
        decoded = self._decoder.decode(messages)
        texts, beyond = [], {}
        for at, number in enumerate(decoded.numbers(len(messages)).tolist()):
            try:
                texts.append(_rest(messages[number].as_py(), self._known))
            except UNREADABLE as error:
                texts.append(None)
                beyond[at] = f"members that the schema lacks cannot be kept: {error}"
        columns = [*decoded.rows.columns, pa.array(texts, pa.string())]
        rows = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return Decoded(rows, decoded.refused, decoded.one_by_one).without(beyond, len(messages))


def _rest(message: bytes, known: frozenset[str]) -> str | None:
    """The members that are not known as a JSON object, each value as it was written; None if there are none."""
    members = _MEMBERS.decode(message)
    if members.keys() <= known:
        return None
    unknown = ((msgspec.json.encode(name), bytes(raw)) for name, raw in members.items() if name not in known)
    return (b"{" + b",".join(name + b":" + raw for name, raw in unknown) + b"}").decode()
