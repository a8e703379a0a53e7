"""CSV files, as RFC 4180 has them: a value in quotes may have line ends, and a doubled quote in it is a quote.

The header's names say which column is which; without a header it is the order of the schema. A value that is not of its
column's type makes the row a dead letter, and so does another number of values.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from bucketingest.decode.ddl import type_in_ddl
from bucketingest.decode.files.lines import text_in_utf8
from bucketingest.decode.files.parts import BadFile, NoRow, Part, Piece, no_rows, unknown_columns
from bucketingest.decode.files.text_values import column_of_text

_BLOCK_BYTES: Final = 4 * 1024**2
_HEADER_BYTES_MAX: Final = 1024**2
_UTF8: Final = "utf-8"
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class CsvReader:
    """Reads CSV files into the columns. Picklable."""

    columns: pa.Schema
    has_header: bool = False
    separator: str = ","
    quote: str = '"'
    escape: str | None = None
    """None: a quote in a value is doubled."""
    encoding: str = _UTF8
    null: str = ""
    """What is null where it is not in quotes."""

    def with_columns(self, columns: pa.Schema) -> CsvReader:
        """See `Reader`."""
        return replace(self, columns=columns)

    def read(self, file: pa.NativeFile, piece: Piece) -> Iterator[Part | Cells]:
        """See `Reader`. A CSV file is one piece: only its start shows which line ends are in quotes."""
        del piece
        text = _Text(file if self.encoding == _UTF8 else text_in_utf8(file, self.encoding))
        names = self._header(text)
        if names is None:
            return
        unknown = unknown_columns(names, self.columns)
        bad_rows: list[pa.csv.InvalidRow] = []
        last: Cells | None = None
        try:
            for batch in self._batches(text, names, bad_rows):
                if last is not None:
                    yield last
                first = 0 if last is None else last.numbers.first + last.records
                numbers = _Numbers(first, [row.number for row in bad_rows])
                last = Cells(self, batch, names, numbers, unknown if last is None else ())
        except pa.ArrowInvalid as error:
            if "Empty CSV" not in str(error):
                raise BadFile(f"is no CSV: {error}") from None
        refused = [self._no_row(each) for each in bad_rows]
        if last is not None:
            yield replace(last, refused=refused)
        else:
            yield Part(no_rows(self.columns), refused, unknown)

    def _batches(self, text: _Text, names: list[str], bad_rows: list[pa.csv.InvalidRow]) -> Iterator[pa.RecordBatch]:
        """The records with as many values as the file has columns, as bytes; the others are added to `bad_rows`."""

        def skip(row: pa.csv.InvalidRow) -> str:
            bad_rows.append(row)
            return "skip"

        small = text.all_if_small()
        return pa.csv.open_csv(
            pa.PythonFile(text, "r") if small is None else pa.BufferReader(small),
            pa.csv.ReadOptions(
                use_threads=False,
                block_size=_BLOCK_BYTES if small is None else len(small) + 1,
                column_names=_distinct(names),
            ),
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

    def _header(self, text: _Text) -> list[str] | None:
        """Names of the file's columns as the schema has them; None if there is not even a header. Raises BadFile."""
        if not self.has_header:
            return None if text.is_empty else list(self.columns.names)
        line = text.take_line()
        if line is None:
            return None
        try:
            found = next(csv.reader([line.decode()], delimiter=self.separator, quotechar=self.quote or None), [])
        except (UnicodeDecodeError, csv.Error) as error:
            raise BadFile(f"line 1: the header cannot be read: {error}") from None
        known = {name.lower(): name for name in self.columns.names}
        names = [known.get(name.strip().lower(), name.strip()) for name in found]
        missing = [name for name in self.columns.names if name not in names]
        twice = [name for name in self.columns.names if names.count(name) > 1]
        if missing or twice:
            wrong = f"lacks {', '.join(missing)}" if missing else f"has {', '.join(twice)} more than once"
            raise BadFile(f"line 1: the header {wrong}; it is {', '.join(names)[:200]}. See options.header")
        return names

    def _no_row(self, row: pa.csv.InvalidRow) -> NoRow:
        place = "a record" if row.number is None else f"record {row.number}"
        text = row.text if isinstance(row.text, bytes) else str(row.text).encode()
        return NoRow(place, f"has {row.actual_columns} values, not {row.expected_columns}", text.rstrip(b"\r\n"))


