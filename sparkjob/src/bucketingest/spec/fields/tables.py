"""Many tables of one resource: each topic of a pattern has a table of its own, and how some of them differ."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Final

from pydantic import Field

from bucketingest.spec.base import SpecModel
from bucketingest.spec.fields.source import Transform
from bucketingest.spec.fields.table import Index
from bucketingest.spec.formats.format import Format
from bucketingest.spec.reading.view import View
from bucketingest.spec.scalars import BytesText, Column, Whole

Finding = tuple[tuple[str | int, ...], str, str]
"""Where, what is wrong, and what is allowed."""
PLACEHOLDER: Final = "{topic}"
"""Stands for the topic in `table.path`, `table.name`, `table.pipeline` and `errors.deadLetterPath`."""


class TableOverride(SpecModel):
    """What is different in the tables of some topics; a field that is absent is that of `table`."""

    record_key: tuple[Column, ...] | None = Field(
        default=None, description="As table.recordKey.", min_length=1, max_length=16
    )
    partition_by: tuple[Column, ...] | None = Field(default=None, description="As table.partitionBy.", max_length=8)
    ordering_field: Column | None = Field(default=None, description="As table.orderingField.")
    delete_when: Annotated[str, Field(min_length=1, max_length=4096)] | None = Field(
        default=None, description="As table.deleteWhen."
    )
    index: Index | None = Field(default=None, description="As table.index, as a whole.")
    memory_per_task: Annotated[int, BytesText("16Mi", "64Gi")] | None = Field(
        default=None, description="As table.memoryPerTask."
    )
    write_tasks: Whole | None = Field(default=None, description="As table.writeTasks.", ge=1, le=100_000)
    pipeline: str | None = Field(
        default=None,
        description="As table.pipeline.",
        pattern=r"^[A-Za-z0-9_]([A-Za-z0-9._/-]|\{topic\})*$",
        max_length=400,
    )


class Override(SpecModel):
    """Topics whose tables differ."""

    topics: str = Field(
        description="Regular expression for whole names of topics. The first entry that matches counts.",
        min_length=1,
        max_length=1024,
    )
    table: TableOverride = Field(default=TableOverride(), description="Fields of the table that differ.")
    format: Format | None = Field(default=None, description="As format, as a whole.")
    transform: Transform | None = Field(default=None, description="As transform, as a whole.")


class Tables(SpecModel):
    """A table for each topic of `source.kafka`, made when the topic appears. `table` says what all have in common."""

    overrides: tuple[Override, ...] = Field(
        default=(), description="Topics whose tables differ from table, format and transform.", max_length=64
    )


def _placeholders(view: View) -> Iterator[Finding]:
    has_many = view.value("tables") is not None
    for path in ("table.path", "table.name", "table.pipeline", "errors.deadLetterPath"):
        text = view.text(path)
        if text is None or (PLACEHOLDER in text) is has_many:
            continue
        if has_many:
            yield tuple(path.split(".")), "is the same for all of tables", f"a text with {PLACEHOLDER}"
        else:
            yield tuple(path.split(".")), f"has {PLACEHOLDER}, which is for a spec with tables", "a text without it"


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
    if view.value("catalogs"):
        yield ("catalogs",), "is not allowed with tables", "a BucketIngest of its own for a table with catalogs"
    if view.value("services.mode") == "job":
        yield ("services", "mode"), "is job, which is not allowed with tables", "auto, inline or off"
    if view.value("services.whileSuspended"):
        yield ("services", "whileSuspended"), "is not allowed with tables", "`bucketingest services` for a table"


def _secrets(view: View) -> Iterator[Finding]:
    given, overrides = "format.registry.secretRef", view.value("tables.overrides")
    for number, each in enumerate(overrides if isinstance(overrides, (list, tuple)) else ()):
        own = View(each).value(given)
        if own is not None and own != view.value(given):
            where: tuple[str | int, ...] = ("tables", "overrides", number, *given.split("."))
            yield where, "is not that of format.registry: all tables have one Secret", "the secretRef of spec.format"


def _patterns(view: View) -> Iterator[Finding]:
    overrides = view.value("tables.overrides")
    for number, each in enumerate(overrides if isinstance(overrides, (list, tuple)) else ()):
        pattern = each.get("topics") if isinstance(each, Mapping) else None
        try:
            re.compile(pattern if isinstance(pattern, str) else "")
        except re.error as error:
            yield ("tables", "overrides", number, "topics"), f"is no regular expression: {error}", ""


TABLES_RULES: Final[tuple[Callable[[View], Iterator[Finding]], ...]] = (
    _placeholders,
    _not_with_tables,
    _secrets,
    _patterns,
)
"""What must hold of a resource with many tables, and of one without."""
