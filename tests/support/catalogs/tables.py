"""Small tables of every type and style of partitions, and what a metastore has registered of them, as plain values."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from bucketingest.catalog.hive.connection import HiveConnection
from bucketingest.hudi.table.table import TableDefinition
from support.tables.local_writer import LocalWriter

_TIME = pa.timestamp("us", tz="UTC")
_PAIR = pa.struct([pa.field("x", pa.decimal128(5, 2)), pa.field("Y", pa.int32(), nullable=False)])
SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        ("region", pa.string()),
        ("day", pa.date32()),
        ("at", _TIME),
        ("flag", pa.bool_()),
        ("small", pa.int32()),
        ("big", pa.int64()),
        ("single", pa.float32()),
        ("number", pa.float64()),
        ("raw", pa.binary()),
        ("price", pa.decimal128(12, 3)),
        ("tags", pa.list_(pa.field("element", pa.string()))),
        ("weights", pa.map_(pa.string(), pa.field("value", pa.int64()))),
        ("Nested", pa.struct([pa.field("Inner", _TIME), pa.field("pairs", pa.list_(pa.field("element", _PAIR)))])),
        ("Mixed", pa.string()),
    ]
)


@dataclass(frozen=True)
class SyncedTable:
    """A table for one run of Hudi's tool."""

    partition_fields: tuple[str, ...]
    extractor: str
    """Hudi's class for its partition values."""
    styled: bool = False
    """Whether paths are `name=value`."""

    def write(self, base: Path, schema: pa.Schema = SCHEMA, regions: tuple[str | None, ...] = ()) -> LocalWriter:
        """Make it, with one commit."""
        definition = TableDefinition(
            "made", ("id",), self.partition_fields, "at", buckets=1, hive_style_partitioning=self.styled
        )
        writer = LocalWriter(base, definition, schema)
        writer.commit(rows(schema, regions or ("north", None, "a b", "ü%")))
        return writer


TABLES = {
    "flat": SyncedTable((), "NonPartitionedExtractor"),
    "plain": SyncedTable(("region",), "SinglePartPartitionValueExtractor"),
    "dated": SyncedTable(("day",), "SinglePartPartitionValueExtractor"),
    "styled": SyncedTable(("region", "day"), "MultiPartKeysValueExtractor", styled=True),
}


def rows(schema: pa.Schema, regions: tuple[str | None, ...]) -> pa.Table:
    """One row for each region."""
    at = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    nested = {"Inner": at, "pairs": [{"x": Decimal("1.5"), "Y": 1}]}
    row = {"at": at, "flag": True, "price": Decimal("1.5"), "tags": ["a"], "weights": [("k", 1)], "Nested": nested}
    days = [dt.date(2026, 1, 1 + place % 2) for place in range(len(regions))]
    made = [{**row, "id": str(n), "region": r, "day": days[n]} for n, r in enumerate(regions)]
    return pa.Table.from_pylist(made, schema=schema)


_OF_THE_METASTORE = ("transient_lastDdlTime", "numFiles", "totalSize")
"""Parameters that the metastore adds itself."""
_OF_THE_MOMENT = ("last_commit_time_sync", "last_commit_completion_time_sync")


def registered(catalog: HiveConnection, name: str, base: Path) -> dict[str, Any]:
    """All that a metastore says of a table, but for what it adds itself and who made it when."""
    table = catalog._client.get_table("default", name)
    partitions = catalog._client.get_partitions("default", name, -1)
    return {
        "type": table.tableType,
        "keys": _columns(table.partitionKeys),
        "parameters": _parameters(table.parameters),
        "storage": _storage(table.sd, base),
        "partitions": {
            "/".join(each.values): {"parameters": _parameters(each.parameters), "storage": _storage(each.sd, base)}
            for each in sorted(partitions, key=lambda each: each.values)
        },
    }


def _parameters(given: dict[str, str]) -> dict[str, str]:
    shown = {key: value for key, value in given.items() if key not in _OF_THE_METASTORE}
    return dict(sorted((key, "TIME" if key in _OF_THE_MOMENT else value) for key, value in shown.items()))


def _columns(fields: Any) -> list[list[str]]:
    return [[field.name, field.type, field.comment] for field in fields]


def _storage(storage: Any, base: Path) -> dict[str, Any]:
    shown = {key: value for key, value in vars(storage).items() if key not in {"cols", "serdeInfo", "skewedInfo"}}
    serde = {key: value for key, value in vars(storage.serdeInfo).items() if value is not None}
    shown |= {
        "columns": _columns(storage.cols),
        "serde": {**serde, "parameters": dict(sorted(serde["parameters"].items()))},
    }
    return _replaced(shown, str(base))


def _replaced(value: Any, base: str) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(each, base) for key, each in value.items()}
    return value.replace(base, "BASE") if isinstance(value, str) else value
