"""CSV files, as RFC 4180 has them: a value in quotes may have line ends, and a doubled quote in it is a quote.

The header's names say which column is which; without a header it is the order of the schema. A value that is not of its
column's type makes the row a dead letter, and so does another number of values.
"""

from __future__ import annotations

import csv
import os
import re
from bisect import bisect
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.csv

from bucketingest.decode.ddl import type_in_ddl
from bucketingest.decode.files.lines import TextSource, text_in_utf8
from bucketingest.decode.files.parts import BadFile, NoRow, Part, Piece, no_rows, unknown_columns
from bucketingest.decode.files.text_values import column_of_text, text_of

_BLOCK_BYTES: Final = 4 * 1024**2
_UTF8: Final = "utf-8"
_MARK: Final = b"\x1e" + os.urandom(8).hex().encode()
"""No file can have it."""


@dataclass(frozen=True, slots=True)
class CsvReader:
    """Reads CSV files into the columns. Picklable."""

    columns: pa.Schema
    has_header: bool | None = None
    """None: nobody has said it; there is none, and a file that begins with the columns' names is refused."""
    separator: str = ","
    quote: str = '"'
    escape: str | None = None
    """None: a quote in a value is doubled."""
    encoding: str = _UTF8
    null: str = ""
    """What is null where it is not in quotes."""

    def read(self, file: pa.NativeFile, piece: Piece) -> Iterator[Part | Text]:
        """See `Reader`. A CSV file is one piece: only its start shows which line ends are in quotes."""
        del piece
        source = TextSource(file if self.encoding == _UTF8 else text_in_utf8(file, self.encoding))
        names = self._header(source)
        if names is None:
            return
        unknown = unknown_columns(names, self.columns)
        quotes = Quotes(self, 1 + bool(self.has_header))
        text = source.all_if_small()
        if text is not None:
            quotes.look(text + b"\n")
            quotes.end()
            yield Text(self, text, tuple(names), unknown)
            return
        yield Part(no_rows(self.columns), unknown=unknown)
        source.add(self._mark(names))
        source.look = quotes.look
        bad_rows: list[pa.csv.InvalidRow] = []
        first = 0
        for batch in self._batches(pa.PythonFile(source, "r"), _BLOCK_BYTES, names, bad_rows):
            rows, refused = self._rows(batch, names, _Numbers(first, bad_rows))
            yield Part(rows, [self._no_row(*each) for each in refused])
            first += batch.num_rows
        quotes.end()
        self._ends(bad_rows, names, 1)
        yield Part(no_rows(self.columns), [self._no_row(*_wrong_count(row)) for row in bad_rows[:-1]])

    def together(self, waiting: Sequence[Text]) -> list[Part]:
        """The records of texts with the same columns. Raises BadFile if a quote is open at the end of one."""
        names = waiting[0].names
        data = b"".join(part for each in waiting for part in (each.text, self._mark(names)))
        bad_rows: list[pa.csv.InvalidRow] = []
        batches = list(self._batches(pa.BufferReader(data), len(data) + 1, names, bad_rows))
        ends = self._ends(bad_rows, names, len(waiting))
        empty = no_rows(self.columns)
        parts = [Part(empty, unknown=each.unknown) for each in waiting]
        refused = [_wrong_count(row) for row in bad_rows if row.number not in ends]
        for batch in batches:  # one
            parts[-1].rows, more = self._rows(batch, names, _Numbers(0, bad_rows))
            refused += more
        for number, why, record in sorted(refused):
            at = bisect(ends, number)
            parts[at].refused.append(self._no_row(number - (ends[at - 1] if at else 0), why, record))
        return parts

    def _mark(self, names: Sequence[str]) -> bytes:
        """A record of too many values behind a text: if a quote is open there, it is in a value."""
        return b"\n%b%b\n" % (_MARK, self.separator.encode() * len(names))

    def _ends(self, bad_rows: list[pa.csv.InvalidRow], names: Sequence[str], texts: int) -> list[int]:
        """Numbers of the records that are marks. Raises BadFile."""
        mark = self._mark(names).strip(b"\n")
        ends = [row.number for row in bad_rows if _bytes(row) == mark]
        if len(ends) != texts:
            raise BadFile("is no CSV: a quote is opened and not closed before its end")
        return ends

    def _batches(
        self, file: pa.NativeFile, block_bytes: int, names: Sequence[str], bad_rows: list[pa.csv.InvalidRow]
    ) -> Iterator[pa.RecordBatch]:
        """The records with as many values as there are columns, as bytes; the others are added to `bad_rows`."""

        def skip(row: pa.csv.InvalidRow) -> str:
            bad_rows.append(row)
            return "skip"

        try:
            yield from pa.csv.open_csv(
                file,
                pa.csv.ReadOptions(use_threads=False, block_size=block_bytes, column_names=_distinct(names)),
                pa.csv.ParseOptions(
                    delimiter=self.separator,
                    quote_char=self.quote or False,
                    double_quote=self.escape is None,
                    escape_char=self.escape or False,
                    newlines_in_values=True,
                    invalid_row_handler=skip,
                ),
                pa.csv.ConvertOptions(
                    column_types=dict.fromkeys(_distinct(names), pa.binary()),
                    null_values=[self.null],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                    check_utf8=False,
                ),
            )
        except pa.ArrowInvalid as error:
            wrong = "a record of more than 4 MiB" if "straddl" in str(error) else str(error)
            if "Expected" in wrong:  # PyArrow shows records of another number of values only as text
                wrong += ", and bytes that are not UTF-8; see options.encoding"
            raise BadFile(f"is no CSV: {wrong}") from None

    def _rows(
        self, batch: pa.RecordBatch, names: Sequence[str], numbers: _Numbers
    ) -> tuple[pa.RecordBatch, list[tuple[int, str, bytes]]]:
        """The rows, and number, why and text of each record that is none."""
        refused: dict[int, str] = {}
        arrays: list[pa.Array] = []
        for field in self.columns:
            cells = batch.column(names.index(field.name))
            if pa.types.is_binary(field.type):
                arrays.append(cells)
                continue
            text, not_text = text_of(cells)
            values, bad = column_of_text(text, field.type)
            for at in np.flatnonzero(not_text).tolist():
                refused.setdefault(at, f"column {field.name}: a byte that is not UTF-8; see options.encoding")
            for at in np.flatnonzero(bad & ~not_text).tolist():
                refused.setdefault(at, f"column {field.name}: is no {type_in_ddl(field.type)}")
            arrays.append(values)
        rows = pa.RecordBatch.from_arrays(arrays, schema=self.columns)
        if not refused:
            return rows, []
        is_row = np.ones(batch.num_rows, np.bool_)
        is_row[list(refused)] = False
        records = [(numbers.of(at), refused[at], self._record(batch, at)) for at in sorted(refused)]
        return rows.filter(pa.array(is_row)), records

    def _record(self, batch: pa.RecordBatch, at: int) -> bytes:
        """The values of a row as CSV."""
        quote = self.quote.encode()
        cells = []
        for column in batch.columns:
            value: bytes = column[at].as_py() or b""
            needs = quote and any(mark in value for mark in (quote, self.separator.encode(), b"\n", b"\r"))
            cells.append(quote + value.replace(quote, quote * 2) + quote if needs else value)
        return self.separator.encode().join(cells)

    @staticmethod
    def _no_row(number: int, why: str, record: bytes) -> NoRow:
        return NoRow(f"record {number}", why, record)

    def _header(self, text: TextSource) -> list[str] | None:
        """Names of the file's columns as the schema has them; None if there is not even a header. Raises BadFile."""
        if not self.has_header:
            if self.has_header is None:
                self._check_first(text.first_line())
            return None if text.is_empty else list(self.columns.names)
        line = text.take_line()
        if line is None:
            return None
        try:
            found = self._cells(line)
        except (UnicodeDecodeError, csv.Error) as error:
            raise BadFile(f"line 1: the header cannot be read: {error}. See options.encoding") from None
        known = {name.lower(): name for name in self.columns.names}
        names = [known.get(name.strip().lower(), name.strip()) for name in found]
        missing = [name for name in self.columns.names if name not in names]
        twice = [name for name in self.columns.names if names.count(name) > 1]
        if missing or twice:
            wrong = f"lacks {', '.join(missing)}" if missing else f"has {', '.join(twice)} more than once"
            raise BadFile(f"line 1: the header {wrong}; it is {', '.join(names)[:200]}. See options.header")
        return names

    def _check_first(self, line: bytes) -> None:
        """Raises BadFile for a header that nobody has told of: it would be a row, and other columns could be meant."""
        with suppress(UnicodeDecodeError, csv.Error):
            found = sorted(cell.strip().lower() for cell in self._cells(line))
            if len(found) > 1 and found == sorted(name.lower() for name in self.columns.names):
                raise BadFile("line 1 has the names of the columns: set options.header (false: it is a row)")

    def _cells(self, line: bytes) -> list[str]:
        """Of a header. Raises UnicodeDecodeError, csv.Error."""
        form = csv.reader(
            [line.decode()],
            delimiter=self.separator,
            quotechar=self.quote or None,
            escapechar=self.escape,
            doublequote=self.escape is None,
            strict=True,
        )
        return next(form, [])


