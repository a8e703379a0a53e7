"""What must hold of a resource with many tables, and of one without."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from bucketingest.spec.fields.tables import PLACEHOLDER, TOPIC
from bucketingest.spec.reading.view import View
from bucketingest.spec.rules.finding import Finding, Rules, mappings
from bucketingest.spec.rules.running import CATALOGS


def _placeholders(view: View) -> Iterator[Finding]:
    has_many = view.value("tables") is not None
    for where, text in _places(view):
        if text is None or (PLACEHOLDER in text) is has_many:
            continue
        if has_many:
            yield where, "is the same for all of tables", f"a text with {PLACEHOLDER}"
        else:
            yield where, f"has {PLACEHOLDER}, which is for a spec with tables", "a text without it"


def _places(view: View) -> Iterator[tuple[tuple[str | int, ...], str | None]]:
    for path in ("table.path", "table.name", "table.pipeline", "errors.deadLetterPath"):
        yield tuple(path.split(".")), view.text(path)
    for number, each in mappings(view, "catalogs"):
        for kind in CATALOGS:
            yield ("catalogs", number, kind, "table"), View(each).text(f"{kind}.table")


def _not_with_tables(view: View) -> Iterator[Finding]:
    if view.value("tables") is None:
        return
    if view.mapping("source") is not None and view.mapping("source.kafka") is None:
        yield ("tables",), "is for source.kafka only", ""
    for path in ("source.kafka.commitGroup", "checkpoint.path", "spark.executor.maxInstances"):
        if view.value(path) is not None:
            yield tuple(path.split(".")), "is not allowed with tables", ""
    if view.value("source.kafka.startingOffsets") not in (None, "earliest"):
        yield ("source", "kafka", "startingOffsets"), "is not allowed with tables: topics come later", "earliest"
    if view.value("audit") is not None:
        yield ("audit",), "is not allowed with tables", "`bucketingest audit --topic` for a table"
    if view.value("services.mode") == "job":
        yield ("services", "mode"), "is job, which is not allowed with tables", "auto, inline or off"
    if view.value("services.whileSuspended"):
        yield ("services", "whileSuspended"), "is not allowed with tables", "`bucketingest services` for a table"


def _secrets(view: View) -> Iterator[Finding]:
    given = "format.registry.secretRef"
    for number, each in mappings(view, "tables.overrides"):
        own = View(each).value(given)
        if own is not None and own != view.value(given):
            where: tuple[str | int, ...] = ("tables", "overrides", number, *given.split("."))
            yield where, "is not that of format.registry: all tables have one Secret", "the secretRef of spec.format"


def _patterns(view: View) -> Iterator[Finding]:
    for number, each in mappings(view, "tables.overrides"):
        pattern = each.get("topics")
        try:
            re.compile(pattern if isinstance(pattern, str) else "")
        except (re.error, OverflowError, RecursionError) as error:  # a count, or a depth, that is too large
            yield ("tables", "overrides", number, "topics"), f"is no regular expression: {error}", ""


def _dead_letters_apart(view: View) -> Iterator[Finding]:
    """Dead letters of one topic are not where another topic has its table, nor in it."""
    table, letters = (view.text(path) or "" for path in ("table.path", "errors.deadLetterPath"))
    parts, others = table.split("/"), letters.split("/")
    if view.value("tables") is None or not letters or len(others) < len(parts):
        return
    if all(_may_be_same(part, other) for part, other in zip(parts, others, strict=False)):
        allowed = "a folder that no topic is called, such as one with ~ in its name"
        yield ("errors", "deadLetterPath"), "may lead to another topic's table", allowed


def _may_be_same(one: str, other: str) -> bool:
    """Whether two parts of paths are the same with some topics."""
    if PLACEHOLDER in one and PLACEHOLDER in other:
        ends = ((one.partition(PLACEHOLDER)[0], other.partition(PLACEHOLDER)[0]), _tails(one, other))
        shorter_first = (sorted(pair, key=len) for pair in ends)
        return all(y.startswith(x) and (x == y or TOPIC.fullmatch(y[len(x) :])) for x, y in shorter_first)
    fixed, pattern = sorted((one, other), key=lambda part: PLACEHOLDER in part)
    return re.fullmatch(re.escape(pattern).replace(re.escape(PLACEHOLDER), TOPIC.pattern), fixed) is not None


def _tails(one: str, other: str) -> tuple[str, str]:
    """What follows the last topic, reversed."""
    return one.rpartition(PLACEHOLDER)[2][::-1], other.rpartition(PLACEHOLDER)[2][::-1]


RULES: Final[Rules] = (_placeholders, _not_with_tables, _secrets, _patterns, _dead_letters_apart)
