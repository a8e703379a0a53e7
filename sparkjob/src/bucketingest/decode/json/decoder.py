"""Decodes a block of JSON messages into rows of a schema, and says why the other messages cannot be decoded."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from bucketingest.decode.json.alike.reader import AlikeReader
from bucketingest.decode.json.columns import converted, either, is_read_by_arrow, read_type
from bucketingest.decode.json.doubts import Block, is_utf8
from bucketingest.decode.json.exact import ExactDecoder, TypedReader
from bucketingest.decode.rows import Bulk, Decoded, batch, with_value


class JsonDecoder:
    """Decodes JSON as docs/kafka-json.md says what it means. Picklable."""

    def __init__(self, schema: pa.Schema, unit: int = 0) -> None:
        """`unit`: of numbers in TIMESTAMP columns, see `times.MICROS_OF`."""
        self.schema = schema
        self._unit = unit
        self._exact = ExactDecoder(schema, unit)
        self._is_read_by_arrow = all(is_read_by_arrow(field.type) for field in schema)
        self._read_schema = read = pa.schema([field.with_type(read_type(field.type, unit)) for field in schema])
        self._with_decimals = "decimal" in str(read.types)
        self._alike = AlikeReader(read)
        self._blocks = BlockReader(read)
        self._typed = TypedReader(read, unit)

    def __reduce__(self) -> tuple[type[JsonDecoder], tuple[pa.Schema, int]]:
        return JsonDecoder, (self.schema, self._unit)

    def decode(self, messages: pa.BinaryArray) -> Decoded:
        """Decode the values of messages, null for one without a value."""
        messages, numbers, refused = with_value(messages)
        if not len(messages):
            return Decoded(batch([], self.schema), refused, 0)
        block = Block(messages)
        return self._in_bulk(block).completed(
            lambda at: self._exact.decode(block.message(at)), "character", numbers, refused
        )

    def _in_bulk(self, block: Block) -> Bulk:
        """Rows of the messages that can be decoded together."""
        table, numbers = self._read(block)
        columns, uncertain = [], None
        for field, column in zip(self.schema, table.columns, strict=True):
            values, doubts = converted(_joined(column), field.type, self._unit)
            columns.append(values)
            uncertain = either(uncertain, doubts)
        rows = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        if uncertain is not None:
            rows, numbers = rows.filter(pa.array(~uncertain)), numbers[~uncertain]
        doubted = np.ones(len(block), np.bool_)
        doubted[numbers] = False
        return Bulk(rows, doubted)

    def _read(self, block: Block) -> tuple[pa.Table, npt.NDArray[np.int64]]:
        """Rows in order, before their columns have the wanted types, and the numbers of their messages."""
        tables: list[pa.Table] = []
        numbers: list[npt.NDArray[np.int64]] = []
        left = np.arange(len(block))

        def take(rows: pa.Table, found: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
            if found.size:
                tables.append(rows)
                numbers.append(found)
            return np.delete(left, np.searchsorted(left, found))

        if self._is_read_by_arrow:
            for part in self._alike.read(block.lines) if block.is_utf8 else []:
                left = take(pa.Table.from_batches([part.rows]), part.numbers)
            if left.size:
                rest = block if left.size == len(block) else block.only(left)
                table, found = self._read_by_arrow(rest)
                left = take(table, left[found])
        if not block.is_utf8:
            left = np.array([at for at in left.tolist() if is_utf8(block.message(at))], np.int64)
        if left.size:
            rows, found = self._typed.read(block.lines.take(pa.array(left)))
            take(rows, left[found])
        if len(tables) <= 1:
            return (tables[0], numbers[0]) if tables else (self._read_schema.empty_table(), left[:0])
        together = np.concatenate(numbers)
        order = np.argsort(together, kind="stable")
        return pa.concat_tables(tables).take(pa.array(order)), together[order]

    def _read_by_arrow(self, block: Block) -> tuple[pa.Table, npt.NDArray[np.int64]]:
        """The same with Arrow's reader, as far as it is to be trusted."""
        trusted = np.flatnonzero(~block.doubted(with_decimals=self._with_decimals))
        lines = block.lines if len(trusted) == len(block) else block.lines.take(pa.array(trusted))
        table, refused = self._blocks.read(lines)
        return table, np.delete(trusted, refused)


def _joined(column: pa.ChunkedArray) -> pa.Array:
    return (
        column.chunk(0)
        if column.num_chunks == 1
        else pa.concat_arrays(column.chunks)
        if column.num_chunks
        else pa.nulls(0, column.type)
    )


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
