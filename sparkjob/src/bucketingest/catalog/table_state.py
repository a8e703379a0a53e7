"""Reads what a catalog should hold from the table's own files: columns from the timeline, partitions from folders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Self

from bucketingest.catalog.errors import CatalogRefused
from bucketingest.catalog.wanted import TableFacts, Values, partition_values
from bucketingest.hudi.errors import UnsupportedTable
from bucketingest.hudi.naming import HOODIE_DIRECTORY, PARTITION_MARKS, join
from bucketingest.hudi.table.checks import version_refusals
from bucketingest.hudi.table.table import HoodieTable, load_table
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import Instant
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.storage.interface import Storage
from bucketingest.write.open_table import stored_schema

_LEVELS_MAX: Final = 16
"""A value of one column may have slashes in a table that another writer made."""


@dataclass(frozen=True, slots=True)
class TableState:
    """The table at one moment."""

    facts: TableFacts
    commits: tuple[Instant, ...]
    """Completed ones on the active timeline, by ascending completion time."""
    encoded: bool
    """Whether partition paths are URL-encoded."""
    values_in_paths: bool = True
    """Whether a partition's path has the values of the partition columns as they are, and not made from a moment."""

    @classmethod
    def read(cls, storage: Storage) -> Self | None:
        """The table; None before its first commit. Raises TableNotFound, UnsupportedTable."""
        table = load_table(storage)
        if reasons := version_refusals(table.properties):
            raise UnsupportedTable(storage.url, reasons)
        timeline = Timeline.load(storage)
        commits = timeline.completed_commits
        schema = stored_schema(table, timeline)
        if not commits or schema is None:
            return None
        newest = commits[-1]
        facts = TableFacts(
            location=hadoop_location(storage.url),
            schema=schema,
            partition_fields=_partition_fields(table),
            synced=(max(each.request_time for each in commits), newest.completion_time or ""),
        )
        encoded = table.properties.get(_URL_ENCODED) == "true"
        return cls(facts, commits, encoded, not any("TIMESTAMP" in each.upper() for each in _generators(table)))

    def values(self, path: str) -> Values:
        """The values of a partition. Raises CatalogRefused."""
        return partition_values(path, self.facts.partition_fields, encoded=self.encoded)

    def location(self, path: str) -> str:
        """Where a partition is, as Hadoop writes it."""
        return f"{self.facts.location}/{path}"


_URL_ENCODED: Final = "hoodie.datasource.write.partitionpath.urlencode"


def _partition_fields(table: HoodieTable) -> tuple[str, ...]:
    # A field may carry its type, as `day:SIMPLE` [Hudi 1.2.0, CustomKeyGenerator].
    fields = table.properties.get("hoodie.table.partition.fields", "")
    return tuple(field.partition(":")[0] for field in fields.split(",") if field)


def _generators(table: HoodieTable) -> Iterator[str]:
    # Type or class; the custom one names a type for each field, as `at:TIMESTAMP`.
    for key in ("hoodie.table.keygenerator.type", "hoodie.table.keygenerator.class", "hoodie.table.partition.fields"):
        value = table.properties.get(key, "")
        yield from (part.partition(":")[2] for part in value.split(",")) if key.endswith("fields") else (value,)


def hadoop_location(url: str) -> str:
    """The table's URL as Hadoop's file systems write it: a local path is `file:/path`."""
    return f"file:{url}" if url.startswith("/") else url


def written_partitions(storage: Storage, commits: tuple[Instant, ...]) -> set[str]:
    """Paths of the partitions that these commits wrote to. A commit that is archived meanwhile counts as none."""
    paths: set[str] = set()
    for instant in commits:
        path = path_of(instant)
        paths.update(file.partition_path for file in CommitMetadata.decode_files(storage.get(path), path))
    return paths


def listed_partitions(storage: Storage, fields: int, is_known: Callable[[str], bool]) -> Iterator[str]:
    """Paths of partitions that are not known yet: folders with Hudi's mark. A folder that is known is not opened."""
    yield from _below(storage, "", fields, is_known, 0)


def _below(storage: Storage, parent: str, fields: int, is_known: Callable[[str], bool], level: int) -> Iterator[str]:
    if level > _LEVELS_MAX:
        raise CatalogRefused(f"{storage.url}/{parent}: folders are nested deeper than {_LEVELS_MAX} levels")
    for path in storage.list_level(parent).directories:
        if path == HOODIE_DIRECTORY:
            continue
        if level + 1 >= fields:
            if is_known(path):
                continue
            if any(storage.exists(join(path, name)) for name in PARTITION_MARKS):
                yield path
                continue
        yield from _below(storage, path, fields, is_known, level + 1)
