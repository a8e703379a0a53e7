"""One Iceberg catalog of the resource. PyIceberg is imported when it is asked, and not before."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from bucketingest.catalog.errors import CatalogRefused
from bucketingest.catalog.iceberg.base_files import partitions_with_new_files
from bucketingest.catalog.sync import Changes
from bucketingest.catalog.table_state import TableState
from bucketingest.hudi.timeline.instant import Instant
from bucketingest.redaction import redacted
from bucketingest.spec.fields.catalogs import IcebergCatalog
from bucketingest.storage.interface import Storage


@dataclass(frozen=True, slots=True)
class IcebergTarget:
    """See `Target`. `kept_for`: so long a clean keeps the files of an older snapshot."""

    entry: IcebergCatalog
    name: str
    kept_for: timedelta
    names_files: bool = True

    @property
    def label(self) -> str:
        """See `Target`."""
        entry = self.entry
        where = [entry.type, entry.name if entry.name != "default" else None, entry.uri, entry.warehouse]
        return redacted(f"iceberg {' '.join(filter(None, where))} {entry.database}.{self.name}")

    def touched(self, storage: Storage, commits: tuple[Instant, ...]) -> set[str]:
        """See `Target`."""
        return partitions_with_new_files(storage, commits)

    def sync(
        self,
        storage: Storage,
        state: TableState,
        *,
        paths: Collection[str] | None = None,
        dry_run: bool = False,
        check: bool = False,
    ) -> Changes:
        """See `Target`."""
        _check_installed()
        from bucketingest.catalog.iceberg.commit import sync_base_files  # noqa: PLC0415

        return sync_base_files(storage, state, self, None if check else paths, dry_run=dry_run, check=check)

    def drop(self, location: str, *, dry_run: bool = False) -> Changes:
        """See `Target`."""
        _check_installed()
        from bucketingest.catalog.iceberg.commit import drop_table  # noqa: PLC0415

        return drop_table(location, self, dry_run=dry_run)


def _check_installed() -> None:
    try:
        import pyiceberg  # noqa: F401, PLC0415
    except ImportError as error:
        raise CatalogRefused(
            "a catalog of kind iceberg needs PyIceberg: pip install 'bucketingest[iceberg]'"
        ) from error
