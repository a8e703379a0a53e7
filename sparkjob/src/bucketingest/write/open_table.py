"""Opens or creates the table of a pipeline. Refuses, before anything is written, what would make commits wrong."""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

import pyarrow as pa

from bucketingest.hudi.bucket_rules.counts import BucketCounts
from bucketingest.hudi.bucket_rules.hashing_config import TableRules, load_rules
from bucketingest.hudi.errors import TableNotFound, UnsupportedTable
from bucketingest.hudi.history.archived import with_hidden
from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.naming import deterministic_file_id
from bucketingest.hudi.plans.replaced import replaced_file_groups
from bucketingest.hudi.rollback.rollback import Lock
from bucketingest.hudi.table.checks import check_table
from bucketingest.hudi.table.file_view import FileView, load_file_view
from bucketingest.hudi.table.key_sample import sample_record_keys
from bucketingest.hudi.table.layout_warnings import BlockChoice, LogBlock, best_log_block, layout_warnings
from bucketingest.hudi.table.schema import (
    META_COLUMNS,
    AvroSchema,
    arrow_to_avro,
    avro_to_arrow,
    schema_json,
    with_meta_columns,
)
from bucketingest.hudi.table.schema_evolution import Evolution, SchemaComparison, compare_schemas, joined
from bucketingest.hudi.table.table import HoodieTable, TableDefinition, create_table, load_table
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant_time import newest_time, parse_time
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.index.bucket_index import BucketIndex
from bucketingest.index.layout_check import verify_bucket_layout
from bucketingest.index.row_rules import RowRules, check_columns, row_rules
from bucketingest.lease.store_clock import DIFFERENCE_MAX
from bucketingest.storage import Storage, path_room, verify_create_if_absent
from bucketingest.write.bucket_rules import settle_rules, verify_placement
from bucketingest.write.coordinator_api import Assignment
from bucketingest.write.errors import LogFilesLeft
from bucketingest.write.instants.journal import ROOT
from bucketingest.write.plan import DELETE_COLUMN, WritePlan

log = logging.getLogger(__name__)

_GROUPS_OF_BUCKETS: Final = 4
"""So many file groups do not all begin with eight digits by chance (1 in 300,000)."""
_SCHEMA_PROPERTY: Final = "hoodie.table.create.schema"


@dataclass(frozen=True, slots=True)
class OpenTable:
    """A table that this pipeline may write to, as it was when it was opened."""

    table: HoodieTable
    definition: TableDefinition
    rules: RowRules
    avro_schema: AvroSchema
    """The table's columns and those that the input adds, without meta columns."""
    row_schema: pa.Schema
    """The same as Arrow, with the delete column last if the input has it, or keys may move: the schema of the write
    tasks' rows."""
    log_block: BlockChoice
    index: BucketIndex
    """Empty in a table whose keys are looked up in a state."""
    bucket_rules: TableRules
    partitions: frozenset[str]
    """Partition paths that have their partition metadata."""
    commits: frozenset[str]
    """Request times of the completed instants whose file groups are in the index."""
    created: bool
    read_as: str = ""
    """What messages are read as: each commit keeps it for the next start, which goes on with the same columns."""

    @property
    def storage(self) -> Storage:
        """The storage of the table."""
        return self.table.storage

    @property
    def block_schema_json(self) -> str:
        """Avro schema for block headers, with meta columns."""
        return schema_json(with_meta_columns(self.avro_schema))

    def plan(
        self,
        assignment: Assignment,
        *,
        pipeline: str,
        tasks: int,
        memory_bytes: int,
        storage_options: Mapping[str, str],
        dead_letters_url: str | None = None,
    ) -> WritePlan:
        """What the write tasks of a micro-batch are given."""
        return WritePlan(
            table_url=self.storage.url,
            dead_letters_url=dead_letters_url,
            storage_options=storage_options,
            pipeline=pipeline,
            instant_time=assignment.instant_time,
            sequence=assignment.sequence,
            schema=self.row_schema,
            block_schema_json=self.block_schema_json,
            rules=self.rules,
            log_block=self.log_block,
            memory_bytes=memory_bytes,
            tasks=tasks,
            file_ids=assignment.file_ids,
            partitions=assignment.partitions,
            made_at=assignment.made_at,
            room=path_room(self.storage.url),
        )


