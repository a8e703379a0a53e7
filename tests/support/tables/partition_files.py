"""One partition's base files and log files on disk, with the keys that a test names, and nothing of a timeline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bucketingest.hudi.log.blocks import avro_data_block, delete_block, parquet_data_block
from bucketingest.hudi.naming import BaseFileName, LogFileName
from bucketingest.hudi.table.file_view import DataFile, FileGroup, FileSlice
from bucketingest.hudi.table.schema import META_COLUMNS, arrow_to_avro, schema_json, with_meta_columns

SCHEMA = pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), pa.field("id", pa.string())])
AVRO = schema_json(with_meta_columns(arrow_to_avro(SCHEMA, table_name="t")))


class PartitionFiles:
    """Partition `p` of a table on disk, made file by file; `slices` is what a listing would show."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.slices: dict[str, FileSlice] = {}
        (root / "p").mkdir(parents=True, exist_ok=True)

    @property
    def groups(self) -> dict[str, FileGroup]:
        """The file groups of the slices."""
        return {file_id: FileGroup("p", file_id, (each,)) for file_id, each in self.slices.items()}

    def base(self, file_id: str, instant: int, keys: Sequence[str | None]) -> None:
        """A base file with these keys, which begins a slice."""
        name = BaseFileName(file_id, f"{instant:017}")
        pq.write_table(rows(keys), self.root / "p" / str(name), row_group_size=3)
        self.slices[file_id] = FileSlice(name.instant, DataFile(f"p/{name}", 1, name), ())

    def log(self, file_id: str, instant: int, *blocks: list[Any]) -> None:
        """A further log file."""
        name = LogFileName(file_id, f"{instant:017}", 1)
        data = b"".join(bytes(memoryview(part)) for block in blocks for part in block)
        (self.root / "p" / str(name)).write_bytes(data)
        before = self.slices.get(file_id, FileSlice(name.instant, None, ()))
        log = DataFile(f"p/{name}", len(data), name)
        self.slices[file_id] = FileSlice(before.base_instant, before.base_file, (*before.log_files, log))


def rows(keys: Sequence[str | None]) -> pa.Table:
    """Rows with these keys in every column."""
    return pa.table([pa.array(keys, pa.string())] * len(SCHEMA), schema=SCHEMA)


def parquet(*keys: str | None) -> list[Any]:
    """A Parquet block."""
    return parquet_data_block(rows(keys), instant_time="1", avro_schema_json=AVRO)


def avro(*keys: str) -> list[Any]:
    """An Avro block."""
    return avro_data_block(rows(keys), instant_time="1", avro_schema_json=AVRO)


def deletes(*keys: str) -> list[Any]:
    """A delete block."""
    return delete_block(pa.array(keys), "p", None, instant_time="1", avro_schema_json=AVRO)
