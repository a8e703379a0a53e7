"""What must hold of the table: its key, its index, its lock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from bucketingest.spec.fields.options import TABLE_PROPERTIES
from bucketingest.spec.fields.table import DEFAULT_BUCKETS
from bucketingest.spec.partition_pattern import InvalidPattern, read_pattern
from bucketingest.spec.quantity import format_duration
from bucketingest.spec.reading.view import View
from bucketingest.spec.rules.finding import PLACE, Finding, Rules, mappings

_OF_KEYED: Final = (
    "table.orderingField",
    "table.deleteWhen",
    "table.index.hashFields",
    "table.index.global",
)


def _key(view: View) -> Iterator[Finding]:
    if view.mapping("table") is None or view.value("table.recordKey") is not None:
        return
    where = ("table", "recordKey")
    if view.mapping("format.envelope") is not None:
        if view.value("table.index.hashFields") is not None:
            yield (("table", "index", "hashFields"), "needs table.recordKey, whose columns it names", "")
    elif view.mapping("source.kafka") is None:
        yield (where, "is required: only messages of Kafka can be told apart without it", "columns of the table")
    elif missing := [part for part in PLACE if view.text(f"source.kafka.columns.{part}") is None]:
        allowed = (
            f"columns of the table; or, to append every message, names in source.kafka.columns for {_listed(PLACE)}"
        )
        yield (where, f"is required, as source.kafka.columns has no {_listed(missing)}", allowed)
    else:
        for path in _OF_KEYED:
            if view.value(path) not in (None, False):
                yield (tuple(path.split(".")), "is for a table with table.recordKey only: no row replaces another", "")


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _no_duplicates(view: View) -> Iterator[Finding]:
    for path in ("source.kafka.topics", "table.recordKey", "table.partitionBy", "table.index.hashFields"):
        seen: set[str] = set()
        for position, item in enumerate(view.texts(path) or ()):
            if item in seen:
                yield ((*path.split("."), position), f"names {item} a second time", "each name once")
            seen.add(item)


def _partition_buckets(view: View) -> Iterator[Finding]:
    rules = view.value("table.index.partitionBuckets")
    for position, rule in mappings(view, "table.index.partitionBuckets"):
        pattern = rule.get("pattern")
        if isinstance(pattern, str) and not {",", ";"} & set(pattern):  # these the schema refuses
            try:
                read_pattern(pattern)
            except InvalidPattern as error:
                yield (("table", "index", "partitionBuckets", position, "pattern"), str(error), "")
    if rules and not view.value("table.partitionBy"):
        yield (("table", "index", "partitionBuckets"), "is for a table with table.partitionBy only", "")


_FIELDS_OF_INDEX: Final[Mapping[str, Mapping[str, Any]]] = {
    "bucket": {"buckets": DEFAULT_BUCKETS, "partitionBuckets": None, "hashFields": None, "hash": "hudi"},
    "state": {"targetFileSize": None, "inserts": None, "global": None, "onDuplicateKeys": None},
}
"""The fields that one type of index has, with their defaults."""


def _index_fields(view: View) -> Iterator[Finding]:
    chosen = view.text("table.index.type")
    for kind, fields in _FIELDS_OF_INDEX.items() if chosen in _FIELDS_OF_INDEX else ():
        for name, default in fields.items():
            if kind != chosen and view.value(f"table.index.{name}") not in (None, default):
                yield (("table", "index", name), f"is for table.index.type {kind} only, and the type is {chosen}", "")


def _global(view: View) -> Iterator[Finding]:
    where = ("table", "index", "global")
    chosen = view.value("table.index.global") is True and view.text("table.index.type") == "state"
    if chosen and view.text("table.index.inserts") == "log":
        yield (where, "is for table.index.inserts base only: a moved key gets a base file in its new partition", "")
    if chosen and not view.value("table.partitionBy"):
        yield (where, "is for a table with table.partitionBy only: without partitions no key moves", "")


def _hash_fields(view: View) -> Iterator[Finding]:
    record_key = view.texts("table.recordKey")
    if record_key is None:
        return
    for position, column in enumerate(view.texts("table.index.hashFields") or ()):
        if column not in record_key:
            allowed = f"columns of table.recordKey: {', '.join(record_key)}"
            yield (("table", "index", "hashFields", position), f"names {column}, not a key column", allowed)


def _reserved_columns(view: View) -> Iterator[Finding]:
    for path in ("table.recordKey", "table.partitionBy"):
        for position, column in enumerate(view.texts(path) or ()):
            if column.startswith("_hoodie_"):
                yield ((*path.split("."), position), f"is {column}", "a column of the data, not one of Hudi's own")


def _table_properties(view: View) -> Iterator[Finding]:
    for name in view.mapping("table.properties") or ():
        location = ("table", "properties", name)
        if not name.startswith("hoodie."):
            yield (location, "is not a Hudi table property", "names that start with hoodie.")
        elif name.startswith(TABLE_PROPERTIES):
            yield (location, "cannot be set here: it follows from other fields of the spec", "")


def _lock_times(view: View) -> Iterator[Finding]:
    validity = view.duration("table.lock.leaseValidity")
    for path in ("table.lock.waitTimeout", "table.lock.heldTimeout"):
        limit = view.duration(path)
        if validity is not None and limit is not None and limit <= validity:
            allowed = f"more than table.lock.leaseValidity, {format_duration(validity)}"
            yield (tuple(path.split(".")), f"is {format_duration(limit)}", allowed)


RULES: Final[Rules] = (
    _key,
    _no_duplicates,
    _partition_buckets,
    _index_fields,
    _global,
    _hash_fields,
    _reserved_columns,
    _table_properties,
    _lock_times,
)
