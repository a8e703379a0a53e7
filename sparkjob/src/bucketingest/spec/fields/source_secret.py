"""Reads the options of a Kafka source from its Secrets, which Kubernetes mounts into a pod as one folder of files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bucketingest.spec.errors import Problem, SpecError
from bucketingest.spec.fields.options import OPTION_NAME, wrong_kafka_option
from bucketingest.spec.fields.source import KafkaSource

OPTIONS_VARIABLE: Final = "BUCKETINGEST_SOURCE_OPTIONS"
"""Environment variable: a folder with one file per option, its name the option's, its content the value."""
ISOLATION: Final = "kafka.isolation.level"
"""Java's client reads messages of aborted and of open transactions if it does not say otherwise."""
SIZE_MAX: Final = 1024 * 1024
"""Bytes of all values together: a Secret holds no more."""
COUNT_MAX: Final = 64

_FIELD: Final = "spec.source.kafka.secretRef"
_FIELD_OF_KEYS: Final = "spec.source.kafka.optionsFrom"


def source_options(kafka: KafkaSource) -> dict[str, str]:
    """All options of the source: the resource's, those of its Secrets, and what is so unless they say otherwise. Raises
    SpecError, as `secret_options`.
    """
    given: dict[str, str] = {**kafka.options, **secret_options(kafka)}
    if not any(name.lower() == ISOLATION for name in given):
        given[ISOLATION] = "read_committed"
    return given


def secret_options(kafka: KafkaSource | None, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Options of the source's Secrets by name; empty when the source names none.

    The end of the last line is left out: a Secret made from a file has one there. Messages never repeat a value. Raises
    SpecError with all problems of the folder, its names and its values, or if the environment names no folder.
    """
    if kafka is None or not kafka.has_secret_options:
        return {}
    folder = environment.get(OPTIONS_VARIABLE)
    if folder:
        return read_options(Path(folder))
    if kafka.secret_ref is not None:
        field, named = _FIELD, f"the Secret {kafka.secret_ref.name}"
    else:
        field, named = _FIELD_OF_KEYS, "keys of Secrets"
    wrong = f"names {named}, and {OPTIONS_VARIABLE} names no folder that holds them"
    raise SpecError([Problem(field, wrong, "one file per option, as Kubernetes mounts a Secret")])


def read_options(folder: Path) -> dict[str, str]:
    """The options in a folder: the name of a file is the option's, its content the value. Raises SpecError."""
    try:
        # Kubernetes keeps the files in ..data, a link, and swaps it when the Secret changes.
        files = sorted(each for each in folder.iterdir() if not each.name.startswith(".."))
    except OSError as error:
        raise SpecError([Problem(_FIELD, f"cannot be read from {folder}: {error.strerror}")]) from error
    if len(files) > COUNT_MAX:
        raise SpecError([Problem(_FIELD, f"has {len(files)} keys in {folder}", f"at most {COUNT_MAX}")])
    options: dict[str, str] = {}
    problems: list[Problem] = []
    room = SIZE_MAX
    for file in files:
        wrong = _wrong_name(file.name, [each.name for each in files])
        if wrong is None:
            value, wrong = _value(file, room)
            options[file.name] = value
            room -= len(value)
        if wrong is not None:
            problems.append(Problem(_FIELD, f"has the key {file.name!r}, which {wrong}"))
    if problems:
        raise SpecError(problems, str(folder))
    return options


def _wrong_name(name: str, given: list[str]) -> str | None:
    if not OPTION_NAME.fullmatch(name):
        return "is not a name of an option"
    found = wrong_kafka_option(name, given)
    return None if found is None else "; ".join(filter(None, found))


def _value(file: Path, room: int) -> tuple[str, str | None]:
    """The value, and what is wrong with it."""
    try:
        if not file.is_file():
            return "", "is not a file"
        with file.open("rb") as stream:
            data = stream.read(room + 1)
    except OSError as error:
        return "", f"cannot be read: {error.strerror}"
    if len(data) > room:
        return "", f"makes all values together larger than {SIZE_MAX} bytes"
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return "", "has a value that is not UTF-8 text"
    if "\0" in text:
        return "", "has a value with a zero byte"
    return text.rstrip("\r\n"), None
