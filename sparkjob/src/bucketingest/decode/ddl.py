"""Reads the columns of a schema in Spark's DDL far enough to say which of their types a decoder cannot do."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

_TOKEN: Final = re.compile(
    r"\s*(?:(`(?:[^`]|``)+`)|([A-Za-z_0-9]+)|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|([<>(),:]))"
)
_DECIMALS: Final = frozenset({"DECIMAL", "DEC", "NUMERIC"})


class UnreadableDdl(Exception):
    """The text is not understood here; Spark may understand it."""


def unsupported(ddl: str, supported: Collection[str]) -> str | None:
    """The first type in the text that is not in `supported`, nor a decimal, array or struct; None if there is none.

    Raises UnreadableDdl, also for names that differ in case only: it depends on Spark which of them is meant.
    """
    tokens = _Tokens(ddl)
    found = _columns(tokens, supported, closing="")
    if found is None and tokens.next:
        raise UnreadableDdl(tokens.next)
    return found


class _Tokens:
    def __init__(self, ddl: str) -> None:
        self._tokens = _tokens(ddl)
        self.next = ""
        self.take()

    def take(self) -> str:
        taken, self.next = self.next, next(self._tokens, "")
        return taken

    def take_if(self, *wanted: str) -> bool:
        if self.next.upper() not in wanted:
            return False
        self.take()
        return True

    def expect(self, wanted: str) -> None:
        if not self.take_if(wanted):
            raise UnreadableDdl(self.next)


def _tokens(ddl: str) -> Iterator[str]:
    at, end = 0, len(ddl.rstrip())
    while at < end:
        found = _TOKEN.match(ddl, at)
        if found is None:
            raise UnreadableDdl(ddl[at:])
        yield found[found.lastindex or 0]
        at = found.end()


def _columns(tokens: _Tokens, supported: Collection[str], *, closing: str) -> str | None:
    names: set[str] = set()
    while True:
        name = tokens.take().strip("`").lower()
        if not name or name in names:
            raise UnreadableDdl(name)
        names.add(name)
        tokens.take_if(":")
        if found := _type(tokens, supported):
            return found
        if tokens.take_if("NOT"):
            tokens.expect("NULL")
        if tokens.take_if("COMMENT"):
            tokens.take()
        if tokens.next == closing:
            return None
        tokens.expect(",")


def _type(tokens: _Tokens, supported: Collection[str]) -> str | None:
    name = tokens.take().upper()
    if name == "ARRAY":
        tokens.expect("<")
        found = _type(tokens, supported)
    elif name == "STRUCT":
        tokens.expect("<")
        found = _columns(tokens, supported, closing=">")
    elif name in _DECIMALS:
        if tokens.take_if("("):
            while not tokens.take_if(")"):
                if not tokens.take():
                    raise UnreadableDdl("(")
        return None
    else:
        return None if name in supported else name
    if found is None:
        tokens.expect(">")
    return found
