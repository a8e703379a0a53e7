"""Reads a BucketIngest from a YAML file, and reports everything that is wrong with it, line by line."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from bucketingest.spec.base import SpecModel
from bucketingest.spec.errors import Problem, SpecError
from bucketingest.spec.fields.schema import inlined_schema
from bucketingest.spec.model import KIND, BucketIngest, BucketIngestSpec
from bucketingest.spec.problems import Location, field_name, problems_of
from bucketingest.spec.reading.yaml_documents import Document, read_documents

MAX_FILE_BYTES: Final = 3 * 1024 * 1024
"""More than Kubernetes would store of one object (1.5 MiB in etcd); a larger file is a mistake."""


OnUnknown = Callable[[Sequence[str]], None]
"""Called with the fields of a spec that this version does not know, which are then ignored."""


def load_file(path: str | os.PathLike[str], on_unknown: OnUnknown | None = None) -> BucketIngest:
    """The one BucketIngest of a YAML file. Without `on_unknown` a field that this version does not know is a problem.
    Raises SpecError if the file cannot be read, is not YAML, or is wrong: all problems at once, with their lines.
    """
    source = os.fspath(path)
    try:
        if Path(path).stat().st_size > MAX_FILE_BYTES:
            problem = Problem("", f"is larger than {MAX_FILE_BYTES} bytes: this is not a BucketIngest")
            raise SpecError([problem], source)
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise SpecError([Problem("", "there is no such file; check the path")], source) from None
    except OSError as error:
        raise SpecError([Problem("", f"cannot be read: {error.strerror}")], source) from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SpecError([Problem("", "is not UTF-8 text; save the file as UTF-8", line=line)], source) from None
    return load_text(text, source, on_unknown)


def load_text(text: str, source: str = "", on_unknown: OnUnknown | None = None) -> BucketIngest:
    """As `load_file`, of a text; documents of other kinds are skipped. `source`: what to call it in messages."""
    document = _the_one(read_documents(text, source), source)
    problems = list(document.problems)
    try:
        resource = BucketIngest.from_document(_known(document.content, on_unknown))
    except ValidationError as error:
        problems += [
            replace(problem, line=document.line_of(location))
            for location, problem in problems_of(error, inlined_schema(BucketIngest))
        ]
    else:
        if not problems:
            return resource
    raise SpecError(sorted(problems, key=lambda problem: problem.line or 0), source)


def parse_object(content: Mapping[str, Any], on_unknown: OnUnknown | None = None) -> BucketIngest:
    """The BucketIngest of an object as the Kubernetes API returns it; status and server-set metadata are left out.
    Raises SpecError, with problems that have no lines.
    """
    try:
        return BucketIngest.from_document(_known(dict(content), on_unknown))
    except ValidationError as error:
        found = problems_of(error, inlined_schema(BucketIngest))
        raise SpecError([problem for _, problem in found], "") from None


def _known(content: dict[str, Any], on_unknown: OnUnknown | None) -> dict[str, Any]:
    """The content with only the known fields of its spec, if unknown ones are to be ignored."""
    spec = content.get("spec")
    if on_unknown is None or not isinstance(spec, Mapping):
        return content
    known, names = without_unknown(BucketIngestSpec, spec)
    if names:
        on_unknown([f"spec.{name}" for name in names])
    return {**content, "spec": known}


def _the_one(documents: list[Document], source: str) -> Document:
    if not documents:
        raise SpecError([Problem("", f"holds no {KIND}: it is empty")], source)
    chosen = documents if len(documents) == 1 else [each for each in documents if each.kind == KIND]
    if len(chosen) > 1:
        lines = ", ".join(str(each.line) for each in chosen)
        problem = Problem("", f"holds {len(chosen)} BucketIngests, in lines {lines}", "one BucketIngest per file")
        raise SpecError([problem], source)
    if not chosen:
        kinds = ", ".join(str(each.kind or "none") for each in documents)
        raise SpecError([Problem("", f"holds no {KIND}, only documents of kind {kinds}")], source)
    document = chosen[0]
    if not isinstance(document.content, dict):
        problem = Problem("", "is not a mapping", "apiVersion, kind, metadata, spec", line=document.line)
        raise SpecError([problem], source)
    return document


def without_unknown(model: type[SpecModel], document: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """A document without the fields that a model does not know, and their names as users write them. Pure."""
    found: list[str] = []
    known = _named(document, inlined_schema(model), (), found)
    return known, tuple(found)


def _named(node: Any, schema: Mapping[str, Any], where: Location, found: list[str]) -> Any:
    fields = schema.get("properties")
    if isinstance(node, Mapping) and fields:
        found += [field_name((*where, str(name))) for name in node if name not in fields]
        return {
            name: _named(value, fields[name], (*where, name), found) for name, value in node.items() if name in fields
        }
    values = schema.get("additionalProperties")
    if isinstance(node, Mapping) and isinstance(values, Mapping):
        return {name: _named(value, values, (*where, name), found) for name, value in node.items()}
    if isinstance(node, list) and "items" in schema:
        return [_named(each, schema["items"], (*where, index), found) for index, each in enumerate(node)]
    return node
