"""What must hold of the source and its options, and between the format of files, their schema and their options."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from typing import Final

from bucketingest.spec.fields.options import FILES_READING, OPTION_NAME, wrong_files_option, wrong_kafka_option
from bucketingest.spec.reading.json_text import parse_json
from bucketingest.spec.reading.view import View
from bucketingest.spec.rules.finding import Finding, Rules, exactly_one

SOURCES: Final = ("kafka", "files", "rate")
TOPICS: Final = ("topics", "topicPattern")


def _one_source(view: View) -> Iterator[Finding]:
    if (source := view.mapping("source")) is not None:
        yield from exactly_one(source, ("source",), SOURCES)
    if (kafka := view.mapping("source.kafka")) is not None:
        yield from exactly_one(kafka, ("source", "kafka"), TOPICS)


def _starting_offsets(view: View) -> Iterator[Finding]:
    text = view.text("source.kafka.startingOffsets")
    if text is None or not text.lstrip().startswith("{"):
        return
    location = ("source", "kafka", "startingOffsets")
    allowed = 'JSON text {"TOPIC":{"PARTITION":OFFSET}} with offsets from 0, or -1 for latest, -2 for earliest'
    try:
        topics = parse_json(text)
    except ValueError as error:
        yield (location, f"is not JSON: {error}", allowed)
        return
    for topic, offsets in topics.items():
        if not isinstance(offsets, dict) or not offsets:
            yield (location, f"has no partitions for the topic {topic}", allowed)
            continue
        for partition, offset in offsets.items():
            if not (partition.isascii() and partition.isdecimal()):
                yield (location, f"names {partition!r} as a partition of the topic {topic}", allowed)
            elif type(offset) is not int or offset < -2:
                yield (location, f"has the offset {offset!r} for {topic} partition {partition}", allowed)


def _format_for_kafka(view: View) -> Iterator[Finding]:
    source = view.mapping("source")
    if source is None:
        return
    has_format = view.value("format") is not None
    if source.get("kafka") is not None and not has_format:
        yield (("format",), "is required for source.kafka", "type (json or avro) and schema")
    others = [name for name in ("files", "rate") if source.get(name) is not None]
    if has_format and others and source.get("kafka") is None:
        yield (("format",), f"is not allowed with source.{others[0]}: only Kafka records need decoding", "")


def _kafka_columns(view: View) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    for part, column in (view.mapping("source.kafka.columns") or {}).items():
        if not isinstance(column, str):
            continue
        location = ("source", "kafka", "columns", part)
        if column.startswith("_hoodie_"):
            yield (location, f"is {column}, a name of Hudi's own columns", "another name")
        if (other := seen.setdefault(column.lower(), part)) != part:
            yield (location, f"is {column}, as {other} is; case does not count", "a name of its own for each")


def _options_that_are_read(view: View) -> Iterator[Finding]:
    given = {name: ("source", "kafka", "options", name) for name in view.mapping("source.kafka.options") or ()}
    given |= {
        name: ("source", "kafka", "optionsFrom", name)
        for name in view.mapping("source.kafka.optionsFrom") or ()
        if OPTION_NAME.fullmatch(name)
    }
    for name, location in given.items():
        if (found := wrong_kafka_option(name, given)) is not None:
            yield (location, *found)
    file_format = view.value("source.files.format")
    for name in view.mapping("source.files.options") or ():
        if file_format in FILES_READING and (found := wrong_files_option(name, str(file_format))) is not None:
            yield (("source", "files", "options", name), *found)


def _options_of_secrets(view: View) -> Iterator[Finding]:
    plain = {name.lower() for name in view.mapping("source.kafka.options") or ()}
    for name in view.mapping("source.kafka.optionsFrom") or ():
        location = ("source", "kafka", "optionsFrom", name)
        if not OPTION_NAME.fullmatch(name):
            yield (location, "is not a name of an option", "letters, digits, '-', '_' and '.'")
        elif name.lower() in plain:
            yield (location, "is set in options too", "each option once")


HIDDEN: Final = "/([.]|_[^/=]*/|_[^/]*$)|[.]_COPYING_$"
"""Is found in `/` and a path below the source's directory if it is not read: writers keep such files for themselves. A
directory `_name=value` is read. The form is Python's and that of CEL.
"""
_WHERE: Final = ("source", "files", "options")


def _files_schema(view: View) -> Iterator[Finding]:
    kind = view.value("source.files.format")
    if kind in {"json", "csv"} and view.value("source.files.schema") is None:
        yield ("source", "files", "schema"), f"is required for format {kind}", "columns as Spark SQL DDL"


def _files_values(view: View) -> Iterator[Finding]:
    known = FILES_READING.get(view.text("source.files.format") or "", ())
    for name, is_good, allowed in _VALUES:
        value = view.text(f"source.files.options.{name}")
        if value is not None and name in known and not is_good(value):
            yield (*_WHERE, name), f"is {value!r}", allowed


def _is_truth(value: str) -> bool:
    return value in {"true", "false"}


def _is_character(value: str) -> bool:
    return len(value) == 1 and value.isascii() and value not in "\r\n"


def _is_encoding(value: str) -> bool:
    try:
        name = codecs.lookup(value).name
        return "a\n".encode(name).decode(name) == "a\n"
    except (LookupError, TypeError, ValueError, AttributeError):
        return False


_VALUES: Final[tuple[tuple[str, Callable[[str], bool], str], ...]] = (
    ("header", _is_truth, "true or false"),
    ("multiLine", _is_truth, "true or false"),
    ("sep", lambda value: value == "\\t" or _is_character(value), "one ASCII character"),
    ("quote", lambda value: value == "" or _is_character(value), "one ASCII character, or none: nothing is quoted"),
    ("escape", lambda value: value == "" or _is_character(value), "one ASCII character, or none"),
    ("encoding", _is_encoding, "the name of an encoding, such as UTF-8 or ISO-8859-1"),
)


RULES: Final[Rules] = (
    _one_source,
    _starting_offsets,
    _format_for_kafka,
    _kafka_columns,
    _options_that_are_read,
    _options_of_secrets,
    _files_schema,
    _files_values,
)
