"""An Iceberg catalog in SQLite beside a table on local disk, and what readers see of both."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import duckdb
import duckdb_ext
import polars as pl
import pyarrow as pa
from hudi import HudiReadOptions, HudiTableBuilder
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

from bucketingest.catalog.iceberg.target import IcebergTarget
from bucketingest.catalog.sync import Changes
from bucketingest.catalog.table_state import TableState
from bucketingest.spec.fields.catalogs import IcebergCatalog
from bucketingest.storage import open_storage

os.environ.setdefault("POLARS_ICEBERG_PLANNER", "pyiceberg")  # its own planner is another package


@dataclass
class IcebergLake:
    """Below `root`: the Hudi table `table`, the catalog, and the metadata that it writes."""

    root: Path
    kept_for: timedelta = timedelta(hours=24)

    def __post_init__(self) -> None:
        self.root.mkdir(exist_ok=True)
        self.catalog.create_namespace("lake")

    @property
    def base(self) -> Path:
        """Of the Hudi table."""
        return self.root / "table"

    @property
    def entry(self) -> IcebergCatalog:
        """Of the resource."""
        return IcebergCatalog(
            type="sql",
            database="lake",
            uri=f"sqlite:///{self.root}/catalog.db",
            warehouse=f"file://{self.root}/warehouse",
        )

    @cached_property
    def catalog(self) -> Catalog:
        """As a reader has it."""
        return load_catalog("default", uri=self.entry.uri, warehouse=self.entry.warehouse)

    @property
    def target(self) -> IcebergTarget:
        """What the job is given."""
        return IcebergTarget(self.entry, "orders", self.kept_for)

    @property
    def table(self) -> Table:
        """The Iceberg table, as a reader loads it now."""
        return self.catalog.load_table("lake.orders")

    def sync(self, **given: Any) -> Changes:
        """As `bucketingest sync` does it."""
        storage = open_storage(str(self.base))
        state = TableState.read(storage)
        assert state is not None
        return self.target.sync(storage, state, **given)

    def files(self) -> set[str]:
        """Paths of its data files."""
        return {task.file.file_path.removeprefix("file://") for task in self.table.scan().plan_files()}

    def counted(self) -> int:
        """Rows by the metadata alone."""
        return sum(task.file.record_count for task in self.table.scan().plan_files())

    def rows(self) -> list[dict[str, Any]]:
        """What PyIceberg reads."""
        return in_order(self.table.scan().to_arrow())

    def rows_of_duckdb(self) -> list[dict[str, Any]]:
        """What DuckDB reads, which plans and reads by itself."""
        place = self.table.metadata_location.removeprefix("file://")
        return in_order(duckdb_with_iceberg().sql(f"SELECT * FROM iceberg_scan('{place}')").to_arrow_table())

    def rows_of_polars(self) -> list[dict[str, Any]]:
        """What Polars reads: the plan is PyIceberg's."""
        shown = pl.scan_iceberg(self.table.metadata_location, reader_override="native").collect()
        return in_order(shown.to_arrow())

    def base_rows(self) -> list[dict[str, Any]]:
        """What hudi-rs reads of base files."""
        builder = HudiTableBuilder.from_base_uri(str(self.base))
        table = builder.with_option("hoodie.read.use.read_optimized.mode", "true").build()
        batches = table.read(HudiReadOptions())
        return in_order(pa.Table.from_batches(batches)) if batches else []


@cache
def duckdb_with_iceberg() -> duckdb.DuckDBPyConnection:
    """Its extensions are packages of their own, and nothing is downloaded."""
    (folder,) = duckdb_ext.__path__
    settings: dict[str, Any] = {"extension_directory": f"{folder}/extensions", "autoinstall_known_extensions": "false"}
    connection = duckdb.connect(config=settings)
    for name in ("avro", "iceberg"):
        connection.load_extension(name)
    return connection


def in_order(rows: pa.Table) -> list[dict[str, Any]]:
    """As values, by their place in the table."""
    return sorted(rows.to_pylist(), key=lambda row: (row["_hoodie_partition_path"], row["_hoodie_record_key"]))
