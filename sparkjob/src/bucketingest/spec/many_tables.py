"""A table of many is a pipeline whose spec is derived: all that is checked, opened and written is that of one table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from pydantic import ValidationError

from bucketingest.spec.errors import Problem, SpecError
from bucketingest.spec.fields.schema import inlined_schema
from bucketingest.spec.fields.table import TABLE_NAME_MAX
from bucketingest.spec.fields.tables import PLACEHOLDER, Override
from bucketingest.spec.model import BucketIngest
from bucketingest.spec.problems import problems_of

TABLES_MAX: Final = 1000
"""Topics of one resource that get tables."""
DEFAULT_BUCKETS: Final = 4
"""Of a table of many: most are small, and each bucket with rows is a file in each commit."""
_NO_LETTER: Final = re.compile(r"[^A-Za-z0-9_]")
_SAMPLE: Final = "topic"


def table_resource(resource: BucketIngest, topic: str) -> BucketIngest:
    """The BucketIngest of one table of many. Each micro-batch of it is a commit. Raises SpecError. Pure."""
    return _derived(resource, topic, override_of(resource, topic))


def override_of(resource: BucketIngest, topic: str) -> Override | None:
    """The first entry of `tables.overrides` for the topic."""
    tables = resource.spec.tables
    assert tables is not None, "it has many tables"
    return next((each for each in tables.overrides if re.fullmatch(each.topics, topic)), None)


def tables_problems(resource: BucketIngest) -> Iterator[tuple[str, BucketIngest | SpecError]]:
    """For `tables` and each override, where it is and a table's resource, or what is wrong with it."""
    tables = resource.spec.tables
    assert tables is not None, "it has many tables"
    overrides = [(f"spec.tables.overrides[{at}]", each) for at, each in enumerate(tables.overrides)]
    for place, override in [("", None), *overrides]:
        try:
            yield place, _derived(resource, _SAMPLE, override)
        except SpecError as error:
            yield place, error


def _derived(resource: BucketIngest, topic: str, override: Override | None) -> BucketIngest:
    document = resource.to_document(defaults=False)
    spec: dict[str, Any] = document["spec"]
    spec.pop("tables", None)
    table: dict[str, Any] = spec["table"]
    if override is not None:
        table |= override.table.to_document(defaults=False)
        for part in ("format", "transform"):
            if (given := getattr(override, part)) is not None:
                spec[part] = given.to_document(defaults=False)
    table.setdefault("name", PLACEHOLDER)
    table.setdefault("pipeline", f"{resource.pipeline}.{PLACEHOLDER}")
    table.setdefault("writeTasks", 1)
    index = table.setdefault("index", {})
    if index.get("type") != "state":
        index.setdefault("buckets", DEFAULT_BUCKETS)
    name = _NO_LETTER.sub("_", topic)
    table["name"] = table["name"].replace(PLACEHOLDER, name if not name[0].isdigit() else f"_{name}")[:TABLE_NAME_MAX]
    for field in ("path", "pipeline"):
        table[field] = table[field].replace(PLACEHOLDER, topic)
    for catalog in spec.get("catalogs", ()):
        for entry in catalog.values():
            if (given := entry.get("table")) is not None:
                entry["table"] = given.replace(PLACEHOLDER, name.lower())[:TABLE_NAME_MAX]
    if (letters := resource.dead_letter_path) is not None:
        spec.setdefault("errors", {})["deadLetterPath"] = letters.replace(PLACEHOLDER, topic)
    kafka = spec["source"]["kafka"]
    kafka.pop("topicPattern", None)
    kafka["topics"] = [topic]
    spec["commit"] = {**spec.get("commit", {}), "mode": "checkpoint"}
    try:
        return BucketIngest.from_document(document)
    except ValidationError as error:
        raise SpecError([each for _, each in problems_of(error, inlined_schema(BucketIngest))]) from None


def placed(place: str, problem: Problem) -> Problem:
    """The problem of a table of an override."""
    return problem if not place else Problem(f"{place}, {problem.field}", problem.wrong, problem.allowed)
