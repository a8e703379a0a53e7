"""Creating and opening a table: hoodie.properties, which every reader and writer reads first."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from time import sleep  # noqa: TID251 - only where a Hudi writer replaces the properties
from typing import Final, Literal, TypeAlias

from bucketingest.hudi.bucket_rules.counts import BucketRule
from bucketingest.hudi.errors import InvalidTable, TableNotFound
from bucketingest.hudi.merge.unavailable import FILL_PROPERTIES
from bucketingest.hudi.naming import HOODIE_DIRECTORY, PROPERTIES_BACKUP, PROPERTIES_PATH, TIMELINE_DIRECTORY
from bucketingest.hudi.table import properties as java_properties
from bucketingest.storage.agreement import created
from bucketingest.storage.errors import AlreadyExists, NotFound
from bucketingest.storage.forward import forward_seconds
from bucketingest.storage.interface import Storage

BUCKET_COUNT = "bucketingest.bucket.count"
BUCKET_HASH = "bucketingest.bucket.hash"
BUCKET_HASH_FIELDS = "bucketingest.bucket.hash.fields"
INDEX_TYPE = "bucketingest.index.type"
"""Our own properties: Hudi does not store how a table is bucketed, and a writer that guesses damages the table."""

REPLACEMENT_SECONDS = 10.0
"""How long `load_table` waits for properties that a Hudi writer replaces: it needs a few requests to storage."""
_LOOK_SECONDS: Final = 0.2
_INSTANT: Final = re.compile(r"\d{14,17}[._]")
"""A file of an instant, also of a timeline of older table versions, which is in `.hoodie` itself."""

EVENT_TIME_ORDERING = "EVENT_TIME_ORDERING"
COMMIT_TIME_ORDERING = "COMMIT_TIME_ORDERING"

# Constants of Hudi 1.2.0 (HoodieRecordMerger), seen in the properties of version 8 tables it wrote.
_MERGE_STRATEGY = {
    EVENT_TIME_ORDERING: "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
    COMMIT_TIME_ORDERING: "ce9acb64-bde0-424c-9b91-f6ebba25356d",
}
_PAYLOAD = {
    EVENT_TIME_ORDERING: "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
    COMMIT_TIME_ORDERING: "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
}

_FIXED = {
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.timeline.layout.version": "2",
    "hoodie.timeline.path": "timeline",
    "hoodie.timeline.history.path": "history",
    "hoodie.archivelog.folder": "history",
    "hoodie.table.format": "native",
    "hoodie.table.base.file.format": "PARQUET",
    "hoodie.table.multiple.base.file.formats.enable": "false",
    "hoodie.table.cdc.enabled": "false",
    "hoodie.populate.meta.fields": "true",
    "hoodie.partition.metafile.use.base.format": "false",
    "hoodie.datasource.write.drop.partition.columns": "false",
    "hoodie.datasource.write.partitionpath.urlencode": "false",
}
"""Properties that are the same in every table of Hudi 1.2.0's Spark writer with default options, version 8 or 9."""


STATE_INDEX = "state"
"""Value of `INDEX_TYPE` in a table whose keys are looked up in a state; one with buckets has no such property."""
GLOBAL_INDEX = "state/global"
"""The same where a key is in one partition only: to a release that does not know it, the table has an unknown index."""


InsertMode: TypeAlias = Literal["base", "log"]
"""New keys go into base files of new file groups, or into log files, which also fill groups that have room."""


@dataclass(frozen=True, slots=True)
class StateRules:
    """How an index with a state gives new keys their file groups."""

    target_bytes: int = 128 * 1024**2
    """Bytes that a file group should get."""
    report_duplicates: bool = False
    """Whether keys that another writer put into two file groups are only reported; else such a table is refused."""
    inserts: InsertMode = "base"
    """Hudi's BLOOM and SIMPLE indexes do not look into log files."""
    is_global: bool = False
    """Whether a key is in one partition of the table only; else it may be in each."""


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """What a table must be: used to create it, and to check an existing one.

    `hash_fields` defaults to the record key. `properties` are further hoodie.* table properties; they may not
    contradict the other fields. `version` is Hudi's table version, 8 or 9.
    """

    name: str
    record_key: tuple[str, ...]
    partition_fields: tuple[str, ...] = ()
    ordering_field: str | None = None
    buckets: int = 1
    bucket_rules: tuple[BucketRule, ...] | None = None
    """Rules for partitions to come; None: the table's own stay."""
    hash: str = "hudi"
    hash_fields: tuple[str, ...] = ()
    state: StateRules | None = None
    """None: the table has a bucket index."""
    version: int = 9
    hive_style_partitioning: bool = False
    database: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    fills_unavailable: bool = False
    """Whether readers fill placeholders, see `hudi.merge.unavailable`."""

    @property
    def effective_hash_fields(self) -> tuple[str, ...]:
        """Fields whose values decide the bucket."""
        return self.hash_fields or self.record_key

    @property
    def key_generator_type(self) -> str:
        """Value of hoodie.table.keygenerator.type that Hudi 1.2.0's Spark writer infers for these fields.

        NON_PARTITION without partition fields; SIMPLE for one key field and one partition field; else COMPLEX.
        """
        if not self.partition_fields:
            return "NON_PARTITION"
        return "SIMPLE" if len(self.record_key) == 1 and len(self.partition_fields) == 1 else "COMPLEX"

    @property
    def merge_mode(self) -> str:
        """Value of hoodie.record.merge.mode."""
        return EVENT_TIME_ORDERING if self.ordering_field else COMMIT_TIME_ORDERING


