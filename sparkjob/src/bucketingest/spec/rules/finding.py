"""What a rule between fields finds. Rules read the document, so that a wrong field does not hide the rest.

Pure functions. `cel_rules.py` repeats those that CEL can express; a test compares both on random specs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from bucketingest.spec.reading.view import View

Finding: TypeAlias = tuple[tuple[str | int, ...], str, str]
"""Where in the spec, what is wrong, and what would be right ("" when the second says it)."""
Rules: TypeAlias = tuple[Callable[[View], Iterator[Finding]], ...]

PLACE: Final = ("topic", "partition", "offset")
"""Which of `source.kafka.columns` identify a message."""


def exactly_one(of: Mapping[str, Any], where: tuple[str | int, ...], names: Sequence[str]) -> Iterator[Finding]:
    """A mapping that has none of the fields, or several."""
    given = [name for name in names if of.get(name) is not None]
    if len(given) != 1:
        yield where, f"has {' and '.join(given) or 'none'}", f"exactly one of {in_words(names)}"


def in_words(names: Sequence[str]) -> str:
    """`a and b`; `a, b, c`."""
    return (" and " if len(names) == 2 else ", ").join(names)


def mappings(view: View, path: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The items of a list that are mappings, with their positions."""
    items = view.value(path)
    for position, item in enumerate(items if isinstance(items, (list, tuple)) else ()):
        if isinstance(item, Mapping):
            yield position, item
