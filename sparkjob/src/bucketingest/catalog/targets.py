"""From the resource to its catalogs. The clients' libraries are imported when a catalog is opened, and not before."""

from __future__ import annotations

from bucketingest.catalog.client import CatalogClient
from bucketingest.catalog.sync import Target
from bucketingest.spec.fields.catalogs import GlueCatalog, HiveCatalog
from bucketingest.spec.model import BucketIngest


def targets(resource: BucketIngest) -> tuple[Target, ...]:
    """The catalogs of the resource, in its order."""
    return tuple(_target(catalog.entry, resource.table_name) for catalog in resource.spec.catalogs)


def _target(entry: HiveCatalog | GlueCatalog, table_name: str) -> Target:
    def opened() -> CatalogClient:
        if isinstance(entry, HiveCatalog):
            from bucketingest.catalog.hive import HiveConnection  # noqa: PLC0415

            return HiveConnection.open(entry.uri, entry.database)
        from bucketingest.catalog.glue import GlueConnection  # noqa: PLC0415

        return GlueConnection.open(entry.region, entry.database, entry.catalog_id)

    kind = f"hive {entry.uri}" if isinstance(entry, HiveCatalog) else f"glue {entry.region}"
    name = (entry.table or table_name).lower()
    return Target(f"{kind} {entry.database}.{name}", opened, name, entry.views)
