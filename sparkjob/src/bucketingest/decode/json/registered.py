"""Decodes JSON messages of a registry's schemas: behind the header they are as all others, and the table's columns say
what counts of them. A JSON Schema has no columns: neither their order nor a number's size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

import pyarrow as pa

from bucketingest.decode.json.decoder import JsonDecoder
from bucketingest.decode.registered.wire_format import RegisteredDecoder, WriterSchema, without_header
from bucketingest.decode.rows import Decoded


class RegisteredJsonDecoder(RegisteredDecoder):
    """Decodes messages as the columns, whatever their JSON Schema says of them. Picklable."""

    kind: ClassVar[str] = "JSON"

    def __init__(self, schema: pa.Schema, writers: Mapping[int, WriterSchema], unit: int = 0) -> None:
        """`unit`: see `JsonDecoder`."""
        super().__init__(schema, writers)
        self._unit = unit
        self._decoder = JsonDecoder(schema, unit)

    def knowing(self, writers: Mapping[int, WriterSchema]) -> Self:
        """See `RegisteredDecoder`."""
        return type(self)(self.schema, writers, self._unit)

    def _of_schema(self, schema_id: int, writer: WriterSchema, messages: pa.BinaryArray) -> Decoded:  # noqa: ARG002
        return self._decoder.decode(without_header(messages))
