"""Why a table must not be written to: each silent way to damage or hide rows becomes a reason with a remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from itertools import chain

from bucketingest.hudi.bucket_rules.hashing_config import BUCKET_INDEX_DIRECTORY, PARTITION_INDEX_DIRECTORY
from bucketingest.hudi.errors import UnsupportedTable
from bucketingest.hudi.merge.unavailable import fills_unavailable
from bucketingest.hudi.naming import PROPERTIES_PATH, TIMELINE_DIRECTORY
from bucketingest.hudi.table.metadata_table import switched_on
from bucketingest.hudi.table.properties import checksum
from bucketingest.hudi.table.table import (
    BUCKET_COUNT,
    BUCKET_HASH,
    BUCKET_HASH_FIELDS,
    GLOBAL_INDEX,
    INDEX_TYPE,
    STATE_INDEX,
    HoodieTable,
    TableDefinition,
    load_table,
)
from bucketingest.hudi.table.time_zone import offset_from_utc
from bucketingest.storage import Storage

SUPPORTED_VERSIONS = (8, 9)

_Properties = Mapping[str, str]

_REQUIRED_VALUES: dict[str, tuple[str, str | None, str]] = {
    # key: (value we need, value that an absent key means or None if it must be there, what to do)
    "hoodie.table.type": ("MERGE_ON_READ", None, "write to a merge-on-read table, or to a new path"),
    "hoodie.timeline.layout.version": ("2", None, "upgrade the table with Hudi's upgrade command"),
    "hoodie.timeline.path": ("timeline", "timeline", "a moved timeline is not supported"),
    "hoodie.timeline.history.path": ("history", "history", "a moved history is not supported"),
    "hoodie.table.format": ("native", "native", "only Hudi's native format is supported"),
    "hoodie.table.base.file.format": ("PARQUET", "PARQUET", "only Parquet base files are supported"),
    "hoodie.table.log.file.format": ("HOODIE_LOG", "HOODIE_LOG", "only Hudi's inline log format is supported"),
    "hoodie.table.multiple.base.file.formats.enable": ("false", "false", "only Parquet base files are supported"),
    "hoodie.table.cdc.enabled": (
        "false",
        "false",
        "this writer keeps no change log; switch CDC off or use a new table",
    ),
    "hoodie.populate.meta.fields": ("true", "true", "the index needs the meta columns; use a table that has them"),
    "hoodie.partition.metafile.use.base.format": (
        "false",
        "false",
        "partitions marked by Parquet files are not supported",
    ),
    "hoodie.datasource.write.drop.partition.columns": (
        "false",
        "false",
        "this writer keeps partition columns in the files",
    ),
    "hoodie.datasource.write.partitionpath.urlencode": (
        "false",
        "false",
        "Hudi's Spark reader shows encoded values in incremental queries",
    ),
}


def refusals(properties: _Properties, expected: TableDefinition) -> list[str]:
    """Every reason why a table with these properties must not be written to as `expected`; empty if none. Pure.

    Each reason says what was found, where, and what to do.
    """
    reasons = chain.from_iterable(check(properties, expected) for check in _CHECKS)
    return [*version_refusals(properties), *(f"{PROPERTIES_PATH}: {reason}" for reason in reasons)]


def metadata_table_refusals(properties: _Properties) -> list[str]:
    """Reason to refuse a table whose metadata table is on; check again, with fresh properties, before every commit."""
    return [f"{PROPERTIES_PATH}: {reason}" for reason in _metadata_table(properties)]


def version_refusals(properties: _Properties) -> list[str]:
    """Reason to refuse a table whose version this release does not know: to write, to roll back, or to judge. Pure."""
    found = properties.get("hoodie.table.version", "")
    if found in map(str, SUPPORTED_VERSIONS):
        return []
    if found.isdecimal() and int(found) < min(SUPPORTED_VERSIONS):
        remedy = "upgrade it with Hudi's upgrade_table procedure"
    else:
        remedy = (
            "a newer Hudi writer has upgraded it, which it does by default. With that release of "
            f"Hudi run CALL downgrade_table(table => '{properties.get('hoodie.table.name', 'NAME')}', to_version => "
            "'NINE'), and set hoodie.write.auto.upgrade=false and hoodie.write.table.version=9 in every Hudi writer; "
            "or use a release of bucketingest that knows this version"
        )
    reason = (
        f"{PROPERTIES_PATH}: hoodie.table.version={found}: this release knows only table versions 8 and 9; {remedy}"
    )
    return [reason]


def refuse_changed_table(storage: Storage) -> None:
    """Raise `UnsupportedTable` if another writer has upgraded the table, or switched its metadata table on."""
    properties = load_table(storage).properties
    if reasons := [*version_refusals(properties), *metadata_table_refusals(properties)]:
        raise UnsupportedTable(storage.url, reasons)


def check_table(table: HoodieTable, expected: TableDefinition, *, metadata_table: bool = False) -> None:
    """Raise `UnsupportedTable` with all reasons unless the table can be written to as `expected`. `metadata_table`:
    whether it may have Hudi's metadata table.
    """
    reasons = refusals(table.properties, expected)
    if metadata_table:
        ignored = metadata_table_refusals(table.properties)
        reasons = [reason for reason in reasons if reason not in ignored]
    reasons.extend(
        f"{path} exists: another writer gave the table a bucket index, such as consistent hashing, whose buckets this "
        "writer cannot compute; use a table with the simple or the partition-level bucket index"
        for path in table.storage.list_level(BUCKET_INDEX_DIRECTORY).directories
        if path != PARTITION_INDEX_DIRECTORY
    )
    reasons.extend(_local_time_zone(table))
    if reasons:
        raise UnsupportedTable(table.storage.url, reasons)


def _local_time_zone(table: HoodieTable) -> Iterator[str]:
    """LOCAL, the default of Hudi's writers, is the zone of each writer's JVM, usually UTC.

    Our writers use UTC, so a table is refused only if its files show another zone: times would go back.
    """
    if table.properties.get("hoodie.table.timeline.timezone", "LOCAL").upper() != "LOCAL":
        return
    offset = offset_from_utc(table.storage.list_level(TIMELINE_DIRECTORY).objects)
    if offset:
        hours = offset / timedelta(hours=1)
        yield (
            f"{PROPERTIES_PATH}: hoodie.table.timeline.timezone=LOCAL and the instants in {TIMELINE_DIRECTORY} are "
            f"{hours:+g} hours from UTC: this writer uses UTC, so times would not increase; run the other writers "
            "in UTC (user.timezone) and wait until the clock has passed the newest instant, or use a new table"
        )


def _metadata_table(properties: _Properties, _expected: TableDefinition | None = None) -> Iterator[str]:
    # Seen with Hudi 1.2.0: its readers take the list of files only from the metadata table.
    for key, found in switched_on(properties).items():
        yield (
            f"{key}={found}: Hudi's metadata table is on and would hide our commits from readers; let every writer set "
            "hoodie.metadata.enable=false, and set table.metadataTable to drop"
        )


def _required_values(properties: _Properties, _expected: TableDefinition) -> Iterator[str]:
    for key, (needed, default, remedy) in _REQUIRED_VALUES.items():
        found = properties.get(key, default)
        if found is None:
            yield f"{key} is missing, it must be {needed}; {remedy}"
        elif found.upper() != needed.upper():
            yield f"{key}={found}, it must be {needed}; {remedy}"


def _checksum(properties: _Properties, _expected: TableDefinition) -> Iterator[str]:
    found = properties.get("hoodie.table.checksum")
    right = checksum(properties.get("hoodie.database.name", ""), properties.get("hoodie.table.name", ""))
    if found is not None and found != right:
        yield (
            f"hoodie.table.checksum={found}, but database and table name give {right}: the file was edited or torn; "
            "restore hoodie.table.name and hoodie.database.name, or the file from .hoodie/hoodie.properties.backup"
        )


def _keys(properties: _Properties, expected: TableDefinition) -> Iterator[str]:
    for key, words, fields in (
        ("hoodie.table.recordkey.fields", "record key", expected.record_key),
        ("hoodie.table.partition.fields", "partition fields", expected.partition_fields),
    ):
        found = _fields(properties.get(key, ""))
        if found != fields:
            yield (
                f"{key}={','.join(found) or '(none)'}, but the spec's {words}: {','.join(fields) or '(none)'}; they "
                "cannot change in a table's life: set the table's own, or use a new table"
            )
    generator = properties.get("hoodie.table.keygenerator.type")
    if generator is not None and generator.upper() != expected.key_generator_type:
        yield (
            f"hoodie.table.keygenerator.type={generator}, but the record keys of these fields would be made by "
            f"{expected.key_generator_type}: the same row would get another key; use a new table"
        )
    hive_style = properties.get("hoodie.datasource.write.hive_style_partitioning", "false").lower()
    wanted = str(expected.hive_style_partitioning).lower()
    if expected.partition_fields and hive_style != wanted:
        yield (
            f"hoodie.datasource.write.hive_style_partitioning={hive_style}, the spec has {wanted}: rows would go to "
            "other partitions; set the table's own"
        )


def _ordering(properties: _Properties, expected: TableDefinition) -> Iterator[str]:
    ordering = properties.get("hoodie.table.ordering.fields") or properties.get("hoodie.table.precombine.field") or ""
    wanted = (expected.ordering_field,) if expected.ordering_field else ()
    if _fields(ordering) != wanted:
        yield (
            f"hoodie.table.ordering.fields={ordering or '(none)'}, but the spec's ordering field: "
            f"{expected.ordering_field or '(none)'}; readers merge by the table's own: set that"
        )
    mode = properties.get("hoodie.record.merge.mode")
    if mode != expected.merge_mode:
        yield (
            f"hoodie.record.merge.mode={mode or '(missing)'}, but the spec needs {expected.merge_mode}; "
            "readers merge by the table's own mode, and fail without one"
        )
    partial = properties.get("hoodie.table.partial.update.mode", "")
    fills = fills_unavailable(properties)
    if expected.fills_unavailable != fills and (fills or not partial):
        was, now = ("deadLetter", "keep") if expected.fills_unavailable else ("keep", "deadLetter")
        yield (
            f"hoodie.table.partial.update.mode={partial or '(none)'}: the table is one of format.envelope.unavailable "
            f"{was}, the spec has {now}: readers of it would not see the right values; set {was}, or use a new table"
        )
    elif partial and not fills:
        yield f"hoodie.table.partial.update.mode={partial}: partial updates are not supported; use another table"


def _index(properties: _Properties, expected: TableDefinition) -> Iterator[str]:
    found = "bucket" if BUCKET_COUNT in properties else properties.get(INDEX_TYPE)
    wanted = "bucket" if expected.state is None else GLOBAL_INDEX if expected.state.is_global else STATE_INDEX
    if {found, wanted} == {STATE_INDEX, GLOBAL_INDEX}:
        was = str(found == GLOBAL_INDEX).lower()
        yield (
            f"the table was made with table.index.global {was}, the spec has another: rows of a key would be in two "
            "partitions, or one would be deleted; set the table's own, or use a new table"
        )
    elif found is not None and found != wanted:
        yield (
            f"the table was made with an index of type {found}, the spec has table.index.type {wanted}: rows would go "
            "to other file groups than their earlier versions; set the table's own, or use a new table"
        )


def _buckets(properties: _Properties, expected: TableDefinition) -> Iterator[str]:
    if expected.state is not None or INDEX_TYPE in properties:
        return
    if BUCKET_COUNT not in properties:
        # Hudi made the table: its hash is the only one Hudi's writers know. The count is checked against rows.
        if expected.hash != "hudi":
            yield (
                f"no {BUCKET_HASH}: another writer made the table, so its keys are hashed as Hudi does, but the spec "
                f"has hash {expected.hash}; set hash hudi"
            )
        return
    wanted = {
        BUCKET_COUNT: str(expected.buckets),
        BUCKET_HASH: expected.hash,
        BUCKET_HASH_FIELDS: ",".join(expected.effective_hash_fields),
    }
    for key, value in wanted.items():
        if properties.get(key) != value:
            yield (
                f"{key}={properties.get(key, '(missing)')}, the spec has {value}: rows would go to other file groups "
                "than their earlier versions; set the table's own, or rewrite the rows into a new table"
            )


def _others(properties: _Properties, _expected: TableDefinition) -> Iterator[str]:
    bootstrap = properties.get("hoodie.bootstrap.base.path", "")
    if bootstrap:
        yield f"hoodie.bootstrap.base.path={bootstrap}: bootstrapped tables are not supported; use a new table"
    zone = properties.get("hoodie.table.timeline.timezone", "LOCAL")
    if zone.upper() not in {"LOCAL", "UTC"}:
        yield f"hoodie.table.timeline.timezone={zone}: only UTC and LOCAL are known"


def _fields(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


_CHECKS: tuple[Callable[[_Properties, TableDefinition], Iterator[str]], ...] = (
    _required_values,
    _checksum,
    _metadata_table,
    _keys,
    _ordering,
    _index,
    _buckets,
    _others,
)
