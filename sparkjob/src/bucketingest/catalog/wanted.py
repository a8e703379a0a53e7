"""What a catalog should hold of a table: three tables over the same files, as Hudi's own sync registers them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import unquote

from bucketingest.catalog.columns import Column, hive_columns, spark_json
from bucketingest.catalog.errors import CatalogRefused
from bucketingest.hudi.table.schema import AvroSchema, with_meta_columns

OUTPUT_FORMAT: Final = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat"
SERDE: Final = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
HUDI_FORMATS: Final = "org.apache.hudi.hadoop."
_SNAPSHOT: Final = f"{HUDI_FORMATS}realtime.HoodieParquetRealtimeInputFormat"
_READ_OPTIMIZED: Final = f"{HUDI_FORMATS}HoodieParquetInputFormat"

SYNCED_TIMES: Final = ("last_commit_time_sync", "last_commit_completion_time_sync")
"""Parameters by which Hudi's sync knows up to which instant every partition is registered."""
_VERSION: Final = "hudi_writer_version"
KEPT: Final = (*SYNCED_TIMES, _VERSION)
"""Parameters that are set once and then left alone: each change is a version of the table in Glue."""
_TEXT_MAX: Final = 4000
"""Characters of one parameter in Hive's databases."""

Views = Literal["all", "snapshot", "readOptimized"]
Values = tuple[str, ...]
"""A partition's values, as text."""


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What the table's own files say of it."""

    location: str
    """Base path, as Hadoop writes it."""
    schema: AvroSchema
    """Without meta columns."""
    partition_fields: tuple[str, ...] = ()
    synced: tuple[str, str] | None = None
    """Request and completion time of the newest commit whose partitions are all known here."""


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """One table of a catalog, wanted or found."""

    name: str
    location: str
    input_format: str
    columns: tuple[Column, ...]
    partition_keys: tuple[Column, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    serde_parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CatalogPartition:
    """A partition as it is registered."""

    location: str
    input_format: str
    columns: tuple[Column, ...]


def wanted_tables(facts: TableFacts, name: str, views: Views) -> tuple[CatalogTable, ...]:
    """The tables that should be registered under this name: NAME, and with `all` also NAME_rt and NAME_ro."""
    match views:
        case "snapshot":
            return (_table(facts, name, read_optimized=False),)
        case "readOptimized":
            return (_table(facts, name, read_optimized=True),)
    return (
        _table(facts, f"{name}_ro", read_optimized=True),
        _table(facts, f"{name}_rt", read_optimized=False),
        _table(facts, name, read_optimized=False),
    )


def _table(facts: TableFacts, name: str, *, read_optimized: bool) -> CatalogTable:
    schema = with_meta_columns(facts.schema)
    columns = {column.name: column for column in hive_columns(schema)}
    keys = tuple(columns.pop(key.lower(), Column(key.lower(), "string")) for key in facts.partition_fields)
    return CatalogTable(
        name=name.lower(),
        location=facts.location,
        input_format=_READ_OPTIMIZED if read_optimized else _SNAPSHOT,
        columns=tuple(columns.values()),
        partition_keys=keys,
        parameters=_parameters(schema, facts),
        serde_parameters={
            "hoodie.query.as.ro.table": str(read_optimized).lower(),
            "path": facts.location,
            "serialization.format": "1",
        },
    )


def _parameters(schema: AvroSchema, facts: TableFacts) -> dict[str, str]:
    text = spark_json(schema, facts.partition_fields)
    parts = [text[start : start + _TEXT_MAX] for start in range(0, len(text), _TEXT_MAX)]
    result = {"EXTERNAL": "TRUE", "spark.sql.sources.provider": "hudi", _VERSION: "1.2.0"}
    result |= {"spark.sql.sources.schema.numParts": str(len(parts))}
    result |= {f"spark.sql.sources.schema.part.{number}": part for number, part in enumerate(parts)}
    if facts.partition_fields:
        result["spark.sql.sources.schema.numPartCols"] = str(len(facts.partition_fields))
        names = enumerate(facts.partition_fields)
        result |= {f"spark.sql.sources.schema.partCol.{number}": name for number, name in names}
    if facts.synced is not None:
        result |= dict(zip(SYNCED_TIMES, facts.synced, strict=True))
    return result


def partition_values(path: str, fields: tuple[str, ...], *, encoded: bool = False) -> Values:
    """The values in a partition's path, which may be `name=value`. One field has the whole path as its value.

    `encoded`: the table has Hudi's property for URL-encoded paths. Raises CatalogRefused if they are not as many as the
    fields.
    """
    levels = path.split("/") if len(fields) > 1 else [path]
    if len(levels) != len(fields):
        raise CatalogRefused(
            f"partition {path}: it has {len(levels)} levels, and the table the partition columns {', '.join(fields)}: "
            "no catalog can hold it"
        )
    values = (part.removeprefix(f"{name}=") for name, part in zip(fields, levels, strict=True))
    return tuple(unquote(value) if encoded else value for value in values)
