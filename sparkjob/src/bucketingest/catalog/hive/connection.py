"""Hive's metastore as a catalog: its Thrift calls, by the client that pymetastore generates from Hive's interface."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Self
from urllib.parse import unquote, urlsplit

from pymetastore.hive_metastore import ThriftHiveMetastore, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TException
from thrift.transport.TTransport import TTransportException

from bucketingest.catalog.columns import Column
from bucketingest.catalog.errors import CatalogRefused, CatalogUnavailable
from bucketingest.catalog.hive.gssapi import KerberosFailed
from bucketingest.catalog.hive.transport import opened
from bucketingest.catalog.wanted import OUTPUT_FORMAT, SERDE, CatalogPartition, CatalogTable, Values
from bucketingest.spec.fields.catalogs import HiveCatalog

_TIMEOUT_SECONDS: Final = 60.0
"""For one call. 100 partitions took 3 s on Derby."""
_MISREAD: Final = (TTransportException.END_OF_FILE, TTransportException.SIZE_LIMIT)
"""What comes of a client that speaks otherwise than the server."""
_REFUSALS: Final = (
    ttypes.InvalidOperationException,
    ttypes.InvalidObjectException,
    ttypes.NoSuchObjectException,
    ttypes.InvalidInputException,
)


@dataclass(frozen=True)
class HiveConnection:
    """One database of a metastore."""

    uri: str
    database: str
    _client: Any
    _transport: Any
    slice_size: int = 100
    value_max: int = 256  # for a longer one it tries its database again and again, and does not answer

    @classmethod
    def open(cls, entry: HiveCatalog) -> Self:
        """Connect to the first of its metastores that answers: a balancer takes a connection when nothing is behind it.
        Raises CatalogUnavailable.
        """
        problems = []
        for uri in map(str.strip, entry.uri.split(",")):
            place = urlsplit(uri)
            with ExitStack() as stack:
                try:
                    transport = opened(place.hostname or "", place.port or 0, entry, _TIMEOUT_SECONDS)
                    stack.callback(transport.close)
                    client = ThriftHiveMetastore.Client(TBinaryProtocol(transport))
                    with suppress(ttypes.NoSuchObjectException):  # the next call says what is missing
                        client.get_database(entry.database)
                except (TException, OSError, CatalogUnavailable) as error:
                    problems.append(f"{uri}: {_text(error)}{_advice(error, entry)}")
                else:
                    stack.pop_all()
                    return cls(uri, entry.database, client, transport)
        raise CatalogUnavailable(f"Hive metastore {'; '.join(problems)}: start it, or correct spec.catalogs")

    @property
    def where(self) -> str:
        """For messages."""
        return f"Hive metastore {self.uri}, database {self.database}"

    def find(self, name: str) -> CatalogTable | None:
        """See `CatalogClient`."""
        raw = self._raw(name)
        if raw is None:
            return None
        return CatalogTable(
            name=raw.tableName,
            location=raw.sd.location or "",
            input_format=raw.sd.inputFormat or "",
            columns=_columns(raw.sd.cols),
            partition_keys=_columns(raw.partitionKeys),
            parameters=raw.parameters or {},
            serde_parameters=raw.sd.serdeInfo.parameters or {},
        )

    def create(self, table: CatalogTable) -> None:
        """See `CatalogClient`."""
        raw = ttypes.Table(
            dbName=self.database,
            tableName=table.name,
            owner="bucketingest",
            createTime=int(time.time()),
            tableType="EXTERNAL_TABLE",
            sd=_storage(table, table.location),
            partitionKeys=_fields(table.partition_keys),
            parameters=dict(table.parameters),
        )
        self._call(f"table {table.name}", lambda: self._client.create_table(raw))

    def alter(self, table: CatalogTable) -> None:
        """See `CatalogClient`."""
        raw = self._raw(table.name)
        if raw is None:
            return  # dropped meanwhile: the next sync creates it
        raw.sd.cols = _fields(table.columns)
        raw.sd.serdeInfo.parameters = dict(table.serde_parameters)
        raw.parameters = dict(table.parameters)
        self._call(
            f"table {table.name}",
            lambda: self._client.alter_table_with_cascade(self.database, table.name, raw, bool(table.partition_keys)),
        )

    def drop(self, name: str) -> None:
        """See `CatalogClient`."""
        self._call(
            f"table {name}",
            lambda: self._client.drop_table(self.database, name, deleteData=False),
            ttypes.NoSuchObjectException,
        )

    def partitions(self, table: CatalogTable) -> set[Values]:
        """See `CatalogClient`."""
        return {tuple(unquote(part.partition("=")[2]) for part in name.split("/")) for name in self._names(table)}

    def registered(self, table: CatalogTable) -> dict[Values, CatalogPartition]:
        """See `CatalogClient`."""
        names = self._names(table)
        found: dict[Values, CatalogPartition] = {}
        for start in range(0, len(names), self.slice_size):
            asked = partial(
                self._client.get_partitions_by_names, self.database, table.name, names[start : start + self.slice_size]
            )
            for each in self._call(f"table {table.name}", asked):
                storage = each.sd
                found[tuple(each.values)] = CatalogPartition(
                    storage.location or "", storage.inputFormat or "", _columns(storage.cols)
                )
        return found

    def _names(self, table: CatalogTable) -> list[str]:
        return (
            self._call(f"table {table.name}", lambda: self._client.get_partition_names(self.database, table.name, -1))
            or []
        )

    def add(self, table: CatalogTable, partitions: Mapping[Values, str]) -> None:
        """See `CatalogClient`."""
        request = ttypes.AddPartitionsRequest(
            dbName=self.database,
            tblName=table.name,
            parts=self._partitions(table, partitions),
            ifNotExists=True,
            needResult=False,
        )
        self._call(f"table {table.name}", lambda: self._client.add_partitions_req(request))

    def correct(self, table: CatalogTable, partitions: Mapping[Values, str]) -> None:
        """See `CatalogClient`."""
        parts = self._partitions(table, partitions)
        self._call(f"table {table.name}", lambda: self._client.alter_partitions(self.database, table.name, parts))

    def _partitions(self, table: CatalogTable, partitions: Mapping[Values, str]) -> list[Any]:
        return [
            ttypes.Partition(
                values=list(values),
                dbName=self.database,
                tableName=table.name,
                sd=_storage(table, location),
                parameters={},
            )
            for values, location in partitions.items()
        ]

    def close(self) -> None:
        """See `CatalogClient`."""
        self._transport.close()

    def _raw(self, name: str) -> Any:
        return self._call(
            f"table {name}", lambda: self._client.get_table(self.database, name), ttypes.NoSuchObjectException
        )

    def _call(self, what: str, call: Callable[[], Any], ignored: type[Exception] | tuple[()] = ()) -> Any:
        """What the call returns; None if it fails with what is ignored."""
        try:
            return call()
        except ignored:
            return None
        except _REFUSALS as error:
            raise CatalogRefused(f"{self.where}, {what}: {_text(error)}") from error
        except (TException, OSError) as error:
            raise CatalogUnavailable(f"{self.where}, {what}: {_text(error)}") from error


def _text(error: Exception) -> str:
    if isinstance(error, CatalogUnavailable):
        return str(error)
    # Thrift says only that it could not connect, and keeps why.
    said = error.inner if isinstance(error, TTransportException) and error.inner is not None else error
    return f"{type(said).__name__}: {getattr(said, 'message', None) or said}"


def _advice(error: Exception, entry: HiveCatalog) -> str:
    if isinstance(error, KerberosFailed) and (asked := entry.kerberos) is not None:
        who = f"{asked.principal or 'the first principal'} of the keytab {asked.keytab}"
        who = who if asked.keytab else f"{asked.principal or 'the principal'} of the tickets of kinit"
        return f": the login was as {who}, to {asked.service}: check them in hive.kerberos, and krb5.conf"
    cause = error.inner if isinstance(error, TTransportException) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return ": trust its authority with hive.tls.caFile, and name the host in uri as the certificate does"
    misread = isinstance(error, TTransportException) and error.type in _MISREAD
    if misread or isinstance(cause, ssl.SSLError):
        return ": hive.tls and hive.kerberos must be as the metastore is set up"
    return ""


def _columns(fields: Any) -> tuple[Column, ...]:
    return tuple(Column(field.name, field.type, field.comment or "") for field in fields or ())


def _fields(columns: tuple[Column, ...]) -> list[Any]:
    return [ttypes.FieldSchema(name=column.name, type=column.type, comment=column.comment) for column in columns]


def _storage(table: CatalogTable, location: str) -> Any:
    serde = ttypes.SerDeInfo(serializationLib=SERDE, parameters=dict(table.serde_parameters))
    return ttypes.StorageDescriptor(
        cols=_fields(table.columns),
        location=location,
        inputFormat=table.input_format,
        outputFormat=OUTPUT_FORMAT,
        compressed=False,
        numBuckets=0,
        serdeInfo=serde,
        bucketCols=[],
        sortCols=[],
        parameters={},
    )
