"""Brings one catalog up to date with the table, in steps that may be repeated after a crash at any of them.

What every catalog has in common, and the tables that engines open with Hudi's formats: Hive's metastore and Glue.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Protocol

from bucketingest.catalog.changes import altered, check_ours, check_place, same_place
from bucketingest.catalog.client import CatalogClient, sliced
from bucketingest.catalog.errors import CatalogRefused
from bucketingest.catalog.table_state import TableState, listed_partitions, written_partitions
from bucketingest.catalog.wanted import (
    SYNCED_TIMES,
    CatalogPartition,
    CatalogTable,
    TableFacts,
    Values,
    Views,
    wanted_tables,
)
from bucketingest.hudi.timeline.instant import Instant
from bucketingest.storage.interface import Storage


@dataclass
class Changes:
    """What a sync did in one catalog, or would do."""

    created: list[str] = field(default_factory=list)
    altered: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    partitions: int = 0
    """Added, over all its tables. Those that a commit wrote to count also if they were there."""
    corrected: int = 0
    """Partitions that were registered with another place, format or columns, over all its tables."""
    files_added: int = 0
    """In an Iceberg table."""
    files_removed: int = 0

    def __str__(self) -> str:
        """In words."""
        named = (("created", self.created), ("altered", self.altered), ("dropped", self.dropped))
        parts = [f"{word} {', '.join(names)}" for word, names in named if names]
        counts = (
            (self.partitions, "partitions added"),
            (self.corrected, "partitions corrected"),
            (self.files_added, "files added"),
            (self.files_removed, "files removed"),
        )
        parts += [f"{count} {what}" for count, what in counts if count]
        return "; ".join(parts) or "nothing to do"


class Target(Protocol):
    """A catalog of the resource, and under which name the table is registered there.

    Its calls raise CatalogUnavailable and CatalogRefused. What was done stays: the same again goes on from there.
    """

    @property
    def label(self) -> str:
        """The catalog and the name there, for reports."""
        ...

    @property
    def name(self) -> str:
        """Of the table there."""
        ...

    @property
    def names_files(self) -> bool:
        """Whether engines take from it which files they open: then no clean may delete one that it still names."""
        ...

    def touched(self, storage: Storage, commits: tuple[Instant, ...]) -> set[str]:
        """Paths of the partitions that it may lack something of after these commits. Raises NotFound for a commit that
        is archived meanwhile.
        """
        ...

    def sync(
        self,
        storage: Storage,
        state: TableState,
        *,
        paths: Collection[str] | None = None,
        dry_run: bool = False,
        check: bool = False,
    ) -> Changes:
        """Register what it lacks. `paths`: the only partitions that may be new or changed; None, or if the table is not
        there any more: all are compared. `check`: of all, also what is registered already, in full.
        """
        ...

    def drop(self, location: str, *, dry_run: bool = False) -> Changes:
        """Take the table at this location off. No data is deleted."""
        ...


@dataclass(frozen=True, slots=True)
class HudiTarget:
    """A catalog whose engines read the table by Hudi's formats."""

    label: str
    open: Callable[[], CatalogClient]
    name: str
    views: Views
    names_files: bool = False

    def touched(self, storage: Storage, commits: tuple[Instant, ...]) -> set[str]:
        """See `Target`."""
        return written_partitions(storage, commits)

    def sync(
        self,
        storage: Storage,
        state: TableState,
        *,
        paths: Collection[str] | None = None,
        dry_run: bool = False,
        check: bool = False,
    ) -> Changes:
        """See `Target`. `paths` are added without a look at what is there: an addition may be repeated, and a list of
        all costs more with each partition. `check`: the partitions that are there too, with place and columns.
        """
        changes = Changes()
        with closing(self.open()) as client:
            tables = wanted_tables(state.facts, self.name, self.views)
            found = {table.name: client.find(table.name) for table in tables}
            for table in tables:  # all are checked before one is changed
                if (there := found[table.name]) is not None:
                    check_ours(table, there, client.where)
            if check or None in found.values():
                paths = None
            read = client.registered if check else lambda table: dict.fromkeys(client.partitions(table))
            known: dict[str, Mapping[Values, CatalogPartition | None]] = {
                table.name: read(table) if paths is None and table.partition_keys and found[table.name] else {}
                for table in tables
            }
            trusted = set[Values]() if check else set.intersection(*(set(each) for each in known.values()))
            partitions = _partitions(storage, state, paths, trusted)
            too_long = [values for values in partitions if max(map(len, values), default=0) > client.value_max]
            for values in too_long:  # the catalog would take none of its slice, and of those behind it
                del partitions[values]
            for table in tables:
                there, registered = found[table.name], known[table.name]
                missing = {values: where for values, where in partitions.items() if values not in registered}
                changes.partitions += len(missing)
                wrong: dict[Values, str] = {}
                if there is None:
                    changes.created.append(table.name)
                elif (change := altered(table, there)) is not None:
                    changes.altered.append(table.name)
                if there is not None:
                    wrong = _drifted(change or there, partitions, registered)
                changes.corrected += len(wrong)
                if not dry_run:
                    _apply(client, _incomplete(table) if too_long else table, there, missing, wrong)
            if too_long:
                raise CatalogRefused(
                    f"{client.where}: {len(too_long)} partitions have a value of more than {client.value_max} "
                    f"characters, which it cannot store, and are not registered: {'/'.join(too_long[0])[:300]}; the "
                    "others are. Write these rows with shorter values, or take the catalog out of spec.catalogs"
                )
        return changes

    def drop(self, location: str, *, dry_run: bool = False) -> Changes:
        """See `Target`."""
        changes = Changes()
        empty = TableFacts(location, {"type": "record", "fields": []})
        with closing(self.open()) as client:
            for wanted in wanted_tables(empty, self.name, self.views):
                if (found := client.find(wanted.name)) is None:
                    continue
                check_place(wanted, found, client.where)
                changes.dropped.append(wanted.name)
                if not dry_run:
                    client.drop(wanted.name)
        return changes


