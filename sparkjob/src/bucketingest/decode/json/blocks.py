"""Many messages at once with Arrow's JSON reader, and around what it refuses.

A block is read as lines. Each begins with `{` and ends with `}` and has no line end inside, and Arrow refuses control
characters in strings, so no line can be swallowed by the one before it: behind its `}` a `{` is an error unless a new
row begins. So each line gives a row or more, and as many rows as lines means one row of each line.
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

READS_MAX: Final = 48
"""How often Arrow may read parts of a block again. What is then left is decoded one by one."""
_ROWS_MIN: Final = 8
"""A refused part of fewer rows is decoded one by one."""
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
        refused: list[int] = []
        parts: list[pa.Table] = []
        pending = [(0, len(messages))]
        reads = 0
        while pending:
            start, end = pending.pop()
            if reads > READS_MAX or (reads and end - start < _ROWS_MIN):
                refused.extend(range(start, end))
                continue
            reads += 1
            table, bad = self._read(messages.slice(start, end - start))
            if table is not None:
                parts.append(table)
                continue
            if bad is None or not 0 <= bad < end - start:
                middle = (start + end) // 2
                pieces = [(start, middle), (middle, end)]
            else:
                refused.append(start + bad)
                pieces = [(start, start + bad), (start + bad + 1, end)]
            pending.extend((low, high) for low, high in reversed(pieces) if low < high)
        return (pa.concat_tables(parts) if parts else self._schema.empty_table()), refused

    def _read(self, messages: pa.Array) -> tuple[pa.Table | None, int | None]:
        """The rows; or None, and the row that Arrow names, if it names one."""
        lines = pc.binary_join_element_wise(messages, b"", b"\n")
        text = lines.buffers()[2]
        assert text is not None, "a line has at least its end"
        options = pyarrow.json.ReadOptions(use_threads=False, block_size=text.size + 1)
        try:
            table = pyarrow.json.read_json(pa.BufferReader(text), read_options=options, parse_options=self._options)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            named = _ROW_OF_ERROR.search(str(error))
            return None, None if named is None else int(named[1])
        return (table, None) if table.num_rows == len(messages) else (None, None)