def open_table(
    storage: Storage,
    definition: TableDefinition,
    incoming: pa.Schema,
    *,
    has_deletes: bool = False,
    log_block: LogBlock | None = None,
    evolution: Evolution = "follow",
    drop_metadata_table: Callable[[], None] | None = None,
    merge_logs: Callable[[pa.Schema], None] | None = None,
    lock: Lock = nullcontext,
    check_lease: Callable[[], None] = lambda: None,
) -> OpenTable:
    """Open the table, or create it with the incoming columns.

    `incoming`: columns after the transform, without the delete column. `log_block` None: `best_log_block`.
    `evolution`: which changes of its columns are taken.
    `drop_metadata_table`: is called after all checks; None: a table with Hudi's metadata table is refused. `merge_logs`
    ends what this pipeline left open in a table of these columns, and merges all log files into base files: is called
    before columns change in a way that no reader bridges between log files; None: such a change is refused.
    `lock` and `check_lease`: for a change of the bucket rules. Raises UnsupportedTable with every reason found,
    DuplicateFileGroup, BucketOutOfRange, BucketLayoutMismatch, SchemaError, RulesConflict, and what key rules raise for
    missing columns.
    """
    rules = check_definition(definition, incoming)
    is_global = definition.state is not None and definition.state.is_global  # a key that moves is deleted
    for warning in layout_warnings(definition, incoming, has_deletes=has_deletes or is_global, log_block=log_block):
        log.warning("table layout warning", extra={"warning": warning})
    avro = arrow_to_avro(incoming, table_name=definition.name)
    verify_create_if_absent(storage, ROOT)
    try:
        table, created = load_table(storage), False
    except TableNotFound:
        table, created = create_table(storage, definition, schema_json(avro)), True
    check_table(table, definition, metadata_table=drop_metadata_table is not None)
    has_buckets = definition.state is None
    bucket_rules = load_rules(storage, definition.buckets) if has_buckets else TableRules(BucketCounts(1))
    timeline = with_hidden(storage, Timeline.load(storage))
    _tell_if_ahead(timeline)
    stored = stored_schema(table, timeline) or avro
    comparison = _compared(storage, stored, avro, definition, evolution)
    view = load_file_view(storage, timeline)
    replaced = replaced_file_groups(storage, timeline)
    old = _in_old_logs(storage, timeline, view, replaced, comparison)
    if old or (comparison.needs_merge and timeline.pending):
        if merge_logs is not None:
            log.warning("merging all log files before columns change", extra={"columns": old or comparison.needs_merge})
            merge_logs(_columns_of(stored))
        timeline = with_hidden(storage, Timeline.load(storage))
        # What was left open, or another writer, may have changed the columns meanwhile.
        comparison = _compared(storage, stored_schema(table, timeline) or avro, avro, definition, evolution)
        view = load_file_view(storage, timeline)
        replaced = replaced_file_groups(storage, timeline)
        if old := _in_old_logs(storage, timeline, view, replaced, comparison):
            if comparison.needs_merge:
                raise LogFilesLeft(storage.url, old)
            log.error(
                "log files are older than columns of another writer: hudi-rs reads none of the table until they "
                "are compacted",
                extra={"columns": old},
            )
    files = _committed_files(view, replaced) if has_buckets else ()
    index = BucketIndex.bootstrap(files, bucket_rules.counts).avoiding(replaced if has_buckets else ())
    if not has_buckets:
        _refuse_buckets(storage, view, replaced)
    elif table.bucket_count is None:  # made by Hudi, which does not record how it hashed
        _verify_layout(sample_record_keys(storage, view, replaced), rules, bucket_rules.counts)
    verify_placement(storage, bucket_rules, rules, view, replaced)
    if drop_metadata_table is not None:
        drop_metadata_table()
    if has_buckets:
        bucket_rules = settle_rules(storage, definition, lock, check_lease)
    return OpenTable(
        table=table,
        definition=definition,
        rules=_of_table(rules, view.marked_partitions),
        avro_schema=comparison.schema,
        row_schema=_row_schema(comparison.schema, has_deletes=has_deletes or is_global),
        log_block=log_block or best_log_block(definition, _columns_of(comparison.schema)),
        index=index.with_counts(bucket_rules.counts),
        bucket_rules=bucket_rules,
        partitions=view.marked_partitions,
        commits=frozenset(instant.request_time for instant in timeline.completed_commits),
        created=created,
    )


