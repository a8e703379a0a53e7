"""Rows that delete all that a table has: what a truncate of its source means here. They are found by the files, so it
does not matter which index the table has, and no row has to be known twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import pyarrow as pa

from bucketingest.hudi.naming import LogFileName, join
from bucketingest.hudi.plans.replaced import replaced_file_groups
from bucketingest.hudi.table.file_view import DataFile, FileSlice, load_file_view
from bucketingest.hudi.timeline.overtaking import files_of
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.index.state.key_columns import rows_of
from bucketingest.storage import Storage, open_storage
from bucketingest.write.instants.journal import Journal
from bucketingest.write.plan import DELETE_COLUMN, WritePlan
from bucketingest.write.rows.write_status import WriteStatus


def slices_to_empty(storage: Storage, pipeline: str, instant_time: str, sequence: int) -> list[FileSlice]:
    """What has the rows of a table as a micro-batch finds it: the newest slice of each file group, and what its own
    instant wrote in earlier micro-batches. A listing may leave out the newest files: commits and the journal name them.
    """
    timeline = Timeline.load(storage)
    commits = chain.from_iterable(files_of(storage, each) for each in timeline.completed_commits)
    named = [join(file.partition_path, file.name) for file in commits if file.name]
    view, replaced = load_file_view(storage, timeline, named=named), replaced_file_groups(storage, timeline)
    groups = (group for group in view.groups if (group.partition_path, group.file_id) not in replaced)
    before = Journal(storage, pipeline).ledgers(instant_time)[: sequence - 1]
    own = [_log_of(status) for entry in before for status in entry.statuses if status.file_id]
    return [each.latest for each in groups if each.latest is not None] + [
        FileSlice(instant_time, None, (log,)) for log in own
    ]


def _log_of(status: WriteStatus) -> DataFile:
    """An instant that writes base files has one micro-batch."""
    path = join(status.partition_path, status.file_name)
    return DataFile(path, status.size_bytes, LogFileName.parse(status.file_name))


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
