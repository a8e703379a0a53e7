"""A catalog in memory that fails at the call of a test's choice: what a sync that ends anywhere leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bucketingest.catalog.columns import Column
from bucketingest.catalog.errors import CatalogUnavailable
from bucketingest.catalog.wanted import CatalogPartition, CatalogTable, Values


@dataclass
class MemoryCatalog:
    """As a metastore: a partition has the columns it was added with, unless a change of the table gives it others."""

    tables: dict[str, CatalogTable] = field(default_factory=dict)
    partitions_of: dict[str, dict[Values, str]] = field(default_factory=dict)
    columns_of: dict[tuple[str, Values], tuple[Column, ...]] = field(default_factory=dict)
    """Of partitions that have others than their table."""
    changes: list[str] = field(default_factory=list)
    lists: list[str] = field(default_factory=list)
    """Tables of which all partitions were asked for."""
    fails_after: int | None = None
    """After so many changes every change fails."""
    where: str = "memory"
    slice_size: int = 2
    value_max: int = 30

    def find(self, name: str) -> CatalogTable | None:
        return self.tables.get(name)

    def create(self, table: CatalogTable) -> None:
        self._change(f"create {table.name}")
        self.tables.setdefault(table.name, table)
        self.partitions_of.setdefault(table.name, {})

    def alter(self, table: CatalogTable) -> None:
        self._change(f"alter {table.name}")
        self.tables[table.name] = table

    def drop(self, name: str) -> None:
        self._change(f"drop {name}")
        self.tables.pop(name, None)
        self.partitions_of.pop(name, None)

    def partitions(self, table: CatalogTable) -> set[Values]:
        self.lists.append(table.name)
        return set(self.partitions_of[table.name])

    def add(self, table: CatalogTable, partitions: Mapping[Values, str]) -> None:
        assert len(partitions) <= self.slice_size
        assert all(len(value) <= self.value_max for values in partitions for value in values)
        self._change(f"add {len(partitions)} to {table.name}")
        self.partitions_of[table.name].update(partitions)

    def registered(self, table: CatalogTable) -> dict[Values, CatalogPartition]:
        there = self.tables[table.name]
        return {
            values: CatalogPartition(
                where, there.input_format, self.columns_of.get((table.name, values), there.columns)
            )
            for values, where in self.partitions_of[table.name].items()
        }

    def correct(self, table: CatalogTable, partitions: Mapping[Values, str]) -> None:
        assert len(partitions) <= self.slice_size
        self._change(f"correct {len(partitions)} of {table.name}")
        self.partitions_of[table.name].update(partitions)
        for values in partitions:
            self.columns_of.pop((table.name, values), None)

    def close(self) -> None:
        pass

    def opened(self) -> Callable[[], MemoryCatalog]:
        return lambda: self

    def _change(self, what: str) -> None:
        if self.fails_after is not None and len(self.changes) >= self.fails_after:
            raise CatalogUnavailable("memory: it is away")
        self.changes.append(what)
