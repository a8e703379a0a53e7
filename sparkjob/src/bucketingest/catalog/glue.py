"""AWS Glue's data catalog as a catalog, by boto3, which finds credentials as every AWS program does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from bucketingest.catalog.client import sliced
from bucketingest.catalog.columns import Column
from bucketingest.catalog.errors import CatalogRefused, CatalogUnavailable
from bucketingest.catalog.wanted import OUTPUT_FORMAT, SERDE, CatalogPartition, CatalogTable, Values

_TRANSIENT: Final = frozenset(
    {
        "AlreadyExistsException",  # a table that someone made since the look: the next try looks whose it is
        "ConcurrentModificationException",
        "InternalServiceException",
        "OperationTimeoutException",
        "ResourceNotReadyException",
        "ThrottlingException",
    }
)
_INPUT: Final = (
    "Name",
    "Description",
    "Owner",
    "LastAccessTime",
    "LastAnalyzedTime",
    "Retention",
    "StorageDescriptor",
    "PartitionKeys",
    "ViewOriginalText",
    "ViewExpandedText",
    "TableType",
    "Parameters",
)
"""What an update must repeat of a table, because it replaces the whole of it."""


@dataclass(frozen=True)
class GlueConnection:
    """One database of a catalog."""

    region: str
    database: str
    _client: Any
    _account: Mapping[str, str]
    slice_size: int = 100
    """As many as Glue takes in one call: `PartitionInputList` and `BatchUpdatePartitionRequestEntryList` in botocore's
    model of glue-2017-03-31.
    """
    value_max: int = 1024
    """`ValueString` there."""

    @classmethod
    def open(cls, region: str, database: str, catalog_id: str | None = None) -> Self:
        """Nothing is contacted yet. The retries are botocore's, which know Glue's throttling."""
        config = Config(connect_timeout=10, read_timeout=60, retries={"mode": "standard", "total_max_attempts": 4})
        try:
            client = boto3.client("glue", region_name=region, config=config)
        except BotoCoreError as error:
            raise CatalogUnavailable(f"Glue in {region}: {error}") from error
        return cls(region, database, client, {"CatalogId": catalog_id} if catalog_id else {})

    @property
    def where(self) -> str:
        """For messages."""
        return f"Glue in {self.region}, database {self.database}"

    def find(self, name: str) -> CatalogTable | None:
        """See `CatalogClient`."""
        raw = self._raw(name)
        if raw is None:
            return None
        storage = raw.get("StorageDescriptor", {})
        return CatalogTable(
            name=raw["Name"],
            location=storage.get("Location", ""),
            input_format=storage.get("InputFormat", ""),
            columns=_columns(storage.get("Columns")),
            partition_keys=_columns(raw.get("PartitionKeys")),
            parameters=raw.get("Parameters", {}),
            serde_parameters=storage.get("SerdeInfo", {}).get("Parameters", {}),
        )

    def create(self, table: CatalogTable) -> None:
        """See `CatalogClient`."""
        given = {
            "Name": table.name,
            "Owner": "bucketingest",
            "TableType": "EXTERNAL_TABLE",
            "Parameters": dict(table.parameters),
            "StorageDescriptor": _storage(table, table.location),
            "PartitionKeys": _fields(table.partition_keys),
        }
        self._call(table.name, self._client.create_table, TableInput=given)

    def alter(self, table: CatalogTable) -> None:
        """See `CatalogClient`."""
        raw = self._raw(table.name)
        if raw is None:
            return  # dropped meanwhile: the next sync creates it
        before = raw["StorageDescriptor"]["Columns"]
        columns = _fields(table.columns)
        serde = {**raw["StorageDescriptor"].get("SerdeInfo", {}), "Parameters": dict(table.serde_parameters)}
        storage = {**raw["StorageDescriptor"], "Columns": columns, "SerdeInfo": serde}
        given = {key: raw[key] for key in _INPUT if key in raw}
        given |= {"Parameters": dict(table.parameters), "StorageDescriptor": storage}
        if _columns(before) != table.columns:  # partitions first: a crash before the table's turn is seen and repeated
            self._give_columns(table)
        self._call(table.name, self._client.update_table, TableInput=given)

    def _give_columns(self, table: CatalogTable) -> None:
        """Let partitions have the table's columns."""
        found = {tuple(each["Values"]): each["StorageDescriptor"]["Location"] for each in self._partitions(table)}
        for part in sliced(found, self.slice_size):
            self.correct(table, part)

    def drop(self, name: str) -> None:
        """See `CatalogClient`."""
        self._call(name, self._client.delete_table, "EntityNotFoundException", Name=name)

    def partitions(self, table: CatalogTable) -> set[Values]:
        """See `CatalogClient`."""
        return {tuple(each["Values"]) for each in self._partitions(table)}

    def registered(self, table: CatalogTable) -> dict[Values, CatalogPartition]:
        """See `CatalogClient`."""
        found = ((tuple(each["Values"]), each["StorageDescriptor"]) for each in self._partitions(table, columns=True))
        return {
            values: CatalogPartition(
                storage.get("Location", ""), storage.get("InputFormat", ""), _columns(storage.get("Columns"))
            )
            for values, storage in found
        }

    def add(self, table: CatalogTable, partitions: Mapping[Values, str]) -> None:
        """See `CatalogClient`."""
        inputs = _partition_inputs(table, partitions)
        self._all(
            table, self._client.batch_create_partition, "AlreadyExistsException", DatabaseName=self.database,
            TableName=table.name, PartitionInputList=inputs,
        )  # fmt: skip

    def correct(self, table: CatalogTable, partitions: Mapping[Values, str]) -> None:
        """See `CatalogClient`."""
        entries = [
            {"PartitionValueList": each["Values"], "PartitionInput": each}
            for each in _partition_inputs(table, partitions)
        ]
        self._all(
            table, self._client.batch_update_partition, "EntityNotFoundException", DatabaseName=self.database,
            TableName=table.name, Entries=entries,
        )  # fmt: skip

    def close(self) -> None:
        """See `CatalogClient`."""
        self._client.close()

    def _raw(self, name: str) -> Any:
        answer = self._call(name, self._client.get_table, "EntityNotFoundException", Name=name)
        return None if answer is None else answer["Table"]

    def _partitions(self, table: CatalogTable, *, columns: bool = False) -> Iterator[Any]:
        token: dict[str, str] = {}
        while True:
            answer = self._call(
                table.name, self._client.get_partitions, TableName=table.name, ExcludeColumnSchema=not columns, **token
            )
            yield from answer["Partitions"]
            if not answer.get("NextToken"):
                return
            token = {"NextToken": answer["NextToken"]}

    def _all(self, table: CatalogTable, call: Callable[..., Any], ignored: str, **arguments: Any) -> None:
        """A call for many partitions, whose answer names those that failed."""
        answer = self._call(table.name, call, **arguments)
        failed = [each["ErrorDetail"] for each in answer.get("Errors", ())]
        for detail in failed:
            if (code := detail.get("ErrorCode", "")) != ignored:
                raise self._error(table.name, code, detail.get("ErrorMessage", ""))

    def _call(self, table: str, call: Callable[..., Any], ignored: str = "", **arguments: Any) -> Any:
        """The answer; None if it is the error that is ignored."""
        try:
            return call(**{"DatabaseName": self.database, **self._account, **arguments})
        except ClientError as error:
            detail = error.response.get("Error", {})
            if ignored and detail.get("Code") == ignored:
                return None
            raise self._error(table, detail.get("Code", ""), detail.get("Message", "")) from error
        except BotoCoreError as error:
            raise CatalogUnavailable(f"{self.where}, table {table}: {error}") from error

    def _error(self, table: str, code: str, message: str) -> CatalogUnavailable | CatalogRefused:
        kind = CatalogUnavailable if code in _TRANSIENT else CatalogRefused
        return kind(f"{self.where}, table {table}: {code}: {message}")


def _columns(fields: Any) -> tuple[Column, ...]:
    return tuple(Column(each["Name"], each.get("Type", ""), each.get("Comment", "")) for each in fields or ())


def _fields(columns: tuple[Column, ...]) -> list[dict[str, str]]:
    return [{"Name": column.name, "Type": column.type, "Comment": column.comment} for column in columns]


def _storage(table: CatalogTable, location: str) -> dict[str, Any]:
    return {
        "Columns": _fields(table.columns),
        "Location": location,
        "InputFormat": table.input_format,
        "OutputFormat": OUTPUT_FORMAT,
        "SerdeInfo": {"SerializationLibrary": SERDE, "Parameters": dict(table.serde_parameters)},
    }


def _partition_inputs(table: CatalogTable, partitions: Mapping[Values, str]) -> list[dict[str, Any]]:
    return [
        {"Values": list(values), "StorageDescriptor": _storage(table, location), "Parameters": {}}
        for values, location in partitions.items()
    ]
