"""What must hold between the format of files, their schema and their options."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from typing import Final

from bucketingest.spec.fields.options import FILES_READING
from bucketingest.spec.reading.view import View
from bucketingest.spec.rules.finding import Finding, Rules

HIDDEN: Final = "/([.]|_[^/=]*/|_[^/]*$)|[.]_COPYING_$"
"""Is found in `/` and a path below the source's directory if it is not read: writers keep such files for themselves. A
directory `_name=value` is read. The form is Python's and that of CEL.
"""
_WHERE: Final = ("source", "files", "options")


def _schema(view: View) -> Iterator[Finding]:
    kind = view.value("source.files.format")
    if kind in {"json", "csv"} and view.value("source.files.schema") is None:
        yield ("source", "files", "schema"), f"is required for format {kind}", "columns as Spark SQL DDL"


def _values(view: View) -> Iterator[Finding]:
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
RULES: Final[Rules] = (_schema, _values)
