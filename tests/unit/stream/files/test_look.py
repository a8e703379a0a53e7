"""What validate says of the first file."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bucketingest.spec.fields.source import FilesSource
from bucketingest.stream.errors import InvalidTransform, NoSourceFiles
from bucketingest.stream.files.source import look_at_files, open_files


def look(folder: Path, file_format: str, **options: str) -> str:
    fields = {"path": str(folder), "format": file_format, "schema": "id STRING, n BIGINT", "options": options}
    said = look_at_files(FilesSource.model_validate(fields))
    return said.partition(" of ")[2]


def test_a_parquet_file_shows_each_column_beside_the_schemas_and_what_is_no_row(tmp_path: Path) -> None:
    texts = pa.Array.from_buffers(pa.string(), 2, pa.array([b"a", b"\xff"]).buffers())
    pq.write_table(pa.table({"ID": texts, "more": [1, 2]}), tmp_path / "a.parquet", compression="none")
    size = (tmp_path / "a.parquet").stat().st_size
    assert look(tmp_path, "parquet") == (
        f"{size:,} bytes; the first is a.parquet: ID STRING, more BIGINT (not in schema), n (only in schema); "
        "1 of its first records are no rows: row 2, column id: a byte that is not UTF-8"
    )


def test_of_texts_what_the_schema_does_not_have_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('{"id": "a", "more": 1}\n{"id": 1, "n": "many"}\n')
    assert look(tmp_path, "json") == (
        "46 bytes; the first is a; not in schema: more; 1 of its first records are no rows: "
        "line 2: field n: Expected `int | null`, got `str`"
    )
    (tmp_path / "a").write_text("N, more,ID\n1,x,a\n")
    assert look(tmp_path, "csv", header="true") == "17 bytes; the first is a; not in schema: more"
    (tmp_path / "a").write_text("n,id\n")
    assert look(tmp_path, "csv", header="true") == "5 bytes; the first is a; it has no records"


def test_a_file_that_cannot_be_read_is_an_error_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("id\n")
    with pytest.raises(InvalidTransform, match="/a: line 1: the header lacks n"):
        look(tmp_path, "csv", header="true")


def test_columns_of_a_schema_may_be_null_whatever_it_says(tmp_path: Path) -> None:
    """A file may have nulls there: no task could write them, and the run would end at each start."""
    fields = {"path": str(tmp_path), "format": "csv", "schema": "id STRING NOT NULL, n INT NOT NULL"}
    columns = open_files(FilesSource.model_validate(fields)).reader.columns
    assert columns == pa.schema([("id", pa.string()), ("n", pa.int32())])


def test_a_first_file_whose_names_differ_in_case_only_shows_no_columns(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "ID": [2]}), tmp_path / "a")
    with pytest.raises(NoSourceFiles, match="a: has columns whose names differ in case only, or not at all: id, ID"):
        open_files(FilesSource.model_validate({"path": str(tmp_path), "format": "parquet"}))