def check_table_fits(
    storage: Storage,
    definition: TableDefinition,
    incoming: pa.Schema,
    *,
    evolution: Evolution = "follow",
    drops_metadata_table: bool = False,
) -> SchemaComparison | None:
    """Refuse most of what `open_table` would refuse, but write nothing, and take no lease and no lock. Returns how the
    columns fit the table's; None: there is no table.

    Raises as `open_table` does.
    """
    check_definition(definition, incoming)
    try:
        table = load_table(storage)
    except TableNotFound:
        return None
    check_table(table, definition, metadata_table=drops_metadata_table)
    avro = arrow_to_avro(incoming, table_name=definition.name)
    return _compared(storage, stored_schema(table, Timeline.load(storage)) or avro, avro, definition, evolution)


def check_definition(definition: TableDefinition, incoming: pa.Schema) -> RowRules:
    """Refuse, without reading storage, what no table can take; returns the rules for a row's place.

    Raises as `open_table` does.
    """
    if definition.state is not None and definition.state.is_global and definition.state.inserts == "log":
        reason = "keys that are in one partition only (global) need new keys in base files: take inserts base"
        raise UnsupportedTable("as specified", [reason])
    rules = row_rules(definition)
    check_columns(rules, incoming)
    arrow_to_avro(incoming, table_name=definition.name)
    return rules


def _of_table(rules: RowRules, partitions: Collection[str]) -> RowRules:
    """The rules with paths of as many levels as this table has them: a value of one column may have slashes."""
    depths = {path.count("/") + 1 for path in partitions}
    levels = depths.pop() if len(depths) == len(rules.partition_path.fields) == 1 else None
    return replace(rules, partition_path=replace(rules.partition_path, levels=levels))


def stored_schema(table: HoodieTable, timeline: Timeline) -> AvroSchema | None:
    """The table's columns by its newest write, with those that others added since its request: it could not see them,
    and their values would be lost. Else by its properties; None if neither has them.
    """
    found: AvroSchema | None = None
    requested = ""
    for instant in reversed(timeline.completed_commits):
        if found is not None and (instant.completion_time or "") < requested:
            break
        path = path_of(instant)
        text = CommitMetadata.decode_schema(table.storage.get(path), path)
        if text and found is None:
            found, requested = json.loads(text), instant.request_time
        elif text and found is not None:
            found = joined(found, json.loads(text))
    text = table.properties.get(_SCHEMA_PROPERTY) if found is None else None
    return json.loads(text) if text else found


def _tell_if_ahead(timeline: Timeline) -> None:
    newest = newest_time(timeline.times)
    ahead = timedelta() if newest is None else parse_time(newest) - utc_now()
    if ahead > DIFFERENCE_MAX:
        extra = {"newest_time": newest, "ahead": str(ahead)}
        log.warning("a writer's clock was ahead: times go on after the table's newest, by milliseconds", extra=extra)