def _incomplete(table: CatalogTable) -> CatalogTable:
    """Without up to where all partitions are registered: Hudi's own sync trusts that."""
    return replace(table, parameters={k: v for k, v in table.parameters.items() if k not in SYNCED_TIMES})


def _drifted(
    table: CatalogTable, partitions: Mapping[Values, str], registered: Mapping[Values, CatalogPartition | None]
) -> dict[Values, str]:
    """Partitions that are registered for another place, or with other columns or formats than the table's."""
    columns = [(each.name, each.type) for each in table.columns]

    def is_right(there: CatalogPartition | None, where: str) -> bool:
        return there is None or (
            same_place(there.location, where)
            and there.input_format == table.input_format
            and [(each.name, each.type) for each in there.columns] == columns
        )

    return {
        values: where
        for values, where in partitions.items()
        if values in registered and not is_right(registered[values], where)
    }


def _apply(
    client: CatalogClient,
    wanted: CatalogTable,
    found: CatalogTable | None,
    missing: dict[Values, str],
    wrong: dict[Values, str],
) -> None:
    """The table first, then its partitions, then up to where they are complete."""
    early = _incomplete(wanted)
    if found is None:
        client.create(current := early)
    elif (change := altered(early, current := found)) is not None:
        client.alter(current := change)
    for part in sliced(missing, client.slice_size):
        client.add(current, part)
    for part in sliced(wrong, client.slice_size):
        client.correct(current, part)
    if (last := altered(wanted, current)) is not None:
        client.alter(last)


def _partitions(
    storage: Storage, state: TableState, paths: Collection[str] | None, known: set[Values]
) -> dict[Values, str]:
    """Partitions that some table lacks, with their locations."""
    fields = len(state.facts.partition_fields)
    if not fields:
        return {}
    if paths is None:
        paths = set(listed_partitions(storage, fields, lambda path: state.values(path) in known))
    return {state.values(path): state.location(path) for path in sorted(paths)}
