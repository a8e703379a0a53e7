"""Removes secrets and values of environment variables from a cluster's answers."""

from __future__ import annotations

import json
from typing import Any, Final

import yaml

from bucketingest.redaction import HIDDEN, Redactor, without_secrets
from bucketingest.spec.reading.json_text import parse_json

Object = dict[str, Any]

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
_redact: Final = Redactor()


def stripped(found: Object) -> Object:
    """An object of the API server without managed fields, values of environment variables, and secrets. Pure."""
    kept = dict(found)
    metadata = dict(kept.get("metadata") or {})
    metadata.pop("managedFields", None)
    if _LAST_APPLIED in (metadata.get("annotations") or {}):
        metadata["annotations"] = {key: each for key, each in metadata["annotations"].items() if key != _LAST_APPLIED}
    kept["metadata"] = metadata
    if kept.get("kind") == "ConfigMap":
        kept["data"] = {name: strip_file(name, text) for name, text in (kept.get("data") or {}).items()}
        kept.pop("binaryData", None)
        return kept
    cleaned: Object = without_secrets(_without_environment(kept), _redact)
    return cleaned


def strip_file(name: str, text: str) -> str:
    """The text of a configuration file without secrets; its name says the format. Pure."""
    if name.endswith((".yaml", ".yml")):
        try:
            documents = [_without_environment(each) for each in yaml.safe_load_all(text)]
        except (yaml.YAMLError, RecursionError, ValueError):  # also: too deep, or a number that is none
            return strip_text(text)
        cleaned = [without_secrets(each, _redact) for each in documents]
        return yaml.safe_dump_all(cleaned, sort_keys=False, allow_unicode=True, width=120)
    if name.endswith(".conf"):
        return "\n".join(_setting(line) for line in text.splitlines()) + "\n"
    return strip_text(text)


def strip_text(text: str) -> str:
    """A text, such as a log, line by line; a line that is JSON stays JSON. Pure."""
    return "\n".join(strip_line(line) for line in text.split("\n"))


def strip_line(line: str) -> str:
    """One line without secrets. Pure."""
    if line.startswith("{"):
        try:
            return json.dumps(without_secrets(parse_json(line), _redact), ensure_ascii=False)
        except ValueError:
            pass
    return _redact(line)


def _setting(line: str) -> str:
    """A line of spark-defaults.conf: a name, blanks, a value."""
    name, blank, value = line.partition(" ")
    if not blank:
        return _redact(line)
    (cleaned,) = without_secrets({name: value}, _redact).values()
    return f"{name} {cleaned}"


def _without_environment(value: Any) -> Any:
    """Keep names and origins of variables; hide values."""
    if isinstance(value, list):
        return [_without_environment(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {name: _without_environment(each) for name, each in value.items()}
    for name in _CONTAINERS:
        for container in kept.get(name) or ():
            if isinstance(container, dict) and isinstance(container.get("env"), list):
                container["env"] = [_unvalued(each) for each in container["env"]]
    return kept


def _unvalued(variable: Any) -> Any:
    if isinstance(variable, dict) and "value" in variable:
        return {**variable, "value": HIDDEN}
    return variable