@dataclass(frozen=True, slots=True)
class Text:
    """A small file behind its header. Its records are decoded with those of other files."""

    reader: CsvReader
    text: bytes
    names: tuple[str, ...]
    """Of the file's columns, as the schema has them."""
    unknown: tuple[str, ...]
    """See `Part`."""

    @property
    def kind(self) -> object:
        """See `Undecoded`."""
        return self.names

    @property
    def records(self) -> int:
        """See `Undecoded`: at most so many."""
        return self.text.count(b"\n") + 1

    @property
    def size(self) -> int:
        """See `Undecoded`."""
        return len(self.text)

    def decoded(self, waiting: Sequence[Text]) -> list[Part]:
        """See `Undecoded`. Raises BadFile."""
        return self.reader.together(waiting)


class Quotes:
    """Looks at a text whether each value in quotes ends with its quote. Arrow adds what is behind it to the value: the
    quotes in `"a "b" c"` are not doubled, so nobody knows what the value is, nor where it ends.
    """

    def __init__(self, reader: CsvReader, line: int) -> None:
        """`line`: number of the text's first line."""
        self._line, self._rest, self._mark = line, b"", reader.quote.encode()
        if not self._mark:
            return
        self._escaped = None if reader.escape is None else re.compile(re.escape(reader.escape.encode()) + b"(?s:.)")
        quote, ends = re.escape(self._mark), re.escape(reader.separator.encode()) + b"\r\n"
        opened = b"%b(?:[^%b]++|%b%b)*+" % ((quote,) * 4) if reader.escape is None else b"%b[^%b]*+" % (quote, quote)
        plain = b"[^%b%b][^%b]*+" % (quote, ends, ends)
        self._fields = re.compile(b"(?:(?:%b%b|%b|)[%b])*+" % (opened, quote, plain, ends))
        self._part = re.compile(b"(?:%b%b?+|%b|)" % (opened, quote, plain))

    def look(self, block: bytes) -> None:
        """The next bytes. Raises BadFile."""
        text = self._rest + block
        if not self._mark:
            return
        if self._escaped is not None:
            text = self._escaped.sub(b"..", text)
        has_quote = self._mark in text
        end = self._end_of_fields(text) if has_quote else max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
        self._line += text.count(b"\n", 0, end)
        self._rest = text[end:]
        if len(self._rest) > _BLOCK_BYTES:
            raise BadFile(f"is no CSV: line {self._line}: a record of more than 4 MiB, or a quote that is not closed")

    def end(self) -> None:
        """There is no more, and the last was a line feed. Raises BadFile."""
        if self._rest:
            self._end_of_fields(self._rest)
            raise BadFile(f"is no CSV: line {self._line}: a quote is opened and not closed before the file's end")

    def _end_of_fields(self, text: bytes) -> int:
        """Of those that are whole. Raises BadFile unless the rest is the start of one."""
        found = self._fields.match(text)
        assert found is not None, "it may be empty"
        end = found.end()
        if self._part.fullmatch(text, end) is None:
            line = self._line + text.count(b"\n", 0, end)
            raise BadFile(
                f"is no CSV: line {line}: text behind the quote that ends a value; a quote in a value is doubled, "
                "or see options.escape and options.quote"
            )
        return end


def _wrong_count(row: pa.csv.InvalidRow) -> tuple[int, str, bytes]:
    return row.number, f"has {row.actual_columns} values, not {row.expected_columns}", _bytes(row).rstrip(b"\r\n")


def _bytes(row: pa.csv.InvalidRow) -> bytes:
    return row.text if isinstance(row.text, bytes) else str(row.text).encode()


class _Numbers:
    """Which record of the file a row of a batch is: those that Arrow refused count, too."""

    def __init__(self, first: int, refused: list[pa.csv.InvalidRow]) -> None:
        """`first`: rows in the batches before. `refused`: numbered from 1 on."""
        self._first = first
        self._rows_before = np.array([row.number for row in refused], np.int64) - np.arange(1, len(refused) + 1)

    def of(self, at: int) -> int:
        place = self._first + at
        return place + 1 + int(np.searchsorted(self._rows_before, place, side="right"))


def _distinct(names: Sequence[str]) -> list[str]:
    """Names as Arrow takes them: of columns that no schema has, two may have the same."""
    return [f"{at} {name}" for at, name in enumerate(names)]
