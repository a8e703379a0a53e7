"""Whether SQL makes at most one row of a message, and keeps what identifies it. A table to which messages are appended
has no other key: of two rows of a message one would be lost, in silence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pyspark.sql import DataFrame

_ROW_BY_ROW: Final = frozenset({"Filter", "Project", "SubqueryAlias"})


def why_not_appended(shaped: DataFrame, key: Sequence[str]) -> str | None:
    """What speaks against it, in words that follow "spec.transform.sql"; None if nothing does. Nothing is read."""
    plan: Any = shaped._jdf.queryExecution().analyzed()  # noqa: SLF001 - PySpark has no other way
    inner = plan
    while (name := str(inner.getClass().getSimpleName())) in _ROW_BY_ROW:
        inner = inner.children().apply(0)
    if name != "View":
        return f"has the operator {name}, and of a message only SELECT and WHERE surely make one row at most"
    kept = _columns(inner)
    for column, number in _columns(plan).items():
        if column in key and kept.get(column) != number:
            return f"makes {column} itself, which says which message a row is"
    return None


def _columns(plan: Any) -> dict[str, int]:
    """Spark's numbers of the columns. A column that is handed on keeps its own."""
    output = plan.output()
    return {str(each.name()): int(each.exprId().id()) for each in map(output.apply, range(output.size()))}
