"""A table as this project's own merge reads it, beside hudi-rs and Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from bucketingest.hudi.merge.merge_rules import merge_rules
from bucketingest.hudi.plans.replaced import replaced_file_groups
from bucketingest.hudi.table.file_view import load_file_view
from bucketingest.hudi.table.schema import avro_to_arrow, with_meta_columns
from bucketingest.hudi.table.schema_evolution import widened
from bucketingest.hudi.table.table import load_table
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.services.merge.slice_merge import SliceInput, rows_of_slice
from bucketingest.storage import open_storage
from bucketingest.write.open_table import stored_schema
from support.oracle.compare import without_meta_columns


def own_rows(path: Path) -> pa.Table:
    """All rows as of the newest commit, without meta columns."""
    storage = open_storage(str(path))
    table, timeline = load_table(storage), Timeline.load(storage)
    stored = stored_schema(table, timeline)
    assert stored is not None, "a table without a commit"
    schema = avro_to_arrow(with_meta_columns(stored))
    rules = merge_rules(table, schema)
    view, replaced = load_file_view(storage, timeline), replaced_file_groups(storage, timeline)
    newest = max(each.request_time for each in timeline.completed_commits)
    slices = [
        SliceInput(None if base is None else base.path, tuple(each.path for each in files.log_files), newest)
        for group in view.groups
        if (files := group.latest) is not None and (group.partition_path, group.file_id) not in replaced
        for base in [files.base_file]
    ]
    parts = [
        pa.table([_column(part, field) for field in schema], schema=schema)
        for each in slices
        for part in rows_of_slice(storage, each, rules)
    ]
    return without_meta_columns(pa.concat_tables([schema.empty_table(), *parts]))


def _column(rows: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    if field.name not in rows.column_names:
        return pa.chunked_array([pa.nulls(len(rows), field.type)])
    return pa.chunked_array([widened(each, field.type) for each in rows[field.name].chunks], field.type)
