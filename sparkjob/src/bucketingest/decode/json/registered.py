"""Decodes JSON messages of a registry's schemas: behind the header they are as all others, and the columns say what
counts of them. Where the columns are those of the schemas, a schema that has another type for one is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import ClassVar, Self

import pyarrow as pa

from bucketingest.decode.avro.registered import why_unresolved
from bucketingest.decode.avro.schema import UnreadableSchema, read_reader, read_writer
from bucketingest.decode.json.as_avro import columns_text, fitted_to
from bucketingest.decode.json.decoder import JsonDecoder
from bucketingest.decode.registered.wire_format import RegisteredDecoder, WriterSchema, without_header
from bucketingest.decode.rows import Decoded


class RegisteredJsonDecoder(RegisteredDecoder):
    """Decodes messages as the columns. A writer's text is its schema `with_references`. Picklable."""

    kind: ClassVar[str] = "JSON"

    def __init__(
        self, schema: pa.Schema, writers: Mapping[int, WriterSchema], unit: int = 0, reader_text: str = ""
    ) -> None:
        """`unit`: see `JsonDecoder`. `reader_text`: the Avro schema of the columns; "" if they are the resource's own:
        then what a message's schema says counts for nothing.
        """
        super().__init__(schema, writers)
        self._unit = unit
        self._reader_text = reader_text
        self._decoder = JsonDecoder(schema, unit)

    def knowing(self, writers: Mapping[int, WriterSchema]) -> Self:
        """See `RegisteredDecoder`."""
        return type(self)(self.schema, writers, self._unit, self._reader_text)

    def columns_in(self, writer: WriterSchema) -> str:
        """See `RegisteredDecoder`."""
        return _fitted(self._reader_text, writer.text)

    def _of_schema(self, schema_id: int, writer: WriterSchema, messages: pa.BinaryArray) -> Decoded | str:  # noqa: ARG002
        if self._reader_text:
            try:
                why = why_unresolved(self.columns_in(writer), self._reader_text, self.schema)
            except UnreadableSchema as error:
                why = f"cannot be read: it {error}"
            if why:
                return why
        return self._decoder.decode(without_header(messages))


@lru_cache(256)
def _fitted(reader_text: str, writer_text: str) -> str:
    return json.dumps(fitted_to(read_reader(reader_text), read_writer(columns_text(writer_text))))
