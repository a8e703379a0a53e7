"""What tasks read of files that change after they were listed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bucketingest.decode.files.json_documents import JsonReader
from bucketingest.decode.files.parts import BadFile, Part, Piece, no_rows
from bucketingest.decode.files.reader import FileReader
from bucketingest.spec.fields.source import FileFormat, FilesSource
from bucketingest.storage import open_storage
from bucketingest.stream.errors import InvalidTransform, NoSourceFiles
from bucketingest.stream.files import opening
from bucketingest.stream.files.log import FileBatch
from bucketingest.stream.files.opening import FileChanged, as_they_are
from bucketingest.stream.files.planner import Listing
from bucketingest.stream.files.reading import TaskFiles
from bucketingest.stream.files.source import first_columns, look_at_files
from bucketingest.stream.files.source_file import listed

COLUMNS = pa.schema([("id", pa.int64())])
READER = FileReader(COLUMNS, JsonReader(COLUMNS))


def put(folder: Path, *ids: int) -> None:
    (folder / "a.json").write_text("".join(f'{{"id": {each}}}\n' for each in ids))
    os.utime(folder / "a.json", (1_700_000_000 + len(ids),) * 2)


def batch_of(folder: Path) -> FileBatch:
    return FileBatch(0, str(folder), tuple(listed(open_storage(str(folder)))))


def read(batch: FileBatch) -> list[int]:
    files = TaskFiles.of(batch, READER, 2, is_splittable=True)
    parts = [part for task in range(len(files.tasks)) for _, part in files.parts(task)]
    return [row["id"] for part in parts for row in part.rows.to_pylist()]


@pytest.mark.parametrize("before", [[], [1], [1, 2, 3, 4, 5]], ids=["empty", "shorter", "longer"])
def test_a_file_that_changed_is_read_to_its_end_as_it_is_now(tmp_path: Path, before: list[int]) -> None:
    put(tmp_path, *before)
    planned = batch_of(tmp_path)
    put(tmp_path, 7, 8, 9)
    with pytest.raises(FileChanged, match=r"^a\.json$"):
        read(planned)
    assert read(as_they_are(planned)) == [7, 8, 9]


def test_a_file_that_changes_again_while_bad_ones_are_found_is_not_one_of_them(tmp_path: Path) -> None:
    put(tmp_path, 1)
    planned = batch_of(tmp_path)
    put(tmp_path, 1, 2)
    assert list(TaskFiles.of(planned, READER, 1, is_splittable=True).bad_files(0)) == []


def test_a_file_that_is_gone_is_a_bad_file(tmp_path: Path) -> None:
    put(tmp_path, 1)
    planned = batch_of(tmp_path)
    (tmp_path / "a.json").unlink()
    files = TaskFiles.of(as_they_are(planned), READER, 1, is_splittable=True)
    assert list(files.bad_files(0)) == [(0, "was deleted before it was read")]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("n\nl.json", "it has a control character, which object stores refuse"),
        ("\udcff.json", "it is not valid unicode"),
    ],
)
def test_a_file_whose_name_no_storage_takes_is_a_bad_file(tmp_path: Path, name: str, why: str) -> None:
    """It was listed and is planned: the micro-batch must be written, or no later one ever is."""
    (tmp_path / name).write_text('{"id": 1}\n')
    planned = batch_of(tmp_path)
    files = TaskFiles.of(as_they_are(planned), READER, 1, is_splittable=True)
    ((number, found),) = files.bad_files(0)
    assert (number, found.startswith(f"its name is refused: {why}")) == (0, True)
    ((letter,),) = [batch.to_pylist() for batch in replace(files, set_aside={number: found}).letters(0)]
    assert letter["detail"] == f"{tmp_path}/{name.encode('utf-8', 'backslashreplace').decode()}: {found}"


@dataclass(frozen=True)
class Overtaken:
    """Reads a file that a writer begins to write again: half of it is damaged."""

    columns: pa.Schema
    path: Path

    def with_columns(self, columns: pa.Schema) -> Overtaken:
        return replace(self, columns=columns)

    def read(self, file: pa.NativeFile, piece: Piece) -> Iterator[Part]:
        del file, piece
        self.path.write_bytes(b"")
        yield Part(no_rows(self.columns))
        raise BadFile("is damaged")


@pytest.mark.parametrize("small", [0, 1000])
def test_a_file_that_is_written_again_while_it_is_read_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    monkeypatch.setattr(opening, "_SMALL_BYTES", small)
    put(tmp_path, 1, 2)
    reader = FileReader(COLUMNS, Overtaken(COLUMNS, tmp_path / "a.json"))
    with pytest.raises(FileChanged, match=r"^a\.json$"):
        list(TaskFiles.of(batch_of(tmp_path), reader, 1, is_splittable=True).parts(0))


def test_a_file_that_changes_while_its_columns_are_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, 1)
    listed_before = batch_of(tmp_path).files
    put(tmp_path, 1, 2)
    monkeypatch.setattr(Listing, "__iter__", lambda _: iter(listed_before))
    with pytest.raises(NoSourceFiles, match=r"/a\.json: was changed while it was looked at: write files under another"):
        first_columns(Listing(open_storage(str(tmp_path)), 1, 1), "parquet")


@pytest.mark.parametrize("kind", ["parquet", "avro"])
def test_a_first_file_that_is_damaged_is_named(tmp_path: Path, kind: FileFormat) -> None:
    """Where it is to show the columns."""
    path = tmp_path / f"a.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table({"id": [1]}), path)
        path.write_bytes(path.read_bytes()[:-60] + b"\xff" * 52 + path.read_bytes()[-8:])
    else:
        path.write_bytes(b"Obj\x01\x02\x02\xff\x00")
    with pytest.raises(
        NoSourceFiles, match=rf"/a\.{kind}: is damaged: .* Give the columns in spec\.source\.files\.schema"
    ):
        first_columns(Listing(open_storage(str(tmp_path)), 1, 1), kind)
    with pytest.raises(InvalidTransform, match=rf"/a\.{kind}: is damaged"):
        look_at_files(FilesSource(path=str(tmp_path), format=kind))
