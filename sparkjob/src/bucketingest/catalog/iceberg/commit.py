"""Makes the Iceberg table in its catalog, and commits the difference between its files and the table's base files.

One snapshot adds and removes. The Iceberg table is loaded first and the timeline after it, and a commit of anyone else
in between makes ours fail: so no older look at the table ever replaces a newer one, and whatever a crash left is one
more difference.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from typing import Any, Final

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    NoSuchIcebergTableError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValidationError,
)
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import DataFileContent, FileFormat, ManifestContent
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import assign_fresh_schema_ids
from pyiceberg.table import Table, TableProperties, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot, ancestors_of
from pyiceberg.table.update.snapshot import ExpireSnapshots
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record

from bucketingest.catalog.changes import same_place
from bucketingest.catalog.errors import CatalogRefused, CatalogUnavailable
from bucketingest.catalog.iceberg.base_files import base_files, row_counts
from bucketingest.catalog.iceberg.columns import identity_columns, partition_record, wanted_schema
from bucketingest.catalog.iceberg.difference import delete_unused, replace_files
from bucketingest.catalog.iceberg.opening import opened
from bucketingest.catalog.iceberg.target import IcebergTarget
from bucketingest.catalog.sync import Changes
from bucketingest.catalog.table_state import TableState
from bucketingest.errors import BucketIngestError
from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.table.file_view import DataFile
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.redaction import redacted
from bucketingest.storage.interface import Storage

log = logging.getLogger(__name__)

OURS: Final = "bucketingest.table"
"""Property of the Iceberg table: location of the Hudi table."""
INSTANT: Final = "bucketingest.instant"
"""In a snapshot's summary: the newest Hudi instant that had completed, by request time."""
SNAPSHOTS_MAX: Final = 100
_GUARDS: Final = {
    "gc.enabled": "false",  # an engine that expires snapshots or purges must not delete the Hudi table's files
    TableProperties.COMMIT_NUM_RETRIES: "0",  # PyIceberg would repeat our difference on another snapshot
}
"""Properties that are set again if someone changed them."""
_PROPERTIES: Final = {
    **_GUARDS,
    TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true",
    TableProperties.METADATA_PREVIOUS_VERSIONS_MAX: "20",
}
_AGAIN: Final = "take it off with `bucketingest sync FILE --drop`, which deletes no data, and sync again"


def sync_base_files(
    storage: Storage,
    state: TableState,
    target: IcebergTarget,
    paths: Collection[str] | None,
    *,
    dry_run: bool,
    check: bool = False,
) -> Changes:
    """See `Target.sync`."""
    changes = Changes()
    with _asking(target) as catalog:
        table = _find(catalog, target, state.facts.location)
        schema = wanted_schema(state.facts.schema)
        if table is None:
            paths = None
            changes.created.append(target.name)
            if not dry_run:
                table = _create(catalog, target, state, schema)
        timeline = Timeline.load(storage)
        if timeline.completed_commits != state.commits:  # files may have columns that are newer than that look
            state = TableState.read(storage) or state
            schema = wanted_schema(state.facts.schema)
        wanted = base_files(storage, timeline, paths)
        there = [] if table is None else _files(table, target, storage.url, paths)
        count = Counter(path for path, _ in there)  # an engine can have added a file again, and its rows
        right = {path for path in wanted if count[path] == 1}
        if table is None:  # a look only
            changes.files_added = len(wanted)
            return changes
        if (fields := [each.name for each in table.spec().fields]) != list(identity_columns(state, schema)):
            raise CatalogRefused(f"{target.label}: is partitioned by {fields or 'nothing'}, the table not: {_AGAIN}")
        spec = table.spec().spec_id
        if check:
            made = _iceberg_files(storage, timeline, state, list(wanted.values()), spec=spec, schema=schema)
            facts = {path: _facts(file) for path, file in zip(wanted, made, strict=True)}
            right -= {path for path, file in there if path in facts and _facts(file) != facts[path]}
        new = [file for path, file in wanted.items() if path not in right]
        gone = [file for path, file in there if path not in right]
        changes.files_added, changes.files_removed = len(new), len(gone)
        transaction = table.transaction()
        if _evolve(transaction, schema, target) and not changes.created:
            changes.altered.append(target.name)
        if dry_run:
            return changes
        if guards := dict(_GUARDS.items() - table.properties.items()):
            transaction.set_properties(guards)
        if new or gone:
            made = _iceberg_files(storage, timeline, state, new, spec=spec, schema=schema)
            newest = max(each.request_time for each in timeline.completed_commits)
            replace_files(transaction, made, gone, {INSTANT: newest})
        expired = _expired(transaction.table_metadata, utc_now(), target.kept_for)
        unused = _only_of(transaction.table_metadata, table.io, expired)
        if expired:
            ExpireSnapshots(transaction).by_ids([each.snapshot_id for each in expired]).commit()
        transaction.commit_transaction()
        delete_unused(table.io, unused)  # what a crash leaves of these stays
    return changes


