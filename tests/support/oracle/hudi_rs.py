"""The second judge: hudi-rs reads our tables without a JVM and shares no code with Hudi's Java reader."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from hudi import HudiQueryType, HudiReadOptions, HudiTable, HudiTableBuilder


def snapshot(path: str | Path) -> pa.Table:
    """The table as it is now, as hudi-rs sees it, meta columns included."""
    return _read(path, HudiReadOptions().with_query_type(HudiQueryType.Snapshot))


def incremental(path: str | Path, begin: str, end: str | None = None) -> pa.Table:
    """The latest rows of keys changed by commits whose completion time is in (begin, end] (17 digits, or "0")."""
    options = HudiReadOptions().with_query_type(HudiQueryType.Incremental).with_start_timestamp(begin)
    return _read(path, options if end is None else options.with_end_timestamp(end))


def _read(path: str | Path, options: HudiReadOptions) -> pa.Table:
    table: HudiTable = HudiTableBuilder.from_base_uri(str(path)).build()
    batches = table.read(options)
    if not batches:
        return table.get_schema_with_meta_fields().empty_table()
    return pa.Table.from_batches(batches).replace_schema_metadata(None)
