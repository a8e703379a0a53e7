"""How rows are printed: a table for people, CSV and JSON lines for programs."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime, time
from enum import StrEnum
from typing import Any, Final

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

_WIDTH_ELSEWHERE: Final = 10_000
"""Columns where stdout is no terminal: nothing is folded in a file."""


class Format(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    CSV = "csv"
    JSON_LINES = "jsonl"


def print_rows(batches: Iterable[pa.RecordBatch], schema: pa.Schema, form: Format, limit: int) -> bool:
    """Print at most `limit` rows (0: all); returns whether there are more."""
    rest: list[bool] = []
    _PRINTERS[form](schema.names, _limited(batches, limit, rest))
    sys.stdout.flush()
    return bool(rest)


def _limited(batches: Iterable[pa.RecordBatch], limit: int, rest: list[bool]) -> Iterator[list[Any]]:
    """Rows of plain values; `rest` gets an entry if there are more."""
    printed = 0
    for batch in batches:
        kept = batch.slice(0, limit - printed) if limit else batch
        yield from map(list, zip(*map(_values, kept.columns), strict=True))
        printed += kept.num_rows
        if kept.num_rows < batch.num_rows:
            rest.append(True)
            return


def _values(column: pa.Array) -> list[Any]:
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":  # Python's datetime has microseconds
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    return [_plain(value) for value in column.to_pylist(maps_as_pydicts="lossy")]


def _plain(value: Any) -> Any:
    """What JSON has, too: numbers with a scale and moments as text, as neither is one there."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if abs(value) < float("inf") else str(value)  # NaN is not smaller either
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return value.hex()
    return str(value)


def _as_text(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _print_table(names: Sequence[str], rows: Iterable[list[Any]]) -> None:
    shown = Table(box=None, header_style="bold")
    for name in names:
        shown.add_column(Text(_printable(name)), overflow="fold")
    for row in rows:
        shown.add_row(*(Text("null", "dim") if each is None else Text(_printable(_as_text(each))) for each in row))
    console = Console()
    (console if console.is_terminal else Console(width=_WIDTH_ELSEWHERE)).print(shown)


def _printable(text: str) -> str:
    """A terminal obeys control characters, and these are other people's data."""
    return text if text.isprintable() else "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def _print_csv(names: Sequence[str], rows: Iterable[list[Any]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(["" if each is None else _as_text(each) for each in row] for row in rows)


def _print_json_lines(names: Sequence[str], rows: Iterable[list[Any]]) -> None:
    for row in rows:
        sys.stdout.write(json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) + "\n")


_PRINTERS: Final[dict[Format, Callable[[Sequence[str], Iterable[list[Any]]], None]]] = {
    Format.TABLE: _print_table,
    Format.CSV: _print_csv,
    Format.JSON_LINES: _print_json_lines,
}
