"""YAML read with the line of every value, which plain loading drops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import yaml

from bucketingest.spec.errors import Problem, SpecError
from bucketingest.spec.problems import Location, field_name

_VALUES_MAX: Final = 100_000  # aliases of aliases would let a small file grow without bound
_DEPTH_MAX: Final = 50
_TIMESTAMP_TAG: Final = "tag:yaml.org,2002:timestamp"


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a YAML file.

    Attributes:
        content: Its value in plain Python: dict, list, str, int, float, bool, None.
        line: Line of its first value, from 1.
        lines: Line of each value by its place; for a named value the line of its name.
        problems: What is wrong with the YAML of this document, though it can be read.
    """

    content: Any
    line: int
    lines: dict[Location, int]
    problems: tuple[Problem, ...]

    @property
    def kind(self) -> str | None:
        """The document's `kind`, None when it has none."""
        kind = self.content.get("kind") if isinstance(self.content, dict) else None
        return kind if isinstance(kind, str) else None

    def line_of(self, location: Location) -> int:
        """Line of a place in the document, or of the nearest place around it when it is absent."""
        while location not in self.lines and location:
            location = location[:-1]
        return self.lines.get(location, self.line)


class _Loader(yaml.SafeLoader):
    """Reads scalars as Kubernetes does: what looks like a date stays text."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own class attribute
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP_TAG]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def read_documents(text: str, source: str) -> list[Document]:
    """All documents of a YAML text that are not empty. Raises SpecError, also if it holds more than any spec would."""
    try:
        loader = _Loader(text)
        return [_Reader(loader, source).read(node) for node in _nodes(loader) if not _is_empty(node)]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = ", ".join(part for part in (error.context, error.problem) if part)
        problem = Problem("", f"is not valid YAML: {what}", line=mark.line + 1 if mark else None)
        raise SpecError([problem], source) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = Problem("", f"is not valid YAML: character U+{int(error.character):04X} is not allowed", line=line)
        raise SpecError([problem], source) from None


def _nodes(loader: _Loader) -> Iterator[yaml.Node]:
    while loader.check_node():
        node = loader.get_node()
        assert node is not None
        yield node


def _is_empty(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


class _Reader:
    """Turns one document's nodes into values, and keeps their lines and problems."""

    def __init__(self, loader: _Loader, source: str) -> None:
        self._loader = loader
        self._source = source
        self._lines: dict[Location, int] = {}
        self._problems: list[Problem] = []
        self._values = 0

    def read(self, node: yaml.Node) -> Document:
        content = self._value(node, ())
        return Document(content, node.start_mark.line + 1, self._lines, tuple(self._problems))

    def _value(self, node: yaml.Node, location: Location) -> Any:
        line = node.start_mark.line + 1
        self._lines.setdefault(location, line)
        self._values += 1
        if self._values > _VALUES_MAX or len(location) > _DEPTH_MAX:
            limit = f"more than {_VALUES_MAX} values or {_DEPTH_MAX} levels: this is not a BucketIngest"
            raise SpecError([Problem("", f"holds {limit}", line=line)], self._source)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, location)
        if isinstance(node, yaml.SequenceNode):
            return [self._value(item, (*location, position)) for position, item in enumerate(node.value)]
        return self._scalar(node, location)

    def _mapping(self, node: yaml.MappingNode, location: Location) -> dict[str, Any]:
        content: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self._problems.append(Problem(field_name(location), "has a name that is not text", line=line))
                continue
            name = str(key_node.value)
            place = (*location, name)
            if name in content:
                wrong = f"is given a second time, first in line {self._lines[place]}"
                self._problems.append(Problem(field_name(place), wrong, "each name once", line))
                continue
            self._lines[place] = line
            content[name] = self._value(value_node, place)
        return content

    def _scalar(self, node: yaml.Node, location: Location) -> Any:
        looks_sexagesimal = node.tag.endswith((":int", ":float")) and ":" in node.value
        if looks_sexagesimal:  # YAML 1.1 would read 1:30 as 90; Kubernetes does not
            return node.value
        try:
            return self._loader.construct_object(node)
        except (yaml.YAMLError, ValueError, OverflowError):
            wrong = f"has a value that cannot be read as {node.tag.rsplit(':', 1)[-1]}"
            self._problems.append(Problem(field_name(location), wrong, line=node.start_mark.line + 1))
            return node.value