@dataclass(frozen=True, slots=True)
class Cells:
    """Records of a file that have a value for each column, as bytes. They are decoded with those of other files."""

    reader: CsvReader
    batch: pa.RecordBatch
    names: list[str]
    """Of the batch's columns, as the schema has them."""
    numbers: _Numbers
    unknown: tuple[str, ...]
    """See `Part`."""
    refused: list[NoRow] = field(default_factory=list)
    """Other records of the file."""

    @property
    def kind(self) -> object:
        """See `Undecoded`."""
        return None

    @property
    def records(self) -> int:
        """See `Undecoded`."""
        return int(self.batch.num_rows)

    @property
    def size(self) -> int:
        """See `Undecoded`."""
        return int(self.batch.nbytes)

    def decoded(self, waiting: Sequence[Cells]) -> list[Part]:
        """See `Undecoded`."""
        columns = self.reader.columns
        refused: dict[int, str] = {}
        arrays: list[pa.Array] = []
        for wanted in columns:
            found = [each.batch.column(each.names.index(wanted.name)) for each in waiting]
            cells = found[0] if len(found) == 1 else pa.concat_arrays(found)
            if pa.types.is_binary(wanted.type):
                arrays.append(cells)
                continue
            text, not_text = _text_of(cells)
            values, bad = column_of_text(text, wanted.type)
            for at in np.flatnonzero(not_text).tolist():
                refused.setdefault(at, f"column {wanted.name}: a byte that is not UTF-8; see options.encoding")
            for at in np.flatnonzero(bad & ~not_text).tolist():
                refused.setdefault(at, f"column {wanted.name}: is no {type_in_ddl(wanted.type)}")
            arrays.append(values)
        rows = pa.RecordBatch.from_arrays(arrays, schema=columns)
        parts = [Part(no_rows(columns), [*each.refused], each.unknown) for each in waiting]
        if refused:
            is_row = np.ones(len(rows), np.bool_)
            is_row[list(refused)] = False
            rows = rows.filter(pa.array(is_row))
            ends = np.cumsum([each.records for each in waiting])
            for at in sorted(refused):
                of = int(np.searchsorted(ends, at, side="right"))
                parts[of].refused.append(waiting[of].no_row(at - int(ends[of]) + waiting[of].records, refused[at]))
        parts[-1].rows = rows
        return parts

    def no_row(self, at: int, why: str) -> NoRow:
        """A record, as CSV."""
        reader = self.reader
        quote = reader.quote.encode()
        cells = []
        for column in self.batch.columns:
            value: bytes = column[at].as_py() or b""
            needs = quote and any(mark in value for mark in (quote, reader.separator.encode(), b"\n", b"\r"))
            cells.append(quote + value.replace(quote, quote * 2) + quote if needs else value)
        return NoRow(f"record {self.numbers.of(at)}", why, reader.separator.encode().join(cells))


class _Numbers:
    """Which record of the file a row of a batch is: those that Arrow refused count, too."""

    def __init__(self, first: int, refused: list[int]) -> None:
        """`first`: rows in the batches before. `refused`: numbers of refused records, from 1 on."""
        self.first = first
        self._rows_before = np.array(refused, np.int64) - np.arange(1, len(refused) + 1)

    def of(self, at: int) -> int:
        place = self.first + at
        return place + 1 + int(np.searchsorted(self._rows_before, place, side="right"))


class _Text(io.RawIOBase):
    """The bytes of a file from its first line on, without a byte order mark, or of its text in UTF-8."""

    def __init__(self, source: pa.NativeFile | Iterator[bytes]) -> None:
        self._next = iter(lambda: source.read(_BLOCK_BYTES), b"") if isinstance(source, pa.NativeFile) else source
        self._left = b""
        while len(self._left) < len(_BOM) and self._more():
            pass
        self._left = self._left.removeprefix(_BOM)

    @property
    def is_empty(self) -> bool:
        return not self._left and not self._more()

    def take_line(self) -> bytes | None:
        """The first line that has something, without its end; None if there is none. Raises BadFile."""
        while True:
            while b"\n" not in self._left and self._more():
                if len(self._left) > _HEADER_BYTES_MAX:
                    raise BadFile(f"line 1: the header is longer than {_HEADER_BYTES_MAX // 1024} KiB")
            line, _, self._left = self._left.partition(b"\n")
            if line.strip():
                return line.rstrip(b"\r")
            if self.is_empty:
                return None

    def all_if_small(self) -> bytes | None:
        """All that is left; None if it is more than a block."""
        while len(self._left) <= _BLOCK_BYTES:
            if not self._more():
                return self._left
        return None

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while (size < 0 or not self._left) and self._more():
            pass
        taken = self._left if size < 0 else self._left[:size]
        self._left = self._left[len(taken) :]
        return taken

    def _more(self) -> bool:
        """Whether there was more."""
        block = next(self._next, None)
        while block is not None and not block:
            block = next(self._next, None)
        if block is None:
            return False
        self._left += block
        return True


def _distinct(names: list[str]) -> list[str]:
    """Names as Arrow takes them: of columns that no schema has, two may have the same."""
    return [f"{at} {name}" for at, name in enumerate(names)]


def _text_of(cells: pa.BinaryArray) -> tuple[pa.StringArray, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Cells as text, null where they are none; and which are none."""
    bad = np.zeros(len(cells), np.bool_)
    try:
        return cells.cast(pa.string()), bad
    except pa.ArrowInvalid:
        for at, cell in enumerate(cells.to_pylist()):
            try:
                (cell or b"").decode()
            except UnicodeDecodeError:
                bad[at] = True
    return pc.if_else(pa.array(bad), pa.scalar(None, pa.binary()), cells).cast(pa.string()), bad
