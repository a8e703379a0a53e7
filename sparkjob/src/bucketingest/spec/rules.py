"""What must hold between fields of a spec, checked on the document, so that a wrong field does not hide the rest.

Pure functions. `cel.py` repeats the rules that CEL can express.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bucketingest.spec.fields.options import (
    FILES_READING,
    OPTION_NAME,
    SPARK_SETTINGS,
    TABLE_PROPERTIES,
    wrong_files_option,
    wrong_kafka_option,
)
from bucketingest.spec.fields.pod_rules import POD_RULES
from bucketingest.spec.fields.table import DEFAULT_BUCKETS
from bucketingest.spec.fields.tables import TABLES_RULES
from bucketingest.spec.formats.files import FILES_RULES, HIDDEN
from bucketingest.spec.formats.rules import FORMAT_RULES
from bucketingest.spec.partition_pattern import InvalidPattern, read_pattern
from bucketingest.spec.quantity import format_duration
from bucketingest.spec.reading.json_text import parse_json
from bucketingest.spec.reading.view import View


@dataclass(frozen=True, slots=True)
class Broken:
    """A broken rule: where in the spec, what is wrong, and what would be right ("" when `wrong` says it)."""

    location: tuple[str | int, ...]
    wrong: str
    allowed: str = ""


def broken_rules(document: Mapping[str, Any]) -> list[Broken]:
    """All rules that a spec breaks: the value of `spec` as JSON, defaults filled in. Parts may be absent or of a wrong
    type: the rules that need them find nothing then, since the schema's own check reports them.
    """
    view = View(document)
    return [broken for rule in _RULES for broken in rule(view)]


def _one_source(view: View) -> Iterator[Broken]:
    source = view.mapping("source")
    if source is None:
        return
    given = [name for name in ("kafka", "files", "rate") if source.get(name) is not None]
    if len(given) != 1:
        yield Broken(("source",), f"has {' and '.join(given) or 'none'}", "exactly one of kafka, files, rate")


def _topics(view: View) -> Iterator[Broken]:
    kafka = view.mapping("source.kafka")
    if kafka is None:
        return
    given = [name for name in ("topics", "topicPattern") if kafka.get(name) is not None]
    if len(given) != 1:
        yield Broken(
            ("source", "kafka"), f"has {' and '.join(given) or 'none'}", "exactly one of topics and topicPattern"
        )


def _starting_offsets(view: View) -> Iterator[Broken]:
    text = view.text("source.kafka.startingOffsets")
    if text is None or not text.lstrip().startswith("{"):
        return
    location = ("source", "kafka", "startingOffsets")
    allowed = 'JSON text {"TOPIC":{"PARTITION":OFFSET}} with offsets from 0, or -1 for latest, -2 for earliest'
    try:
        topics = parse_json(text)
    except ValueError as error:
        yield Broken(location, f"is not JSON: {error}", allowed)
        return
    for topic, offsets in topics.items():
        if not isinstance(offsets, dict) or not offsets:
            yield Broken(location, f"has no partitions for the topic {topic}", allowed)
            continue
        for partition, offset in offsets.items():
            if not (partition.isascii() and partition.isdecimal()):
                yield Broken(location, f"names {partition!r} as a partition of the topic {topic}", allowed)
            elif type(offset) is not int or offset < -2:
                yield Broken(location, f"has the offset {offset!r} for {topic} partition {partition}", allowed)


def _format_for_kafka(view: View) -> Iterator[Broken]:
    source = view.mapping("source")
    if source is None:
        return
    has_format = view.value("format") is not None
    if source.get("kafka") is not None and not has_format:
        yield Broken(("format",), "is required for source.kafka", "type (json or avro) and schema")
    others = [name for name in ("files", "rate") if source.get(name) is not None]
    if has_format and others and source.get("kafka") is None:
        yield Broken(("format",), f"is not allowed with source.{others[0]}: only Kafka records need decoding")


def _no_duplicates(view: View) -> Iterator[Broken]:
    for path in ("source.kafka.topics", "table.recordKey", "table.partitionBy", "table.index.hashFields"):
        seen: set[str] = set()
        for position, item in enumerate(view.texts(path) or ()):
            if item in seen:
                yield Broken((*path.split("."), position), f"names {item} a second time", "each name once")
            seen.add(item)


def _partition_buckets(view: View) -> Iterator[Broken]:
    rules = view.value("table.index.partitionBuckets")
    for position, rule in enumerate(rules if isinstance(rules, (list, tuple)) else ()):
        pattern = rule.get("pattern") if isinstance(rule, Mapping) else None
        if isinstance(pattern, str) and not {",", ";"} & set(pattern):  # these the schema refuses
            try:
                read_pattern(pattern)
            except InvalidPattern as error:
                yield Broken(("table", "index", "partitionBuckets", position, "pattern"), str(error))
    if rules and not view.value("table.partitionBy"):
        yield Broken(("table", "index", "partitionBuckets"), "is for a table with table.partitionBy only")


_FIELDS_OF_INDEX: Final[Mapping[str, Mapping[str, Any]]] = {
    "bucket": {"buckets": DEFAULT_BUCKETS, "partitionBuckets": None, "hashFields": None, "hash": "hudi"},
    "state": {"targetFileSize": None, "inserts": None, "global": None, "onDuplicateKeys": None},
}
"""The fields that one type of index has, with their defaults."""


def _index_fields(view: View) -> Iterator[Broken]:
    chosen = view.text("table.index.type")
    for kind, fields in _FIELDS_OF_INDEX.items() if chosen in _FIELDS_OF_INDEX else ():
        for name, default in fields.items():
            if kind != chosen and view.value(f"table.index.{name}") not in (None, default):
                yield Broken(("table", "index", name), f"is for table.index.type {kind} only, and the type is {chosen}")


def _global(view: View) -> Iterator[Broken]:
    where = ("table", "index", "global")
    chosen = view.value("table.index.global") is True and view.text("table.index.type") == "state"
    if chosen and view.text("table.index.inserts") == "log":
        yield Broken(where, "is for table.index.inserts base only: a moved key gets a base file in its new partition")
    if chosen and not view.value("table.partitionBy"):
        yield Broken(where, "is for a table with table.partitionBy only: without partitions no key moves")


def _services(view: View) -> Iterator[Broken]:
    chosen = view.text("table.index.type")
    if view.value("services.clustering.enabled") is True and chosen not in (None, "state"):
        wrong = f"is for table.index.type state only, and the type is {chosen}"
        yield Broken(("services", "clustering", "enabled"), wrong)
    if None not in (view.value("services.clean.retain"), view.value("services.clean.versions")):
        yield Broken(("services", "clean"), "has retain and versions", "one of them")


def _catalogs(view: View) -> Iterator[Broken]:
    catalogs = view.value("catalogs")
    for position, catalog in enumerate(catalogs if isinstance(catalogs, (list, tuple)) else ()):
        given = [
            name
            for name in ("hive", "glue", "iceberg")
            if isinstance(catalog, Mapping) and catalog.get(name) is not None
        ]
        if len(given) != 1:
            yield Broken(
                ("catalogs", position), f"has {' and '.join(given) or 'none'}", "exactly one of hive, glue, iceberg"
            )
        yield from _same_name(catalogs, position)


def _same_name(catalogs: Sequence[Any], position: int) -> Iterator[Broken]:
    """A metastore and Glue have one table of a name: the Hudi table, or the Iceberg table. That of another account's
    Glue may be another's: the catalog itself refuses it then.
    """
    made = _mapping(_mapping(catalogs[position]).get("iceberg"))
    for other in catalogs:
        one = _mapping(_mapping(other).get(str(made.get("type"))))
        here = all(made.get(key) == one.get(key) for key in ("database", "table"))
        if one and here and made.get("uri") in (None, one.get("uri")) and one.get("catalogId") is None:
            yield Broken(
                ("catalogs", position, "iceberg", "table"),
                f"is {made.get('table', 'absent')}, as that of {made['type']} in the same database",
                "another name than the one that engines of Hudi tables find",
            )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


PLACE: Final = ("topic", "partition", "offset")
"""Which of `source.kafka.columns` identify a message."""
_OF_KEYED: Final = (
    "table.orderingField",
    "table.deleteWhen",
    "table.index.hashFields",
    "table.index.global",
)


def _key(view: View) -> Iterator[Broken]:
    if view.mapping("table") is None or view.value("table.recordKey") is not None:
        return
    where = ("table", "recordKey")
    if view.mapping("format.envelope") is not None:
        if view.value("table.index.hashFields") is not None:
            yield Broken(("table", "index", "hashFields"), "needs table.recordKey, whose columns it names")
    elif view.mapping("source.kafka") is None:
        yield Broken(where, "is required: only messages of Kafka can be told apart without it", "columns of the table")
    elif missing := [part for part in PLACE if view.text(f"source.kafka.columns.{part}") is None]:
        allowed = (
            f"columns of the table; or, to append every message, names in source.kafka.columns for {_listed(PLACE)}"
        )
        yield Broken(where, f"is required, as source.kafka.columns has no {_listed(missing)}", allowed)
    else:
        for path in _OF_KEYED:
            if view.value(path) not in (None, False):
                yield Broken(
                    tuple(path.split(".")), "is for a table with table.recordKey only: no row replaces another"
                )


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _kafka_columns(view: View) -> Iterator[Broken]:
    seen: dict[str, str] = {}
    for part, column in (view.mapping("source.kafka.columns") or {}).items():
        if not isinstance(column, str):
            continue
        location = ("source", "kafka", "columns", part)
        if column.startswith("_hoodie_"):
            yield Broken(location, f"is {column}, a name of Hudi's own columns", "another name")
        if (other := seen.setdefault(column.lower(), part)) != part:
            yield Broken(location, f"is {column}, as {other} is; case does not count", "a name of its own for each")


def _hash_fields(view: View) -> Iterator[Broken]:
    record_key = view.texts("table.recordKey")
    if record_key is None:
        return
    for position, column in enumerate(view.texts("table.index.hashFields") or ()):
        if column not in record_key:
            allowed = f"columns of table.recordKey: {', '.join(record_key)}"
            yield Broken(("table", "index", "hashFields", position), f"names {column}, not a key column", allowed)


def _reserved_columns(view: View) -> Iterator[Broken]:
    for path in ("table.recordKey", "table.partitionBy"):
        for position, column in enumerate(view.texts(path) or ()):
            if column.startswith("_hoodie_"):
                yield Broken(
                    (*path.split("."), position), f"is {column}", "a column of the data, not one of Hudi's own"
                )


def _refused_names(view: View) -> Iterator[Broken]:
    instead = {name.lower(): advice for name, advice in SPARK_SETTINGS.items()}
    for name in view.mapping("spark.conf") or ():
        if name.lower() in instead:
            yield Broken(("spark", "conf", name), f"cannot be set here: {instead[name.lower()]}")
        elif not name.startswith("spark."):
            yield Broken(("spark", "conf", name), "is not a Spark setting", "names that start with spark.")


def _options_that_are_read(view: View) -> Iterator[Broken]:
    given = {name: ("source", "kafka", "options", name) for name in view.mapping("source.kafka.options") or ()}
    given |= {
        name: ("source", "kafka", "optionsFrom", name)
        for name in view.mapping("source.kafka.optionsFrom") or ()
        if OPTION_NAME.fullmatch(name)
    }
    for name, location in given.items():
        if (found := wrong_kafka_option(name, given)) is not None:
            yield Broken(location, *found)
    file_format = view.value("source.files.format")
    for name in view.mapping("source.files.options") or ():
        if file_format in FILES_READING and (found := wrong_files_option(name, str(file_format))) is not None:
            yield Broken(("source", "files", "options", name), *found)


def _options_of_secrets(view: View) -> Iterator[Broken]:
    plain = {name.lower() for name in view.mapping("source.kafka.options") or ()}
    for name in view.mapping("source.kafka.optionsFrom") or ():
        location = ("source", "kafka", "optionsFrom", name)
        if not OPTION_NAME.fullmatch(name):
            yield Broken(location, "is not a name of an option", "letters, digits, '-', '_' and '.'")
        elif name.lower() in plain:
            yield Broken(location, "is set in options too", "each option once")


def _table_properties(view: View) -> Iterator[Broken]:
    for name in view.mapping("table.properties") or ():
        location = ("table", "properties", name)
        if not name.startswith("hoodie."):
            yield Broken(location, "is not a Hudi table property", "names that start with hoodie.")
        elif name.startswith(TABLE_PROPERTIES):
            yield Broken(location, "cannot be set here: it follows from other fields of the spec")


def _plain_paths(view: View) -> Iterator[Broken]:
    for path in ("source.files.path", "table.path", "errors.deadLetterPath", "checkpoint.path"):
        if {".", ".."} & set((view.text(path) or "").split("/")):
            yield Broken(tuple(path.split(".")), "has . or .. as a part of the path", "the plain path")


def _paths_apart(view: View) -> Iterator[Broken]:
    table = view.text("table.path")
    if table is None:
        return
    for path in ("source.files.path", "errors.deadLetterPath", "checkpoint.path"):
        other = view.text(path)
        if other is not None and f"{other}/".startswith(f"{table}/"):
            yield Broken(tuple(path.split(".")), "lies in the table", f"a path outside of table.path {table}")
    source = view.text("source.files.path")
    for path in ("table.path", "errors.deadLetterPath"):
        other = view.text(path)
        if source is None or other is None or not f"{other}/".startswith(f"{source}/"):
            continue
        if re.search(HIDDEN, f"{other}/".removeprefix(source)) is None:
            allowed = f"a path outside of source.files.path {source}, or below a directory of it that begins with _"
            yield Broken(tuple(path.split(".")), "is read by the source", allowed)


def _lock_times(view: View) -> Iterator[Broken]:
    validity = view.duration("table.lock.leaseValidity")
    for path in ("table.lock.waitTimeout", "table.lock.heldTimeout"):
        limit = view.duration(path)
        if validity is not None and limit is not None and limit <= validity:
            allowed = f"more than table.lock.leaseValidity, {format_duration(validity)}"
            yield Broken(tuple(path.split(".")), f"is {format_duration(limit)}", allowed)


def _dead_letter_mode(view: View) -> Iterator[Broken]:
    if view.value("errors.mode") == "fail" and view.value("errors.deadLetterPath") is not None:
        yield Broken(("errors", "deadLetterPath"), "is not allowed with errors.mode fail", "errors.mode deadLetter")


def _times(view: View) -> Iterator[Broken]:
    interval = view.duration("commit.interval")
    if view.value("commit.mode") != "interval" or interval is None:
        return
    written = format_duration(interval)
    trigger = view.duration("commit.trigger")
    if trigger is not None and interval < trigger:
        allowed = f"at least commit.trigger, {format_duration(trigger)}"
        yield Broken(("commit", "interval"), f"is {written}", allowed)
    for path in ("health.maxCommitLag", "health.maxInflightAge", "slo.commitLatency", "slo.freshness"):
        limit = view.duration(path)
        if limit is not None and limit <= interval:
            allowed = f"more than commit.interval, {written}"
            yield Broken(tuple(path.split(".")), f"is {format_duration(limit)}", allowed)
    promise = view.duration("slo.readOptimizedFreshness")
    if promise is not None and promise < 2 * interval:
        allowed = f"at least twice commit.interval, {format_duration(2 * interval)}"
        yield Broken(("slo", "readOptimizedFreshness"), f"is {format_duration(promise)}", allowed)


def _promise(view: View) -> Iterator[Broken]:
    if view.value("slo.readOptimizedFreshness") is not None and view.value("services.mode") in ("off", False):
        yield Broken(
            ("slo", "readOptimizedFreshness"), "is not allowed with services.mode off", "another services.mode"
        )


def _executors(view: View) -> Iterator[Broken]:
    least, most = view.value("spark.executor.instances"), view.value("spark.executor.maxInstances")
    if type(least) is not int or type(most) is not int:
        return
    where = ("spark", "executor", "maxInstances")
    if least < 1 or most < least:
        yield Broken(where, f"is {most}, and instances is {least}", "instances of at least 1, and no fewer than these")
    if view.value("source.kafka") is None:
        yield Broken(where, "is for source.kafka only: of other sources nobody knows how much input waits")


def _of_sections(view: View) -> Iterator[Broken]:
    rules = (*FORMAT_RULES, *FILES_RULES, *POD_RULES, *TABLES_RULES)
    yield from (Broken(*finding) for rule in rules for finding in rule(view))


_RULES: tuple[Callable[[View], Iterator[Broken]], ...] = (
    _one_source,
    _topics,
    _starting_offsets,
    _format_for_kafka,
    _kafka_columns,
    _key,
    _of_sections,
    _no_duplicates,
    _partition_buckets,
    _index_fields,
    _global,
    _services,
    _catalogs,
    _promise,
    _executors,
    _hash_fields,
    _reserved_columns,
    _refused_names,
    _options_that_are_read,
    _options_of_secrets,
    _table_properties,
    _plain_paths,
    _paths_apart,
    _lock_times,
    _dead_letter_mode,
    _times,
)
