"""What of SQL's text says that Spark has to evaluate it: as far as that is clear without Spark, which parses it.

Text that looks fine here may still have types that are Spark's; nothing is evaluated by this look.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Final

from bucketingest.spec.errors import Problem
from bucketingest.spec.model import BucketIngestSpec

_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<skip>--[^\r\n]*|/\*(?:[^*/]|\*(?!/)|/(?!\*)|/\*(?>.*?\*/))*+\*/)
    | (?P<text>[rR](?:'[^']*'|"[^"]*")|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    | (?P<name>`(?:[^`]|``)+`)
    | (?P<word>[A-Za-z_][A-Za-z_0-9]*)
    | (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[A-Za-z]*)
    | (?P<sign><=>|<>|!=|<=|>=|==|\|\||::|\|>|->|.)
    )""",
    re.VERBOSE | re.DOTALL,
)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FUNCTIONS: Final = _words("""
    abs bigint boolean btrim char_length character_length coalesce concat concat_ws contains date date_format date_trunc
    day dayofmonth decimal double endswith float hour if ifnull int isnan isnotnull isnull lcase left len length lower
    ltrim minute mod month named_struct negative nullif nvl nvl2 rtrim second smallint startswith string struct substr
    substring timestamp timestamp_micros timestamp_millis timestamp_seconds tinyint to_date trim trunc ucase
    unix_micros unix_millis unix_seconds upper year
""")
_BEFORE_BRACKET: Final = _words("""
    and as between by case cast date dec decimal distinct div else from in is like not numeric on or over select
    then timestamp using values when where
""")
"""Words that may stand before a bracket without being called."""
_PHRASES: Final = _words("""
    cluster_by distribute_by group_by order_by partition_by select_distinct sort_by union_all union_select
""")
_WORDS: Final = _words("""
    except having ilike intersect interval join lateral over pivot regexp rlike tablesample union unpivot with
""")
_SIGNS: Final = frozenset(["[", "|>", "->", "&", "|", "^", "~", "?", "{", "@"])
_NUMBERED: Final = frozenset(["limit", "offset"])


_BEGINNINGS: Final = _words("select with from values table map reduce")
_SOURCES: Final = _words("from table join")
_QUOTES: Final = frozenset("'\"`")
_OPEN_ENDS: Final = _words("= == <=> <> != < <= > >= || + - * / % and or not in is like between")
_TRUTHS: Final = _words("true false null")
_BRACKETS: Final = {"(": ")", "[": "]"}


def why_spark(sql: str) -> str | None:
    """Why it is Spark's, in words that follow where it stands; None if nothing is seen."""
    tokens = _tokens(sql)
    for (kind, token), (next_kind, following) in pairwise([*tokens, ("end", "")]):
        if kind == "sign" and token in _SIGNS:
            return f"has {token}"
        if kind != "word":
            continue
        if token in _WORDS or (token in _NUMBERED and next_kind == "number"):
            return f"has {token.upper()}"
        if f"{token}_{following}" in _PHRASES:
            return f"has {token.upper()} {following.upper()}"
        if following == "(" and token not in _FUNCTIONS and token not in _BEFORE_BRACKET:
            return f"calls {token}"
    return None


def sql_problems(spec: BucketIngestSpec, columns: Collection[str] | None = None) -> list[Problem]:
    """What of a spec's SQL can be no SQL. The operator's webhook says it too: so this needs no other library.
    `columns`: names of the table's columns; None: unknown.
    """
    found = []
    if (why := why_no_query(spec.transform.sql)) is not None:
        found.append(Problem("spec.transform.sql", why))
    if spec.table.delete_when is not None and (why := why_no_predicate(spec.table.delete_when, columns)) is not None:
        found.append(Problem("spec.table.deleteWhen", why))
    return found


def why_no_query(sql: str) -> str | None:
    """Why it is no query of the view `source`, in words that follow where it stands; None if nothing is seen."""
    if (why := why_unclosed(sql)) is not None:
        return why
    tokens = [text.strip("`") for _, text in _tokens(sql)]
    begins = next((text for text in tokens if text != "("), "")
    if begins not in _BEGINNINGS:
        return f"begins with {begins!r}, not with SELECT"
    if ("source" not in (text.lower() for text in tokens)) or not _SOURCES & set(tokens):
        return "does not read the view source: SELECT ... FROM source"
    return None


def why_unclosed(sql: str) -> str | None:
    """Which quote or bracket has no other half, in words that follow where it stands; None if all have."""
    closings: list[str] = []
    for kind, text in _tokens(sql):
        if kind == "sign" and text in _QUOTES:
            return f"has a {text} that is not closed"
        if kind == "sign" and text in _BRACKETS:
            closings.append(_BRACKETS[text])
        elif kind == "sign" and text in _BRACKETS.values() and (not closings or closings.pop() != text):
            return f"has a {text} that closes nothing"
    return f"has a bracket that is not closed with {closings[-1]}" if closings else None


def why_no_predicate(sql: str, columns: Collection[str] | None) -> str | None:
    """Why it decides nothing, in words that follow where it stands; None if nothing is seen. `columns`: names of the
    rows' columns; None: unknown.
    """
    if (why := why_unclosed(sql)) is not None:
        return why
    tokens = _tokens(sql)
    if not tokens:
        return "is empty"
    kind, last = tokens[-1]
    if last in _OPEN_ENDS and kind != "text":
        return f"ends with {last.upper()}"
    named = last.strip("`")
    alone = len(tokens) == 1 or (len(tokens) == 2 and tokens[0][1] == "not")
    if not alone or kind not in {"word", "name"} or columns is None or named in _TRUTHS:
        return None
    if named.lower() in {column.lower() for column in columns}:
        return None
    return f"names the column {named}; the rows have {', '.join(columns)}"


def _tokens(sql: str) -> Sequence[tuple[str, str]]:
    """Kinds and texts, words in lower case; without comments and white space."""
    found = [(each.lastgroup or "", each.group(each.lastgroup or 0)) for each in _TOKEN.finditer(sql)]
    return [(kind, text.lower() if kind == "word" else text) for kind, text in found if kind != "skip" and text.strip()]
