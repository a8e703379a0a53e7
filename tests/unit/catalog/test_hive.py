"""What a metastore's answers mean."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from pymetastore.hive_metastore import ThriftHiveMetastore, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket

from bucketingest.catalog.errors import CatalogUnavailable
from bucketingest.catalog.hive import connection
from bucketingest.catalog.hive.connection import HiveConnection
from bucketingest.catalog.wanted import CatalogTable
from bucketingest.spec.fields.catalogs import HiveCatalog


def test_a_table_that_someone_made_since_the_look_is_looked_at_before_it_is_changed() -> None:
    def there(_table: object) -> None:
        raise ttypes.AlreadyExistsException("Table orders already exists")

    metastore = HiveConnection("thrift://m:9083", "lake", SimpleNamespace(create_table=there), None)
    with pytest.raises(CatalogUnavailable, match="table orders: AlreadyExistsException: Table orders already exists"):
        metastore.create(CatalogTable("orders", "s3://lake/orders", "", ()))


@pytest.mark.parametrize("is_silent", [True, False], ids=["is silent", "ends the connection"])
def test_a_metastore_that_takes_the_connection_and_does_not_answer_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, *, is_silent: bool
) -> None:
    monkeypatch.setattr(connection, "_TIMEOUT_SECONDS", 0.5)
    taken: list[socket.socket] = []
    handler = SimpleNamespace(get_database=lambda name: ttypes.Database(name=name))
    processor = ThriftHiveMetastore.Processor(handler)

    def answer(client: socket.socket) -> None:
        transport = TSocket()
        transport.setHandle(client)
        protocol = TBinaryProtocol(transport)
        processor.process(protocol, protocol)

    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        uris = [f"thrift://127.0.0.1:{each.getsockname()[1]}" for each in (first, second)]
        _serve(first, taken.append if is_silent else socket.socket.close)
        _serve(second, answer)
        found = HiveConnection.open(HiveCatalog(uri=",".join(uris), database="lake"))
        assert found.uri == uris[1]
        found.close()
    for each in taken:
        each.close()


def _serve(listener: socket.socket, act: Callable[[socket.socket], object]) -> None:
    """The next connection."""
    threading.Thread(target=lambda: act(listener.accept()[0]), daemon=True).start()
