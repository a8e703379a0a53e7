"""What a metastore's answers mean."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pymetastore.hive_metastore import ttypes

from bucketingest.catalog.errors import CatalogUnavailable
from bucketingest.catalog.hive import HiveConnection
from bucketingest.catalog.wanted import CatalogTable


def test_a_table_that_someone_made_since_the_look_is_looked_at_before_it_is_changed() -> None:
    def there(_table: object) -> None:
        raise ttypes.AlreadyExistsException("Table orders already exists")

    connection = HiveConnection("thrift://m:9083", "lake", SimpleNamespace(create_table=there), None)
    with pytest.raises(CatalogUnavailable, match="table orders: AlreadyExistsException: Table orders already exists"):
        connection.create(CatalogTable("orders", "s3://lake/orders", "", ()))
