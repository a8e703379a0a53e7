"""Opens an Iceberg catalog. PyIceberg would wait for ever for a service that takes a call and does not answer: it would
hold the thread that keeps the catalog up to date, or a command that has the table's lease.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog import AVAILABLE_CATALOGS, Catalog, CatalogType, load_catalog

from bucketingest.spec.fields.catalogs import IcebergCatalog

if TYPE_CHECKING:
    from requests import Session

ANSWER_WITHIN_SECONDS = 60.0


def opened(entry: IcebergCatalog) -> Catalog:
    """The catalog of the resource. Raises what its client raises."""
    AVAILABLE_CATALOGS.update({CatalogType.REST: _rest, CatalogType.HIVE: _hive})
    given = {"type": entry.type, "uri": entry.uri, "warehouse": entry.warehouse}
    return load_catalog(entry.name, **{key: value for key, value in given.items() if value is not None})


def _rest(name: str, properties: Any) -> Catalog:
    from pyiceberg.catalog.rest import RestCatalog  # noqa: PLC0415

    class Patient(RestCatalog):
        def _create_session(self) -> Session:
            session = super()._create_session()
            session.request = partial(session.request, timeout=ANSWER_WITHIN_SECONDS)  # type: ignore[method-assign]
            return session

    return Patient(name, **properties)


def _hive(name: str, properties: Any) -> Catalog:
    from pyiceberg.catalog.hive import HiveCatalog  # noqa: PLC0415

    catalog = HiveCatalog(name, **properties)
    client: Any = catalog._client  # noqa: SLF001 - it takes no time-out, and connects at the first call
    make: Callable[[], object] = client._init_thrift_transport  # noqa: SLF001
    client._init_thrift_transport = lambda: _patient(make())  # noqa: SLF001
    _patient(client._transport)  # noqa: SLF001
    return catalog


def _patient(transport: object) -> object:
    from thrift.transport.TSocket import TSocket  # noqa: PLC0415

    for inner in vars(transport).values():
        if isinstance(inner, TSocket):
            inner.setTimeout(ANSWER_WITHIN_SECONDS * 1000)
    return transport