@dataclass(frozen=True, slots=True)
class HoodieTable:
    """A table that exists: its storage and the properties read from it."""

    storage: Storage
    properties: Mapping[str, str]

    @property
    def name(self) -> str:
        """Value of hoodie.table.name."""
        return self.properties["hoodie.table.name"]

    @property
    def version(self) -> int:
        """Table version: 8 or 9 for tables that passed the checks."""
        return int(self.properties["hoodie.table.version"])

    @property
    def bucket_count(self) -> int | None:
        """Bucket count that we recorded when we created the table; None in a table that Hudi created."""
        text = self.properties.get(BUCKET_COUNT)
        return int(text) if text is not None else None

    @property
    def has_state(self) -> bool:
        """Whether we created the table with an index with a state."""
        return self.properties.get(INDEX_TYPE) in (STATE_INDEX, GLOBAL_INDEX)


def table_properties(definition: TableDefinition, schema: str | None = None) -> dict[str, str]:
    """hoodie.properties of a new table.

    `schema` is the table's Avro schema as JSON without meta columns; with it an empty table can be read. The rest is,
    key by key, what Hudi 1.2.0's Spark writer stores (tests compare with properties it wrote), apart from: the time
    zone UTC instead of LOCAL, so that writers in different zones agree; for version 8 hoodie.table.precombine.field,
    which Hudi 1.0 readers need; and our own record of the buckets. Raises `InvalidTable` if `definition.properties`
    contradict it or the version is neither 8 nor 9.
    """
    if definition.version not in (8, 9):
        raise InvalidTable(f"table {definition.name}: table version {definition.version} cannot be created, use 8 or 9")
    result = dict(_FIXED)
    result |= {
        "hoodie.table.name": definition.name,
        "hoodie.table.version": str(definition.version),
        "hoodie.table.initial.version": str(definition.version),
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.table.checksum": java_properties.checksum(definition.database, definition.name),
        "hoodie.table.recordkey.fields": ",".join(definition.record_key),
        "hoodie.table.partition.fields": ",".join(definition.partition_fields),
        "hoodie.table.keygenerator.type": definition.key_generator_type,
        "hoodie.table.partition_extractor_class": _partition_extractor(definition),
        "hoodie.datasource.write.hive_style_partitioning": str(definition.hive_style_partitioning).lower(),
        "hoodie.record.merge.mode": definition.merge_mode,
    }
    result |= _index_properties(definition)
    if definition.fills_unavailable:
        result |= FILL_PROPERTIES
    if definition.database:
        result["hoodie.database.name"] = definition.database
    if definition.ordering_field:
        result["hoodie.table.ordering.fields"] = definition.ordering_field
    if definition.version == 8:
        result |= _version_8_properties(definition)
    if schema is not None:
        result["hoodie.table.create.schema"] = schema
    for key, value in definition.properties.items():
        if result.setdefault(key, value) != value:
            raise InvalidTable(
                f"table {definition.name}: property {key} is {value!r} but the definition makes it {result[key]!r}: "
                "leave it out"
            )
    return result


def _index_properties(definition: TableDefinition) -> dict[str, str]:
    if definition.state is not None:
        return {INDEX_TYPE: GLOBAL_INDEX if definition.state.is_global else STATE_INDEX}
    return {
        BUCKET_COUNT: str(definition.buckets),
        BUCKET_HASH: definition.hash,
        BUCKET_HASH_FIELDS: ",".join(definition.effective_hash_fields),
    }


