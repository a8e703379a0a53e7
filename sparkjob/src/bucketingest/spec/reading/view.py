"""Reads values of a document that may be wrong, for the rules between its fields."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from bucketingest.spec.quantity import parse_duration


class View:
    """Reads a document that may be wrong: whatever is absent or of another type is None."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document

    def value(self, path: str) -> Any:
        """The value at a dotted path."""
        node: Any = self._document
        for name in path.split("."):
            node = node.get(name) if isinstance(node, Mapping) else None
        return node

    def text(self, path: str) -> str | None:
        """The text at a path."""
        value = self.value(path)
        return value if isinstance(value, str) else None

    def mapping(self, path: str) -> Mapping[str, Any] | None:
        """The mapping at a path."""
        value = self.value(path)
        return value if isinstance(value, Mapping) else None

    def texts(self, path: str) -> list[str] | None:
        """The list of texts at a path."""
        value = self.value(path)
        if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
            return None
        return list(value)

    def duration(self, path: str) -> timedelta | None:
        """The length of time written at a path."""
        try:
            return parse_duration(self.text(path) or "")
        except ValueError:
            return None
