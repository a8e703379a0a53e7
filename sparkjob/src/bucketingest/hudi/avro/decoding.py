"""Avro binary datums of log blocks to Arrow columns: the reverse of `encoding`.

It decodes all types of Hudi's tables, also those that this project does not write.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from bucketingest.avro.columns import read_record
from bucketingest.avro.cursors import Cursors, Places, padded
from bucketingest.hudi.table.schema import AvroSchema, avro_to_arrow

_CHUNK_ROWS: Final = 16_384
"""Rows decoded at once: the intermediate arrays of one field stay in the processor's cache."""
_CHUNK_BYTES: Final = 128 * 1024 * 1024
"""Above this many bytes a chunk has fewer rows: far below the 2 GiB limit of the offsets of its strings."""


def decode_rows(
    content: memoryview, starts: Places, ends: Places, schema: AvroSchema, columns: Collection[str] | None = None
) -> pa.Table:
    """The rows that are at `starts` to `ends` of `content`, in this order, as `avro_to_arrow` types them.

    `columns`: the columns wanted, None for all; those that the schema lacks are left out.
    Raises `NotVectorised`, and ValueError for bytes that are not such rows.
    """
    wanted = avro_to_arrow(schema)
    if columns is not None:
        wanted = pa.schema([field for field in wanted if field.name in columns])
    data = np.frombuffer(content, np.uint8)
    batches = [
        read_record(
            Cursors(padded(data, first, end), starts[rows] - first, ends[rows] - first), schema["fields"], wanted
        )
        for rows, first, end in _chunks(starts, ends)
    ]
    return pa.Table.from_batches(batches, wanted)


def _chunks(starts: Places, ends: Places) -> Iterator[tuple[slice, int, int]]:
    """Rows, and where their bytes start and end."""
    first = 0
    while first < len(starts):
        end = int(np.searchsorted(ends, starts[first] + _CHUNK_BYTES, "right"))
        end = min(max(end, first + 1), first + _CHUNK_ROWS)
        yield slice(first, end), int(starts[first]), int(ends[end - 1])
        first = end