def fixed_columns(definition: TableDefinition) -> tuple[str, ...]:
    """Columns whose types never change: what a row's key, place and order were made from."""
    ordering = definition.ordering_field
    return (*definition.record_key, *definition.partition_fields, *(() if ordering is None else (ordering,)))


def _compared(
    storage: Storage, stored: AvroSchema, incoming: AvroSchema, definition: TableDefinition, evolution: Evolution
) -> SchemaComparison:
    fills = definition.fills_unavailable
    comparison = compare_schemas(stored, incoming, fixed_columns(definition), fills_unavailable=fills)
    if reasons := comparison.refused_by(evolution):
        raise UnsupportedTable(storage.url, [f"schema: {reason}" for reason in reasons])
    return comparison


def _columns_of(stored: AvroSchema) -> pa.Schema:
    schema = avro_to_arrow(stored)
    return pa.schema([field for field in schema if field.name not in META_COLUMNS])


def _in_old_logs(
    storage: Storage,
    timeline: Timeline,
    view: FileView,
    replaced: Collection[tuple[str, str]],
    comparison: SchemaComparison,
) -> tuple[str, ...]:
    """What changes from the columns of a log file to those that are to be, and no reader bridges. A log file has the
    columns of its commit; those of one that is archived count as the table's.
    """
    instants = {
        each.instant
        for group in view.groups
        if group.latest is not None and (group.partition_path, group.file_id) not in replaced
        for each in group.latest.log_files
    }
    commits = [each for each in timeline.completed_commits if each.request_time in instants]
    if not instants:
        return ()
    if comparison.needs_merge and len(commits) < len(instants):
        return comparison.needs_merge
    texts = {CommitMetadata.decode_schema(storage.get(path), path) for path in map(path_of, commits)}
    schemas, fills = map(json.loads, sorted(filter(None, texts))), comparison.fills_unavailable
    found = (compare_schemas(each, comparison.schema, fills_unavailable=fills).needs_merge for each in schemas)
    return next(filter(None, found), ())


def _verify_layout(sample: Iterable[tuple[str, str, str]], rules: RowRules, counts: BucketCounts) -> None:
    samples: defaultdict[int, list[tuple[str, str]]] = defaultdict(list)
    for key, partition_path, file_id in sample:
        samples[counts.of(partition_path)].append((key, file_id))
    for buckets, pairs in samples.items():
        verify_bucket_layout(pairs, rules.record_key, buckets, rules.hash)


def _refuse_buckets(storage: Storage, view: FileView, replaced: Collection[tuple[str, str]]) -> None:
    """Raise UnsupportedTable if every file group has the id of a bucket: then Hudi's bucket index writes the table, and
    would not find rows in file groups without buckets. Few random ids look like that by chance.
    """
    groups = [each for each in view.groups if each.slices and (each.partition_path, each.file_id) not in replaced]
    numbered = [each for each in groups if each.file_id[:8].isdecimal()]
    fixed = [each for each in numbered if each.file_id == deterministic_file_id(int(each.file_id[:8]))]
    if len(numbered) == len(groups) and (fixed or len(groups) >= _GROUPS_OF_BUCKETS):
        reason = (
            f"its file groups, such as {groups[0].file_id}, have the ids of buckets: a writer with a bucket index made "
            "them; set spec.table.index.type to bucket"
        )
        raise UnsupportedTable(storage.url, [reason])


def _committed_files(view: FileView, replaced: Collection[tuple[str, str]]) -> list[tuple[str, str, str]]:
    return [
        (group.partition_path, group.file_id, str(file.name))
        for group in view.groups
        if group.latest is not None and (group.partition_path, group.file_id) not in replaced
        for file in (group.latest.base_file, *group.latest.log_files)
        if file is not None
    ]


def _row_schema(avro: AvroSchema, *, has_deletes: bool) -> pa.Schema:
    schema = avro_to_arrow(avro)
    return schema.append(pa.field(DELETE_COLUMN, pa.bool_())) if has_deletes else schema
