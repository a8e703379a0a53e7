"""Rows that delete all that a table has: what a truncate of its source means here. They are found by the files, so it
does not matter which index the table has, and no row has to be known twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from bucketingest.hudi.naming import version_of
from bucketingest.hudi.plans.replaced import replaced_file_groups
from bucketingest.hudi.table.file_view import DataFile, FileGroup, FileSlice, load_file_view
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.index.state.key_columns import rows_of
from bucketingest.storage import Storage, open_storage
from bucketingest.write.plan import DELETE_COLUMN, WritePlan


def slices_to_empty(storage: Storage, instant_time: str, sequence: int) -> tuple[FileSlice, ...]:
    """What has the rows of a table as a micro-batch finds it: the newest slice of each file group, with what its own
    instant wrote in earlier micro-batches.
    """
    timeline = Timeline.load(storage)
    view, replaced = load_file_view(storage, timeline), replaced_file_groups(storage, timeline)
    groups = (group for group in view.groups if (group.partition_path, group.file_id) not in replaced)
    found = (_with_own(group, instant_time, sequence) for group in groups)
    return tuple(each for each in found if each.files)


def _with_own(group: FileGroup, instant_time: str, sequence: int) -> FileSlice:
    own = [file for file in group.uncommitted if file.instant == instant_time and _version(file) < sequence]
    latest = group.latest or FileSlice(instant_time, None, ())
    return replace(latest, log_files=(*latest.log_files, *own))


def _version(file: DataFile) -> float:
    """By whose micro-batch of its instant it was written. An instant that writes base files has one micro-batch: they
    are what an earlier attempt has made of it.
    """
    version = version_of(str(file.name))
    return math.inf if version is None else version


def deletes_of(files: FileSlice, plan: WritePlan) -> Iterator[pa.RecordBatch]:
    """A delete for each row, as rows of the plan; also for rows that are deleted already. Raises as `rows_of` does."""
    storage = open_storage(plan.table_url, plan.storage_options)
    names = list(dict.fromkeys([*plan.rules.record_key.fields, *plan.rules.partition_path.fields]))
    for _, rows in rows_of(storage, files, names):
        for batch in rows.select(names).to_batches():
            columns = {name: batch.column(name).cast(plan.schema.field(name).type) for name in names}
            columns[DELETE_COLUMN] = pa.repeat(True, batch.num_rows)  # noqa: FBT003 - Arrow's signature
            missing = {field.name: pa.nulls(batch.num_rows, field.type) for field in plan.schema}
            yield pa.RecordBatch.from_pydict({**missing, **columns}, schema=plan.schema)
