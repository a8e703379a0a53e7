"""Processes in which tasks run import what tasks need, and nothing of the driver."""

import subprocess
import sys
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.accumulators import Accumulator

import bucketingest.stream
from bucketingest.decode.files.avro_containers import AvroReader
from bucketingest.decode.files.csv_rows import CsvReader
from bucketingest.decode.files.json_documents import JsonReader
from bucketingest.decode.files.parquet import ParquetReader
from bucketingest.decode.files.parts import Reader
from bucketingest.decode.files.reader import FileReader
from bucketingest.stream.files import writing
from bucketingest.stream.files.log import FileBatch
from bucketingest.stream.files.reading import TaskFiles
from bucketingest.stream.files.unknown_columns import UnknownColumns
from bucketingest.stream.files.writing import FilesWriter
from support.tables.write_plans import write_plan

COLUMNS = pa.schema([("id", pa.string())])

DRIVERS_OWN = ("bucketingest.spec.model", "bucketingest.stream.ingestion", "bucketingest.write.coordinator", "pydantic")


def test_a_worker_imports_nothing_of_the_driver() -> None:
    script = "import sys; import bucketingest.stream.spark.worker_daemon; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    modules = done.stdout.split()
    assert "bucketingest.write.rows.bucket_writer" in modules
    assert [name for name in DRIVERS_OWN if name in modules] == []


@pytest.mark.parametrize("name", bucketingest.stream.__all__)
def test_what_the_package_exports_is_there(name: str) -> None:
    assert getattr(bucketingest.stream, name).__name__ == name


def test_the_package_has_nothing_else() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        getattr(bucketingest.stream, "nothing")  # noqa: B009 - a constant name, which mypy would refuse


@pytest.mark.parametrize(
    "reader", [ParquetReader(COLUMNS), AvroReader(COLUMNS), CsvReader(COLUMNS), JsonReader(COLUMNS)], ids=repr
)
def test_tasks_that_read_files_import_nothing_of_the_driver(monkeypatch: pytest.MonkeyPatch, reader: Reader) -> None:
    """Each worker process would take a third of a second for it."""
    stages: list[Any] = []
    monkeypatch.setattr(writing, "map_in_arrow", lambda _rows, stage, _columns: stages.append(stage))
    monkeypatch.setattr(writing, "write_packed", lambda _packed, _plan: [])
    monkeypatch.setattr(writing, "write_letters", lambda _letters, _plan: [])
    context: Any = SimpleNamespace(defaultParallelism=1, accumulator=partial(Accumulator, 1))
    session: Any = SimpleNamespace(sparkContext=context, range=lambda *_: None)
    shape: Any = SimpleNamespace(on_arrow=True, program=None)
    files = TaskFiles.of(
        FileBatch(0, "/in", ()), FileReader(COLUMNS, reader), 1, is_splittable=True, met=UnknownColumns(context).met
    )
    writer = FilesWriter(session, files.reader, shape, "stop", is_splittable=True, unknown=UnknownColumns(context))
    writer._written(replace(files, set_aside={0: "damaged"}), write_plan())
    assert len(stages) == 2
    script = (
        "import pickle, sys; import bucketingest.stream.spark.worker_daemon; pickle.load(sys.stdin.buffer);"
        "print(*sys.modules)"
    )
    for stage in stages:
        content: bytes = cloudpickle.dumps(stage)  # type: ignore[no-untyped-call]
        done = subprocess.run([sys.executable, "-c", script], input=content, capture_output=True, check=True)
        assert [name for name in DRIVERS_OWN if name in done.stdout.decode().split()] == []
