"""What is asked of a catalog: one small interface, so that Hive's metastore and Glue are synced by the same steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from bucketingest.catalog.wanted import CatalogPartition, CatalogTable, Values


class CatalogClient(Protocol):
    """One database of a catalog. Every call may raise CatalogUnavailable and CatalogRefused.

    Each call may be repeated: another process may have made the same change before.
    """

    @property
    def where(self) -> str:
        """The catalog and its database, for messages."""
        ...

    @property
    def slice_size(self) -> int:
        """How many partitions one call adds at most."""
        ...

    @property
    def value_max(self) -> int:
        """Characters of a partition's value that it can store."""
        ...

    def find(self, name: str) -> CatalogTable | None:
        """The table as it is registered; None if there is none."""
        ...

    def create(self, table: CatalogTable) -> None:
        """Register a new table. The catalog deletes no data with it. Raises CatalogUnavailable if someone made one of
        this name since `find`: the next try looks whose it is.
        """
        ...

    def alter(self, table: CatalogTable) -> None:
        """Give a registered table these columns and parameters, and its partitions the columns."""
        ...

    def drop(self, name: str) -> None:
        """Take the table and its partitions off. No data is deleted."""
        ...

    def partitions(self, table: CatalogTable) -> set[Values]:
        """The values of all registered partitions."""
        ...

    def registered(self, table: CatalogTable) -> dict[Values, CatalogPartition]:
        """All registered partitions as they are: far more to read than their values."""
        ...

    def add(self, table: CatalogTable, partitions: Mapping[Values, str]) -> None:
        """Register partitions, at most `slice_size`: their values and locations."""
        ...

    def correct(self, table: CatalogTable, partitions: Mapping[Values, str]) -> None:
        """Give partitions that are registered these locations, and the columns and formats of the table; at most
        `slice_size`.
        """
        ...

    def close(self) -> None:
        """Give connections back."""
        ...


def sliced(partitions: Mapping[Values, str], size: int) -> Sequence[dict[Values, str]]:
    """Partitions in slices of this size, in their order."""
    items = list(partitions.items())
    return [dict(items[start : start + size]) for start in range(0, len(items), size)]
