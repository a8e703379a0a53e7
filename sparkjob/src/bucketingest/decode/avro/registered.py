"""Decodes Avro messages of a registry's schemas: each with the schema that its header names, resolved with the
reader's.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar, Final, Self

import pyarrow as pa

from bucketingest.decode.avro.decoder import RecordDecoder
from bucketingest.decode.avro.resolution import Incompatible, resolved
from bucketingest.decode.avro.schema import UnreadableSchema, read_reader, read_writer
from bucketingest.decode.registered.wire_format import RegisteredDecoder, WriterSchema
from bucketingest.decode.rows import Decoded

_RESOLVED_MAX: Final = 256
"""Pairs of schemas that a worker's process keeps resolved, for its next tasks."""


class RegisteredAvroDecoder(RegisteredDecoder):
    """Decodes messages as the reader's schema. Picklable."""

    kind: ClassVar[str] = "AVRO"

    def __init__(self, reader_text: str, schema: pa.Schema, writers: Mapping[int, WriterSchema]) -> None:
        """`schema`: the columns, as Spark types those of the reader's schema."""
        super().__init__(schema, writers)
        self._reader_text = reader_text

    def knowing(self, writers: Mapping[int, WriterSchema]) -> Self:
        """See `RegisteredDecoder`."""
        return type(self)(self._reader_text, self.schema, writers)

    def _of_schema(self, schema_id: int, writer: WriterSchema, messages: pa.BinaryArray) -> Decoded | str:
        record = _resolved(writer.text, self._reader_text, self.schema)
        if isinstance(record, str):
            return record
        header = b"\0" + schema_id.to_bytes(4, "big")
        return RecordDecoder(record, self.schema, header).decode(messages)


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


def why_unresolved(writer_text: str, reader_text: str, columns: pa.Schema) -> str:
    """Why no message of the writer's schema can be read as the reader's, in words that follow its id; "" if some can.

    The rules are the same for messages that are not Avro: those of their columns in Avro's terms.
    """
    found = _resolved(writer_text, reader_text, columns)
    return found if isinstance(found, str) else ""
