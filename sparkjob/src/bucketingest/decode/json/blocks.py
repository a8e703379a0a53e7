"""Many messages at once with Arrow's JSON reader, and around what it refuses.

A block is read as lines. Each begins with `{` and ends with `}` and has no line end inside, and Arrow refuses control
characters in strings, so no line can be swallowed by the one before it: behind its `}` a `{` is an error unless a new
row begins. So each line gives a row or more, and as many rows as lines means one row of each line.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

READS_MAX: Final = 8
"""How often Arrow may read a block, in parts. What is then left is read by msgspec."""
_ROW_OF_ERROR: Final = re.compile(r" in row (\d+)$")


class BlockReader:
    """Reads lines into the columns of a schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self._options = pyarrow.json.ParseOptions(
            explicit_schema=schema, newlines_in_values=False, unexpected_field_behavior="ignore"
        )
        self._schema = schema

    def read(self, messages: pa.Array) -> tuple[pa.Table, list[int]]:
        """The rows, and the numbers of the messages that Arrow refused and that are not among them."""
        lines = pc.binary_join_element_wise(messages, b"", b"\n")
        refused: list[int] = []
        parts: list[pa.Table] = []
        pending = [(0, len(messages))]
        reads = 0
        while pending:
            start, end = pending.pop()
            if reads == READS_MAX:
                refused.extend(range(start, end))
                continue
            reads += 1
            table, bad = self._read(lines.slice(start, end - start))
            if table is not None:
                parts.append(table)
            elif bad is None:
                refused.extend(range(start, end))
            else:
                refused.append(start + bad)
                pieces = (start + bad + 1, end), (start, start + bad)
                pending.extend((low, high) for low, high in pieces if low < high)
        return (pa.concat_tables(parts) if parts else self._schema.empty_table()), refused

    def _read(self, lines: pa.Array) -> tuple[pa.Table | None, int | None]:
        """The rows; or None, and the row that Arrow names, if it names one."""
        _, offsets, text = lines.buffers()
        assert offsets is not None
        assert text is not None, "a line has at least its end"
        first, last = np.frombuffer(offsets, np.int32, len(lines) + 1, lines.offset * 4)[[0, -1]].tolist()
        options = pyarrow.json.ReadOptions(use_threads=False, block_size=last - first + 1)
        try:
            table = pyarrow.json.read_json(
                pa.BufferReader(text.slice(first, last - first)),
                read_options=options,
                parse_options=self._options,
            )
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            named = _ROW_OF_ERROR.search(str(error))
            return None, int(named[1]) if named is not None and int(named[1]) < len(lines) else None
        return (table, None) if table.num_rows == len(lines) else (None, None)
