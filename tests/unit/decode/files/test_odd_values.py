"""Each odd value of each type in a file is a row's value or a dead letter, as the table says."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pytest

from bucketingest.decode.ddl import columns_of
from bucketingest.decode.files.csv_rows import CsvReader
from bucketingest.decode.files.parquet import ParquetReader
from bucketingest.decode.files.parts import Piece
from bucketingest.decode.files.reader import FileReader
from support.decoding.odd_files import Kind, expected_of_files, files_of, reasons_of_files, schema_of


@pytest.mark.parametrize("kind", get_args(Kind))
def test_each_value_is_what_the_table_says(kind: Kind, tmp_path: Path) -> None:
    columns = columns_of(schema_of(kind))
    reader = FileReader(columns, CsvReader(columns) if kind == "csv" else ParquetReader(columns))
    rows: dict[str, Any] = {}
    why: list[str] = []
    for path in files_of(kind, tmp_path):
        piece = Piece(0, str(path), 0, path.stat().st_size)
        for part in reader.read(piece, lambda each: pa.OSFile(each.path, "rb")):
            rows |= {row.pop("id"): row for row in part.rows.to_pylist()}
            why += [each.why for each in part.refused]
    found = {key: {name: value for name, value in row.items() if value is not None} for key, row in rows.items()}
    assert repr(plain(found)) == repr(plain(expected_of_files(kind)))
    assert [(part, each) for part, each in zip(reasons_of_files(kind), why, strict=True) if part not in each] == []


def plain(rows: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Times as text: Arrow's zone and Python's are two objects."""
    return {
        key: {name: value.isoformat() if hasattr(value, "isoformat") else value for name, value in row.items()}
        for key, row in rows.items()
    }