def drop_table(location: str, target: IcebergTarget, *, dry_run: bool) -> Changes:
    """See `Target.drop`. The metadata's files stay too."""
    changes = Changes()
    with _asking(target) as catalog:
        if _find(catalog, target, location) is not None:
            changes.dropped.append(target.name)
            if not dry_run:
                catalog.drop_table(_identifier(target))
    return changes


def _identifier(target: IcebergTarget) -> tuple[str, str]:
    return (target.entry.database, target.name)


@contextmanager
def _asking(target: IcebergTarget) -> Iterator[Catalog]:
    """The catalog. PyIceberg hands on the errors of four catalogs' clients and of several file systems."""
    try:
        with closing(opened(target.entry)) as catalog:
            yield catalog
    except BucketIngestError:
        raise
    except NoSuchNamespaceError as error:
        raise CatalogRefused(f"{target.label}: there is no database {target.entry.database}: create it") from error
    except (NoSuchIcebergTableError, TableAlreadyExistsError) as error:
        raise CatalogRefused(f"{target.label}: is there already, and is no Iceberg table: {_OTHER_NAME}") from error
    except Exception as error:
        raise CatalogUnavailable(f"{target.label}: {type(error).__name__}: {redacted(str(error))}") from error


_OTHER_NAME: Final = (
    "give this table another name there (the catalog's field table in spec.catalogs), or drop that one by hand"
)


def _find(catalog: Catalog, target: IcebergTarget, location: str) -> Table | None:
    try:
        table = catalog.load_table(_identifier(target))
    except NoSuchIcebergTableError:
        raise
    except NoSuchTableError:
        return None
    found = table.properties.get(OURS)
    if found is None:
        raise CatalogRefused(f"{target.label}: is there already, and not made by bucketingest: {_OTHER_NAME}")
    if not same_place(found, location):
        raise CatalogRefused(f"{target.label}: is made of {found}, not of {location}: {_OTHER_NAME}")
    return table


def _create(catalog: Catalog, target: IcebergTarget, state: TableState, schema: pa.Schema) -> Table:
    fresh = assign_fresh_schema_ids(Catalog._convert_schema_if_needed(schema))  # noqa: SLF001 - as create_table does
    fields = [
        PartitionField(fresh.find_field(name).field_id, 1000 + place, IdentityTransform(), name)
        for place, name in enumerate(identity_columns(state, schema))
    ]
    properties = {**_PROPERTIES, OURS: state.facts.location}
    table = catalog.create_table(
        _identifier(target), fresh, partition_spec=PartitionSpec(*fields), properties=properties
    )
    log.info("iceberg table created", extra={"catalog": target.label, "location": table.location()})
    return table


def _files(
    table: Table, target: IcebergTarget, url: str, paths: Collection[str] | None
) -> list[tuple[str, IcebergFile]]:
    """The files of the newest snapshot, with their path in the table; of these partitions or of all."""
    snapshot = table.current_snapshot()
    if snapshot is None:
        return []
    prefix = f"{_iceberg_url(url)}/"
    manifests = snapshot.manifests(table.io)
    if any(each.content != ManifestContent.DATA for each in manifests):
        raise CatalogRefused(f"{target.label}: another writer deleted rows in it, and base files have them: {_AGAIN}")
    entries = (entry for manifest in manifests for entry in manifest.fetch_manifest_entry(table.io))
    found = ((entry.data_file.file_path.removeprefix(prefix), entry.data_file) for entry in entries)
    return [(path, file) for path, file in found if paths is None or path.rpartition("/")[0] in paths]