def _version_8_properties(definition: TableDefinition) -> dict[str, str]:
    result = {
        "hoodie.record.merge.strategy.id": _MERGE_STRATEGY[definition.merge_mode],
        "hoodie.compaction.payload.class": _PAYLOAD[definition.merge_mode],
    }
    if definition.ordering_field:
        result["hoodie.table.precombine.field"] = definition.ordering_field
    return result


def _partition_extractor(definition: TableDefinition) -> str:
    name = "MultiPartKeysValueExtractor"
    if len(definition.partition_fields) == 1:
        hive = definition.hive_style_partitioning
        name = "HiveStylePartitionValueExtractor" if hive else "SinglePartPartitionValueExtractor"
    return f"org.apache.hudi.hive.{name}"


def create_table(storage: Storage, definition: TableDefinition, schema: str | None = None) -> HoodieTable:
    """Create the table, or open it if it exists: of two jobs that create it concurrently, one creates and the other
    opens.

    The caller checks afterwards, in both cases, that the table is as defined (`check_table`). Raises as `load_table`
    where a table's properties are missing: they may say something else than the definition.
    """
    text = java_properties.serialise(table_properties(definition, schema), ("Properties of a Hudi table",))
    with suppress(TableNotFound):
        return load_table(storage)
    # Hudi's readers fail on a table without a timeline directory, and it would not exist until the first instant. The
    # file that creates it comes first; every reader ignores its name, because no instant has such a name.
    if not created(storage, f"{TIMELINE_DIRECTORY}/.keep", b""):  # another job was here: that look may be old by now
        with suppress(TableNotFound):
            return load_table(storage)
    with suppress(AlreadyExists):
        storage.create(PROPERTIES_PATH, text.encode("ascii"))
    return load_table(storage)


def load_table(storage: Storage) -> HoodieTable:
    """Open an existing table. While a Hudi writer replaces its properties, this waits for the new ones.

    Raises `TableNotFound` if there is nothing of a table; `InvalidTable` if there is, but its properties are missing or
    lack name, type or version.
    """
    deadline = forward_seconds() + REPLACEMENT_SECONDS
    while True:
        try:
            return HoodieTable(storage, _whole_properties(storage))
        except NotFound as error:
            problem = _missing(storage)
            if problem is None and not storage.exists(PROPERTIES_PATH):
                raise TableNotFound(
                    f"{storage.url} is not a Hudi table: {PROPERTIES_PATH} is missing; check the path"
                ) from error
        except InvalidTable as error:
            if not storage.exists(PROPERTIES_BACKUP):
                raise
            problem = error
        if problem is not None and forward_seconds() >= deadline:
            raise problem
        sleep(_LOOK_SECONDS)


def _whole_properties(storage: Storage) -> dict[str, str]:
    # Java reads and writes these files in ISO 8859-1; characters beyond are escaped.
    loaded = java_properties.parse(storage.get(PROPERTIES_PATH).decode("iso-8859-1"))
    for key in ("hoodie.table.name", "hoodie.table.type", "hoodie.table.version"):
        if not loaded.get(key):
            raise InvalidTable(f"{storage.url}/{PROPERTIES_PATH} has no {key}: the file is torn; restore it")
    if not loaded["hoodie.table.version"].isdecimal():
        raise InvalidTable(
            f"{storage.url}/{PROPERTIES_PATH}: hoodie.table.version is {loaded['hoodie.table.version']!r}, not a number"
        )
    return loaded


def _missing(storage: Storage) -> InvalidTable | None:
    """What to do about a table whose properties are missing; None if there is no table.

    Hudi 1.2.0 replaces the file in steps (HoodieTableConfig.modify): backup, deletion, new file, deletion of the
    backup. Its readers take the backup meanwhile. A writer must not: it does not have what is just being changed.
    """
    if storage.exists(PROPERTIES_BACKUP):
        return InvalidTable(
            f"{storage.url}: {PROPERTIES_PATH} is missing, and {PROPERTIES_BACKUP} is there: a Hudi writer replaces "
            "the file, or died meanwhile. Start again; if no writer is at work, copy the backup to the file"
        )
    listed = (*storage.list_level(TIMELINE_DIRECTORY).objects, *storage.list_level(HOODIE_DIRECTORY).objects)
    instant = next((info.path for info in listed if _INSTANT.match(info.path.rpartition("/")[2])), None)
    if instant is None:
        return None
    return InvalidTable(
        f"{storage.url}: {PROPERTIES_PATH} is missing, but {instant} is there: this is a table without its properties, "
        "and new ones could contradict its files. Restore the file (an earlier version of the object, or a copy), or "
        "use another path"
    )
