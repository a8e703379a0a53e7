"""From what was read of a table to the report about it. Pure: the clock's time comes with the snapshot."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Final

from bucketingest.cli.inspection.findings import findings
from bucketingest.cli.inspection.layout import files_report
from bucketingest.cli.inspection.report import (
    DamagedFile,
    IndexState,
    InstantLine,
    PendingInstant,
    Pipeline,
    Properties,
    SchemaChange,
    ServicesReport,
    TableReport,
    UncommittedFile,
)
from bucketingest.cli.inspection.snapshot import TableSnapshot
from bucketingest.hudi.errors import InvalidName
from bucketingest.hudi.table.schema import META_COLUMNS, AvroSchema
from bucketingest.hudi.table.schema_evolution import compare_schemas
from bucketingest.hudi.table.table import BUCKET_HASH, BUCKET_HASH_FIELDS
from bucketingest.hudi.timeline.commit_metadata import SCHEMA_KEY, CommitMetadata
from bucketingest.hudi.timeline.heartbeat import is_expired
from bucketingest.hudi.timeline.instant import CLEAN, COMPACTION, DELTA_COMMIT, REPLACE_COMMIT, ROLLBACK, Instant
from bucketingest.hudi.timeline.instant_time import format_time, parse_time
from bucketingest.write.instants.commit_content import DELETES, EPOCH, RANGES, ROWS
from bucketingest.write.pipeline_names import PIPELINE
from bucketingest.write.recovery.decide import Policy, Step, decide
from bucketingest.write.recovery.facts import Facts


def analyse(
    snapshot: TableSnapshot,
    services: ServicesReport,
    index_state: IndexState | None = None,
    *,
    instants: int,
    pending_limit: timedelta,
) -> TableReport:
    """The report. `instants`: how many of the newest to list; `pending_limit`: age from which a pending one hangs."""
    timeline, view = snapshot.timeline, snapshot.view
    rules = snapshot.bucket_rules
    schemas = _schemas(snapshot)
    pending_times = {instant.request_time for instant in timeline.pending}
    report = TableReport(
        url=snapshot.table.storage.url,
        at=format_time(snapshot.now),
        properties=_properties(snapshot),
        completed_instants=len(timeline.completed),
        pending_instants=len(timeline.pending),
        timeline=tuple(_line(instant, snapshot) for instant in timeline.instants[-instants:]),
        columns=len(schemas[-1][1]["fields"]) if schemas else None,
        schema_changes=_schema_changes(schemas),
        pending=pending_instants(snapshot, pending_limit),
        files=files_report(view, snapshot.replaced, None if rules is None else rules.counts),
        damaged=_damaged(snapshot),
        compared_since=snapshot.damage.since,
        uncommitted=tuple(
            UncommittedFile(file.path, file.size, file.instant, file.instant in pending_times)
            for file in view.uncommitted
        ),
        unmarked_partitions=view.unmarked_partitions,
        pipelines=_pipelines(snapshot),
        services=services,
        index_state=index_state,
        findings=(),
    )
    found = findings(report, view, snapshot.replaced)
    unreadable = () if snapshot.unreadable_rules is None else (snapshot.unreadable_rules,)
    return replace(report, findings=(*unreadable, *found))


def age_seconds(time: str, snapshot: TableSnapshot) -> float | None:
    """Seconds from an instant time of the table until now; None if it is no full time (Hudi's bootstrap marks)."""
    try:
        moment = parse_time(time)
    except InvalidName:
        return None
    return max(0.0, (snapshot.now - (moment - snapshot.zone_offset)).total_seconds())


def _properties(snapshot: TableSnapshot) -> Properties:
    table = snapshot.table
    found, rules = table.properties, snapshot.bucket_rules
    return Properties(
        name=table.name,
        version=table.version,
        type=found["hoodie.table.type"],
        record_key=_fields(found.get("hoodie.table.recordkey.fields")),
        partition_fields=_fields(found.get("hoodie.table.partition.fields")),
        ordering_fields=_fields(
            found.get("hoodie.table.ordering.fields") or found.get("hoodie.table.precombine.field")
        ),
        merge_mode=found.get("hoodie.record.merge.mode"),
        buckets=table.bucket_count,
        has_state=snapshot.has_state,
        bucket_rules=tuple(f"{rule.pattern} {rule.buckets}" for rule in rules.wanted) if rules is not None else (),
        hash=found.get(BUCKET_HASH),
        hash_fields=_fields(found.get(BUCKET_HASH_FIELDS)),
        time_zone=found.get("hoodie.table.timeline.timezone", "LOCAL"),
        metadata_table=found.get("hoodie.table.metadata.partitions", ""),
    )


def _fields(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def _line(instant: Instant, snapshot: TableSnapshot) -> InstantLine:
    metadata = snapshot.commits.get(instant.request_time)
    stats = [stat for each in metadata.write_stats.values() for stat in each] if metadata is not None else None
    inflight = snapshot.inflight.get(instant.request_time)
    extra = metadata.extra_metadata if metadata is not None else inflight.extra_metadata if inflight is not None else {}
    return InstantLine(
        time=instant.request_time,
        action=instant.action,
        state=instant.state.value,
        completed=instant.completion_time,
        age=age_seconds(instant.completion_time or instant.request_time, snapshot),
        rows=_count(metadata, ROWS, None if stats is None else sum(stat.num_writes for stat in stats)),
        deletes=_count(metadata, DELETES, None if stats is None else sum(stat.num_deletes for stat in stats)),
        files=None if stats is None else len(stats),
        size_bytes=None if stats is None else sum(stat.total_write_bytes for stat in stats),
        pipeline=extra.get(PIPELINE),
    )


def _schemas(snapshot: TableSnapshot) -> list[tuple[str, AvroSchema, str | None]]:
    """Request time, columns and pipeline of each commit that was opened, the newest last."""
    found = []
    for instant in snapshot.timeline.completed_commits:
        metadata = snapshot.commits.get(instant.request_time)
        # A clustering has the columns of its plan, which may be older than the table's.
        if (
            metadata is not None
            and instant.action != REPLACE_COMMIT
            and (text := metadata.extra_metadata.get(SCHEMA_KEY))
        ):
            schema = json.loads(text)
            columns = [each for each in schema["fields"] if each["name"] not in META_COLUMNS]
            pipeline = metadata.extra_metadata.get(PIPELINE)
            found.append((instant.request_time, {**schema, "fields": columns}, pipeline))
    return found


def _schema_changes(schemas: list[tuple[str, AvroSchema, str | None]]) -> tuple[SchemaChange, ...]:
    changes = []
    for (_, before, _), (time, after, pipeline) in pairwise(schemas):
        found = compare_schemas(before, after)
        names = {each["name"] for each in after["fields"]}
        other = (*found.reasons, *(f"column {each!r} is gone" for each in found.missing if each not in names))
        if found.added or found.widened or other:
            changes.append(SchemaChange(time, pipeline, found.added, found.widened, other))
    return tuple(changes)


def _damaged(snapshot: TableSnapshot) -> tuple[DamagedFile, ...]:
    return tuple(
        DamagedFile(
            path=each.file.path,
            file_id=each.file_id,
            instant=each.file.instant,
            size_bytes=each.file.size,
            found_bytes=each.found,
            rows=each.file.rows,
            problem=each.problem,
            offsets=_position(_ranges(snapshot.commits.get(each.file.instant)), 0, "start"),
        )
        for each in snapshot.damage.damaged
    )


def _ranges(metadata: CommitMetadata | None) -> str | None:
    return None if metadata is None else metadata.extra_metadata.get(RANGES)


def _count(metadata: CommitMetadata | None, key: str, otherwise: int | None) -> int | None:
    """A number of the extra metadata of our commits; what the write stats say of other writers'."""
    text = None if metadata is None else metadata.extra_metadata.get(key)
    return int(text) if text is not None and text.isdigit() else otherwise


def _pipelines(snapshot: TableSnapshot) -> tuple[Pipeline, ...]:
    last = {
        metadata.extra_metadata[PIPELINE]: (time, metadata.extra_metadata)
        for time, metadata in sorted(snapshot.commits.items())
        if PIPELINE in metadata.extra_metadata
    }
    coordinated = {each.pipeline: each for each in snapshot.coordinated}
    result = []
    for name in sorted({*last, *coordinated}):
        time, extra = last.get(name, (None, {}))
        known = coordinated.get(name)
        result.append(
            Pipeline(
                name=name,
                epoch=known.epoch if known is not None else None,
                claimant=known.claimant if known is not None else None,
                last_instant=time,
                position=_position(extra.get(RANGES)),
                open_instants=known.open_instants if known is not None else (),
            )
        )
    return tuple(result)


def _position(ranges: str | None, number: int = -1, side: str = "end") -> str | None:
    """JSON of the position at a side of one of the ranges."""
    try:
        found = None if ranges is None else json.loads(ranges)[number][side]
    except (ValueError, LookupError, TypeError):
        return None
    return None if found is None else json.dumps(found, separators=(",", ":"))


_DOES: Final = {
    Step.RESUME: "resumes the instant",
    Step.COMPLETE: "completes the instant",
    Step.CLOSE: "closes the instant",
    Step.ROLL_BACK: "rolls the instant back and ingests its rows again",
}
_FINISHED_BY: Final = {
    COMPACTION: "if a job or command of bucketingest planned it, the job or bucketingest compact finishes it; if Hudi "
    "did, run it again with Hudi, or have Hudi roll it back",
    CLEAN: "the job, if it carries out table services, or bucketingest clean finishes it; Hudi's next clean does, too",
}
_TABLE_SERVICES: Final = frozenset({"logcompaction", "clustering", "indexing", "replacecommit"})


def pending_instants(snapshot: TableSnapshot, limit: timedelta) -> tuple[PendingInstant, ...]:
    """Every pending instant, the oldest first; those older than the limit hang."""
    return tuple(_pending(instant, snapshot, limit) for instant in snapshot.timeline.pending)


def _pending(instant: Instant, snapshot: TableSnapshot, limit: timedelta) -> PendingInstant:
    time = instant.request_time
    beat = snapshot.heartbeats.get(time)
    metadata = snapshot.inflight.get(time)
    found = snapshot.facts.get(time)
    age = _age(time, snapshot)
    hangs = age > limit
    alive = not is_expired(beat, snapshot.now)
    return PendingInstant(
        time=time,
        action=instant.action,
        state=instant.state.value,
        age=age.total_seconds(),
        hangs=hangs,
        heartbeat_age=None if beat is None else (snapshot.now - beat).total_seconds(),
        pipeline=None if found is None else found.pipeline,
        epoch=None if metadata is None else metadata.extra_metadata.get(EPOCH),
        advice=_advice(instant, found, hangs=hangs, alive=alive),
    )


def _age(time: str, snapshot: TableSnapshot) -> timedelta:
    try:
        return max(timedelta(), snapshot.now - (parse_time(time) - snapshot.zone_offset))
    except InvalidName:
        return timedelta()


def _advice(instant: Instant, found: Facts | None, *, hangs: bool, alive: bool) -> str:
    if not hangs:
        return "nothing: it is young, its writer is probably active"
    if instant.action in _FINISHED_BY:
        return _FINISHED_BY[instant.action]
    if instant.action in _TABLE_SERVICES:
        return (
            f"a {instant.action} of Hudi's table services: bucketingest never touches it; run it again with Hudi, or "
            "have Hudi roll it back"
        )
    if instant.action == ROLLBACK:
        return "a rollback that did not finish: bucketingest rollback finishes it; else Hudi's EAGER writers may fail"
    if alive:
        return "its heartbeat is recent, so its writer may be active: look at that process first"
    if found is not None and found.pipeline is not None:
        choice = decide(found, Policy.RESUME)
        return (
            f"start pipeline {found.pipeline} (bucketingest run): its start {_DOES[choice.step]} ({choice.reason}), "
            "without losing or doubling a row; or free the table now: bucketingest rollback"
        )
    if instant.action == DELTA_COMMIT:
        return (
            "another writer's, without a recent heartbeat: its own next start rolls it back, or bucketingest rollback "
            f"--instant {instant.request_time} does; first make sure that the writer has ended"
        )
    return "another writer's: its own next start deals with it"