def _iceberg_url(url: str) -> str:
    """As every engine takes it."""
    scheme, found, rest = url.partition("://")
    if not found:
        return f"file://{url}"
    return f"s3://{rest}" if scheme in {"s3a", "s3n"} else url


def _evolve(transaction: Transaction, schema: pa.Schema, target: IcebergTarget) -> bool:
    """Add new columns, widen types, and let readers find columns by name: whether there was something to do.

    The base files have no ids of Iceberg's; a column that the table has no more stays.
    """
    before = transaction.table_metadata
    try:
        with transaction.update_schema() as update:
            update.union_by_name(schema)
    except (ValidationError, ValueError) as error:
        raise CatalogRefused(
            f"{target.label}: Iceberg does not take a change of the columns: {error}; {_AGAIN}"
        ) from error
    mapping = transaction.table_metadata.schema().name_mapping
    if transaction.table_metadata.name_mapping() != mapping:
        transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: mapping.model_dump_json()})
    return transaction.table_metadata.schema() != before.schema()


def _iceberg_files(
    storage: Storage, timeline: Timeline, state: TableState, files: list[DataFile], *, spec: int, schema: pa.Schema
) -> list[IcebergFile]:
    """Without ranges of values: engines find those in the files' footers."""
    url, rows = _iceberg_url(storage.url), row_counts(storage, timeline, files)
    partitions: Mapping[str, Record] = {
        path: Record(*partition_record(state, schema, path)) for path in {file.partition_path for file in files}
    }
    common: dict[str, Any] = {
        "content": DataFileContent.DATA,
        "file_format": FileFormat.PARQUET,
        "spec_id": spec,
    }
    return [
        IcebergFile.from_args(
            **common,
            file_path=f"{url}/{file.path}",
            partition=partitions[file.partition_path],
            record_count=rows[file.path],
            file_size_in_bytes=file.size,
        )
        for file in files
    ]


def _facts(file: IcebergFile) -> tuple[Any, ...]:
    """What the metadata says of a file, beside its path: engines count and skip by it."""
    return (file.record_count, file.file_size_in_bytes, file.partition)


def _expired(metadata: TableMetadata, now: datetime, kept_for: timedelta) -> list[Snapshot]:
    """Snapshots that no reader may use any more: half of the time is over for which a clean keeps their files since the
    next snapshot superseded them, or there are too many. One with a name stays.
    """
    named = {ref.snapshot_id for ref in metadata.refs.values()}
    superseded = {each.parent_snapshot_id: each.timestamp_ms / 1000 for each in metadata.snapshots}
    limit = (now - kept_for / 2).timestamp()
    newest = sorted(metadata.snapshots, key=lambda each: each.sequence_number or 0)[-SNAPSHOTS_MAX:]
    return [
        each
        for each in metadata.snapshots
        if each.snapshot_id not in named and (superseded.get(each.snapshot_id, limit) <= limit or each not in newest)
    ]


def _only_of(metadata: TableMetadata, io: FileIO, expired: list[Snapshot]) -> set[str]:
    """Files of metadata that only these snapshots have: a manifest that the next snapshot lacks is in no later one.

    None if someone named a snapshot, or went back to an older one: those that are kept may share them.
    """
    line = {each.snapshot_id for each in ancestors_of(metadata.current_snapshot(), metadata)}
    if len(metadata.refs) > 1 or any(each.snapshot_id not in line for each in metadata.snapshots):
        return set()
    files: set[str] = set()
    for snapshot in expired:
        for newer in (each for each in metadata.snapshots if each.parent_snapshot_id == snapshot.snapshot_id):
            kept = {manifest.manifest_path for manifest in newer.manifests(io)}
            files |= {each.manifest_path for each in snapshot.manifests(io)} - kept
            files.add(snapshot.manifest_list)
    return files
