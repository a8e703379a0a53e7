"""The second judge: hudi-rs reads our tables without a JVM and shares no code with Hudi's Java reader."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from datafusion import SessionContext
from hudi import HudiDataFusionDataSource, HudiQueryType, HudiReadOptions, HudiTableBuilder


class HudiRsError(Exception):
    """hudi-rs cannot read the table: its error, or what it panicked with."""


def snapshot(path: str | Path) -> pa.Table:
    """The table as it is now, as hudi-rs sees it, meta columns included. Raises HudiRsError."""
    return _read(path, HudiReadOptions().with_query_type(HudiQueryType.Snapshot))


def as_of(path: str | Path, instant: str) -> pa.Table:
    """The same as of a commit's request time. Raises HudiRsError."""
    return _read(path, HudiReadOptions().with_query_type(HudiQueryType.Snapshot).with_as_of_timestamp(instant))


def read_optimized(path: str | Path) -> pa.Table:
    """The rows of base files, as hudi-rs sees them, meta columns included. Raises HudiRsError."""
    options = HudiReadOptions().with_query_type(HudiQueryType.Snapshot)
    return _read(path, options.with_hudi_option("hoodie.read.use.read_optimized.mode", "true"))


def by_datafusion(path: str | Path) -> pa.Table:
    """The table as it is now, as the command `query` scans it: with hudi-rs below DataFusion."""
    context = SessionContext()
    context.register_table("t", HudiDataFusionDataSource(str(path)))
    return pa.Table.from_batches([each.to_pyarrow() for each in context.sql("SELECT * FROM t").execute_stream()])


def incremental(path: str | Path, begin: str, end: str | None = None) -> pa.Table:
    """The latest rows of keys changed by commits whose completion time is in (begin, end] (17 digits, or "0").

    Raises HudiRsError.
    """
    options = HudiReadOptions().with_query_type(HudiQueryType.Incremental).with_start_timestamp(begin)
    return _read(path, options if end is None else options.with_end_timestamp(end))


def _read(path: str | Path, options: HudiReadOptions) -> pa.Table:
    try:
        table = HudiTableBuilder.from_base_uri(str(path)).build()
        batches = table.read(options)
        if not batches:
            return table.get_schema_with_meta_fields().empty_table().replace_schema_metadata(None)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic in Rust arrives as a BaseException of no importable class
        raise HudiRsError(f"hudi-rs cannot read {path}: {error}") from error
    return pa.Table.from_batches(batches).replace_schema_metadata(None)
