"""Many tables of one resource: each topic of a pattern has a table of its own, and how some of them differ."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import Field

from bucketingest.spec.base import SpecModel
from bucketingest.spec.fields.source import Transform
from bucketingest.spec.fields.table import Index
from bucketingest.spec.formats.format import Format
from bucketingest.spec.scalars import Column, Whole, bytes_text

PLACEHOLDER: Final = "{topic}"
"""Stands for the topic in `table.path`, `table.name`, `table.pipeline` and `errors.deadLetterPath`."""
TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
"""A name that Kafka takes for a topic."""


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
    memory_per_task: Annotated[int, bytes_text("16Mi", "64Gi")] | None = Field(
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
