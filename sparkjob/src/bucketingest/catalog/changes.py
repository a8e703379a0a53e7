"""What must be changed in a catalog, by what is wanted and what is found there; what is not ours is refused. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from bucketingest.catalog.columns import Column
from bucketingest.catalog.errors import CatalogRefused
from bucketingest.catalog.wanted import HUDI_FORMATS, KEPT, CatalogTable

_SAME_SCHEMES: Final = ("s3a://", "s3n://")
_SCHEMA_PARTS: Final = "spark.sql.sources.schema.part."


def same_place(one: str, other: str) -> bool:
    """Whether two locations are one, by the names that Hadoop's file systems give it."""
    return _plain(one) == _plain(other)


def _plain(location: str) -> str:
    for scheme in _SAME_SCHEMES:
        if location.startswith(scheme):
            location = "s3://" + location.removeprefix(scheme)
    if location.startswith("file:"):
        location = "/" + location.removeprefix("file:").lstrip("/")
    return location.rstrip("/")


def check_place(wanted: CatalogTable, found: CatalogTable, where: str) -> None:
    """Refuse a registered table that is not this one. `where`: the catalog, for the message.

    Raises CatalogRefused with the way out.
    """
    what = f"{where}, table {found.name}"
    other = "give this table another name there (the catalog's field table in spec.catalogs), or drop that one by hand"
    if not found.input_format.startswith(HUDI_FORMATS):
        raise CatalogRefused(f"{what}: is there already, and is no Hudi table: {other}")
    if not same_place(wanted.location, found.location):
        raise CatalogRefused(f"{what}: is registered for {found.location}, not for {wanted.location}: {other}")


def check_ours(wanted: CatalogTable, found: CatalogTable, where: str) -> None:
    """As `check_place`; refuse too what cannot be altered."""
    check_place(wanted, found, where)
    what = f"{where}, table {found.name}"
    again = "take it off with `bucketingest sync FILE --drop`, which deletes no data, and sync again"
    keys, known = ([column.name for column in each.partition_keys] for each in (wanted, found))
    if keys != known:
        raise CatalogRefused(f"{what}: is partitioned by {known or 'nothing'}, and the table by {keys}: {again}")
    if wanted.input_format != found.input_format:
        raise CatalogRefused(f"{what}: has the input format {found.input_format}, not {wanted.input_format}: {again}")


def altered(wanted: CatalogTable, found: CatalogTable) -> CatalogTable | None:
    """What the registered table should become; None if it is right. What others have set beside stays."""
    columns = _columns(wanted.columns, found.columns)
    parameters = {key: value for key, value in found.parameters.items() if not key.startswith(_SCHEMA_PARTS)}
    parameters |= {k: v for k, v in wanted.parameters.items() if k not in KEPT or k not in parameters}
    serde = {**found.serde_parameters, **_ours(wanted.serde_parameters, found.serde_parameters)}
    result = replace(found, columns=columns, parameters=parameters, serde_parameters=serde)
    return None if result == found else result


def _ours(wanted: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str]:
    """The wanted parameters; of a path that is the same place the form that is there stays."""
    return {
        key: found[key] if key == "path" and key in found and same_place(value, found[key]) else value
        for key, value in wanted.items()
    }


def _columns(wanted: tuple[Column, ...], found: tuple[Column, ...]) -> tuple[Column, ...]:
    """Columns that are registered keep their place, new ones come last.

    Hive's metastore compares columns by their place, and would take one in the middle for changed types of all behind.
    """
    by_name = {column.name: column for column in wanted}
    kept = [_column(by_name.pop(column.name), column) for column in found if column.name in by_name]
    return (*kept, *by_name.values())


def _column(wanted: Column, found: Column) -> Column:
    # Hudi's sync registers a timestamp as bigint unless it is told otherwise, and Hive does not change that back.
    same = wanted.type.replace("timestamp", "bigint") == found.type
    return Column(wanted.name, found.type if same else wanted.type, wanted.comment or found.comment)
