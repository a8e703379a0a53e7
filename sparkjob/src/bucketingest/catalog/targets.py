"""From the resource to its catalogs. The clients' libraries are imported when a catalog is opened, and not before."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from bucketingest.catalog.client import CatalogClient
from bucketingest.catalog.iceberg.target import IcebergTarget
from bucketingest.catalog.sync import HudiTarget, Target
from bucketingest.spec.fields.catalogs import GlueCatalog, HiveCatalog, IcebergCatalog
from bucketingest.spec.model import BucketIngest

_KEPT_BY_VERSIONS: Final = timedelta(hours=2)
"""Nobody knows how long a clean by versions keeps a file. A query that runs needs its metadata all the same."""


def targets(resource: BucketIngest) -> tuple[Target, ...]:
    """The catalogs of the resource, in its order."""
    kept_for = resource.spec.services.clean.chosen_retain or _KEPT_BY_VERSIONS
    return tuple(_target(catalog.entry, resource.table_name, kept_for) for catalog in resource.spec.catalogs)


def _target(entry: HiveCatalog | GlueCatalog | IcebergCatalog, table_name: str, kept_for: timedelta) -> Target:
    name = (entry.table or table_name).lower()
    if isinstance(entry, IcebergCatalog):
        return IcebergTarget(entry, name, kept_for)

    def opened() -> CatalogClient:
        if isinstance(entry, HiveCatalog):
            from bucketingest.catalog.hive.connection import HiveConnection  # noqa: PLC0415

            return HiveConnection.open(entry)
        from bucketingest.catalog.glue import GlueConnection  # noqa: PLC0415

        return GlueConnection.open(entry.region, entry.database, entry.catalog_id)

    kind = (
        f"hive {entry.uri}"
        if isinstance(entry, HiveCatalog)
        else " ".join(filter(None, ("glue", entry.catalog_id, entry.region)))
    )
    return HudiTarget(f"{kind} {entry.database}.{name}", opened, name, entry.views)
