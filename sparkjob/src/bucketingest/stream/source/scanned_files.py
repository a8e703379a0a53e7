"""Which files, and which parts of them, Spark would read for a micro-batch, task by task: our tasks read the same."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote_to_bytes, urlsplit

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from bucketingest.decode.parquet_files import Piece, read
from bucketingest.decode.sql.nodes import RowsInDoubt
from bucketingest.decode.sql.program import Program
from bucketingest.stream.source.spark_rdd import OTHER_FORM, reading_rdd

_PIECES_MAX: Final = 5000
"""Each one is asked for in calls of its own."""


@dataclass(frozen=True, slots=True)
class FileReader:
    """How files become the table's rows. Picklable."""

    columns: pa.Schema
    """Of the files' rows."""
    program: Program | None
    """What makes the table's rows of them, if that is more than nothing."""

    def rows(self, pieces: list[Piece]) -> Iterator[pa.RecordBatch]:
        """The table's rows of one task. Raises RowsInDoubt."""
        for batch in read(pieces, self.columns):
            yield batch if self.program is None else self.program.apply(batch)


def pieces_of(rows: DataFrame) -> list[list[Piece]]:
    """The parts of files that each task of a micro-batch would read, in this order. Nothing is read.

    Raises RowsInDoubt if the plan has another form than is known, or the files are not on this machine.
    """
    try:
        partitions = reading_rdd(rows, "FileScanRDD").filePartitions()
        tasks = [list(partitions.apply(number).files()) for number in range(partitions.size())]
        if sum(map(len, tasks)) > _PIECES_MAX:
            raise RowsInDoubt(f"the micro-batch has more than {_PIECES_MAX} files")
        return [[_piece(each) for each in files] for files in tasks]
    except (Py4JError, AttributeError, TypeError) as error:
        raise RowsInDoubt(f"{OTHER_FORM}: {type(error).__name__}") from error


def _piece(file: Any) -> Piece:
    url = urlsplit(str(file.urlEncodedPath()))
    if url.scheme != "file" or url.netloc:
        raise RowsInDoubt(f"{url.scheme}: only files of a file system are read on Arrow")
    start = int(file.start())
    return Piece(os.fsdecode(unquote_to_bytes(url.path)), start, start + int(file.length()))
