"""Commits of another writer: one row into a file group that the pipeline writes to as well, or with one more column."""

from __future__ import annotations

import json
from itertools import count
from typing import Any, Final

import pyarrow as pa

from bucketingest.hudi.log.blocks import avro_data_block
from bucketingest.hudi.naming import LogFileName, deterministic_file_id
from bucketingest.hudi.rollback.markers import create_marker, delete_markers
from bucketingest.hudi.table.partition import ensure_partition_metadata
from bucketingest.hudi.table.schema import META_COLUMNS, arrow_to_avro, schema_json, with_meta_columns
from bucketingest.hudi.timeline import heartbeat
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.timeline import Timeline, complete, create_inflight, create_requested
from bucketingest.hudi.timeline.write_stat import WriteStat
from support.simulation.source import BUCKETS, FOREIGN_TOKEN, SCHEMA
from support.simulation.spec import REGIONS, Row
from support.simulation.view import View
from support.simulation.world import Actor
from support.simulation.writers.visit import Visit

ADDED: Final = pa.field("note", pa.string())
FOREIGN_PARTITION: Final = "zz"
"""A partition that the pipeline never writes."""
_LATE: Final = (40, 120, 300, 600)
"""Steps between the choice of a completion time without lock and the completed file."""
_BEGINNING: Final = arrow_to_avro(SCHEMA, table_name="orders")


def commit(visit: Visit, actor: Actor, storage: View, *, region: str | None = None, adds_column: bool = False) -> None:
    """One row of a key that the pipeline does not have."""
    bucket = 0 if region else visit.rng.randrange(BUCKETS)
    region = region or visit.rng.choice(REGIONS)
    row: Row = {"id": f"foreign {visit.name}", "region": region, "offset": -1, "at": 1}
    if adds_column:
        row[ADDED.name] = visit.name
    with visit.world.atomically(actor):  # Hudi chooses times under the table's lock
        instant = visit.next_time(storage)
        visit.others.rows[instant] = (visit.name, row)
        heartbeat.beat(storage, instant)
        create_requested(storage, instant)
    with visit.world.atomically(actor):  # Hudi looks whether the requested file is there: it may have been rolled back
        if Timeline.load(storage).find(instant) is None:
            visit.world.note(visit.name, "was rolled back", instant)
            return
        create_inflight(storage, instant)
    name = LogFileName(file_id(visit, storage, region, bucket), instant, 1, FOREIGN_TOKEN)
    ensure_partition_metadata(storage, region, instant)
    create_marker(storage, instant, region, str(name))
    content = _block(row, name)
    storage.create(f"{region}/{name}", content)
    stat = WriteStat.of_log_file(region, name, size=len(content), updates=1, deletes=0)
    done = None if visit.locks else visit.next_time(storage)
    if done is not None:
        visit.world.stall(actor, visit.rng.choice(_LATE))
    with visit.world.atomically(actor):  # it holds the table's lock
        if Timeline.load(storage).find(instant) is None:
            visit.world.note(visit.name, "was rolled back", instant)
            return
        metadata = CommitMetadata({region: [stat]}, {"schema": table_schema(visit, storage, adds_column=adds_column)})
        complete(storage, instant, done or visit.next_time(storage), metadata.encode())
    visit.world.note(visit.name, "adds a column" if adds_column else "commits", instant)
    delete_markers(storage, instant)
    heartbeat.stop(storage, instant)


def file_id(visit: Visit, storage: View, region: str, bucket: int) -> str:
    """Of a file group that these writers use: that of a bucket, or without buckets one of their own that was not
    replaced: no writer writes to a file group that readers leave out.
    """
    if not visit.others.state:
        return deterministic_file_id(bucket)
    visit.others.replaced |= visit.look(storage).instants.replaced
    ids = (f"f0e1d2c3-0000-4000-8000-{number:012d}-0" for number in count(bucket, BUCKETS))
    return next(each for each in ids if (region, each) not in visit.others.replaced)


def table_schema(visit: Visit, storage: View, *, adds_column: bool = False) -> str:
    """The table's columns as its newest commit says, and one more."""
    known: dict[str, Any] = json.loads(visit.look(storage).instants.schema or schema_json(_BEGINNING))
    if adds_column and ADDED.name not in [each["name"] for each in known["fields"]]:
        fields = arrow_to_avro(pa.schema([ADDED]), table_name="orders")["fields"]
        known = {**known, "fields": [*known["fields"], *fields]}
    return schema_json(known)


def _block(row: Row, name: LogFileName) -> bytes:
    schema = SCHEMA.append(ADDED) if ADDED.name in row else SCHEMA
    values = [name.instant, f"{name.instant}_0_0", row["id"], row["region"], name.file_id]
    meta = {column: pa.array([value]) for column, value in zip(META_COLUMNS, values, strict=True)}
    data = {field.name: pa.array([row[field.name]], field.type) for field in schema}
    text = schema_json(with_meta_columns(arrow_to_avro(schema, table_name="orders")))
    block = avro_data_block(pa.table(meta | data), instant_time=name.instant, avro_schema_json=text)
    return b"".join(memoryview(part) for part in block)
