"""Reads JobSettings from a YAML file, in the form of the chart's values, and reports all its problems."""

from __future__ import annotations

import difflib
import os
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from bucketingest.spec.errors import Problem, SpecError
from bucketingest.spec.problems import field_name
from bucketingest.spec.reading.yaml_documents import Document, read_documents
from bucketingest_operator.manifests.attempt_objects import RESERVED_LABELS
from bucketingest_operator.manifests.pod_specs import RESERVED_MOUNTS, RESERVED_VOLUMES
from bucketingest_operator.manifests.settings import OF_RESOURCE, JobSettings, NetworkPolicy
from bucketingest_operator.manifests.spark_ports import SECRET_VARIABLE

_UNKNOWN: Final = "unexpected_keyword_argument"
_FILE: Final = TypeAdapter(JobSettings)


def load_settings(path: str | os.PathLike[str]) -> JobSettings:
    """The settings of a file. An empty file has the defaults. Raises SpecError with all problems and their lines."""
    source = os.fspath(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError([Problem("", f"cannot be read: {error}")], source) from error
    return parse_settings(text, source)


def parse_settings(text: str, source: str = "") -> JobSettings:
    """As `load_settings`, of a text."""
    documents = read_documents(text, source)
    if not documents:
        return JobSettings()
    document = documents[0]
    if len(documents) > 1 or not isinstance(document.content, dict):
        raise SpecError([Problem("", "is not one mapping of settings")], source)
    problems = list(document.problems)
    content = {name: value for name, value in document.content.items() if value is not None}
    unknown = [name for name in OF_RESOURCE if content.pop(name, None) is not None]
    problems += [_problem({"loc": (name,), "type": _UNKNOWN, "msg": ""}, document) for name in unknown]
    try:
        parsed = _FILE.validate_python(content)
    except ValidationError as error:
        problems += [_problem(each, document) for each in error.errors(include_url=False)]
        raise SpecError(problems, source) from None
    problems += _wrong_volumes(parsed)
    if SECRET_VARIABLE in parsed.env:
        what = "would replace the secret of Spark's ports, and pods show it"
        problems.append(Problem(f"env.{SECRET_VARIABLE}", what, "no such variable: the operator makes the secret"))
    if problems:
        raise SpecError(problems, source)
    return parsed


def _wrong_volumes(parsed: JobSettings) -> list[Problem]:
    """Checks beyond a schema: reserved names, mounts without a volume, folders of a node, the operator's labels."""
    problems = []
    names = set()
    for index, volume in enumerate(parsed.volumes):
        where, name = f"volumes[{index}]", volume.get("name")
        if not isinstance(name, str) or not name:
            problems.append(Problem(f"{where}.name", "is required"))
        elif name in names or name in RESERVED_VOLUMES:
            problems.append(Problem(f"{where}.name", f"is {name!r}, which is taken"))
        if "hostPath" in volume and not parsed.allow_host_path:
            problems.append(Problem(f"{where}.hostPath", "gives pods a folder of their node", "set allowHostPath"))
        names.add(name)
    for index, mount in enumerate(parsed.volume_mounts):
        where, path = f"volumeMounts[{index}]", mount.get("mountPath")
        if mount.get("name") not in names:
            problems.append(Problem(f"{where}.name", f"is {mount.get('name')!r}", "the name of one of volumes"))
        if not isinstance(path, str) or not path.startswith("/"):
            problems.append(Problem(f"{where}.mountPath", "is required", "an absolute path"))
        elif any(path.rstrip("/") == taken or path.startswith(f"{taken}/") for taken in RESERVED_MOUNTS):
            problems.append(Problem(f"{where}.mountPath", f"is {path!r}, which the job uses itself"))
    taken_labels = sorted(set(parsed.pod_labels) & RESERVED_LABELS)
    return problems + [Problem(f'podLabels["{label}"]', "is set by the operator") for label in taken_labels]


def _problem(error: Any, document: Document) -> Problem:
    location = tuple(error["loc"])
    where, line = field_name(location), document.line_of(location)
    if error["type"] != _UNKNOWN:
        wrong = str(error["msg"]).removeprefix("Value error, ")
        return Problem(where, wrong[:1].lower() + wrong[1:], "", line)
    of = JobSettings if len(location) == 1 else NetworkPolicy
    known = [name for each in fields(of) if (name := to_camel(each.name)) not in OF_RESOURCE]
    near = difflib.get_close_matches(str(location[-1]), known, n=1)
    guess = f" (did you mean {near[0]}?)" if near else ""
    return Problem(where, f"is not a setting{guess}", ", ".join(known), line)
