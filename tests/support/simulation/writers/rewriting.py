"""Inserts of another writer into base files, as Hudi's SIMPLE and BLOOM indexes have them: the whole file is written
again, in a deltacommit. No log file is in such slices.
"""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq

from bucketingest.hudi.timeline import heartbeat
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.timeline import complete, create_inflight, create_requested
from bucketingest.hudi.timeline.write_stat import WriteStat
from support.simulation.judge.reader import Snapshot
from support.simulation.view import View
from support.simulation.world import Actor
from support.simulation.writers.commits import table_schema
from support.simulation.writers.visit import Visit


def rewrite(visit: Visit, actor: Actor, storage: View) -> None:
    """Every file group with a base file and no log gets a new base file. Hudi's conflict check would refuse it if
    another writer changed the group meanwhile: here none can. Not a late file of an instant that was rolled back before
    the table's first commit: what happens then remains (docs/exactly-once.md).
    """
    with visit.world.atomically(actor):
        table = visit.look(storage)
        gone = table.instants.rolled_back
        groups = {
            group: part
            for group, part in table.latest.items()
            if part.base is not None and not part.logs and part.base.instant not in gone
        }
        if not groups or table.instants.pending or table.instants.compactions:
            return
        instant = visit.next_time(storage)
        visit.others.requested.add(instant)
        heartbeat.beat(storage, instant)
        create_requested(storage, instant)
        create_inflight(storage, instant)
        stats: dict[str, list[WriteStat]] = {}
        for (partition, file_id), part in groups.items():
            assert part.base is not None
            name = f"{file_id}_{visit.world.steps}-0-1_{instant}.parquet"
            content = _again(table, part.base.path, name)
            storage.create(f"{partition}/{name}", content)
            stats.setdefault(partition, []).append(
                WriteStat(file_id, f"{partition}/{name}", partition, file_size_in_bytes=len(content))
            )
        metadata = CommitMetadata(stats, {"schema": table_schema(visit, storage)})
        complete(storage, instant, visit.next_time(storage), metadata.encode())
        heartbeat.stop(storage, instant)
    visit.world.note(visit.name, "rewrites", f"{len(groups)} file groups in {instant}")


def _again(table: Snapshot, path: str, name: str) -> bytes:
    rows = pq.ParquetFile(io.BytesIO(table.objects[path])).read(use_threads=False)
    column = rows.schema.get_field_index("_hoodie_file_name")
    field = rows.schema.field(column)
    rows = rows.set_column(column, field, pa.array([name] * rows.num_rows, field.type))  # also of no rows
    sink = io.BytesIO()
    pq.write_table(rows, sink)
    return sink.getvalue()
