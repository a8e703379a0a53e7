"""Of which message each row is where Spark evaluates the SQL: the message is handed on beside the columns, through
Spark's plan. Only rows that have no place in the table need it, so a micro-batch is read a second time for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame

from bucketingest.stream.source.decoding import MESSAGE, Decoded
from bucketingest.write.plan import WritePlan
from bucketingest.write.rows.chunks import ChunkSize, chunks_of
from bucketingest.write.rows.shuffle import rejected_rows

NOW: Final = re.compile(
    r"(?i)\b(?:now|curdate|getdate|sysdate|localtimestamp|current_(?:timestamp|date|time)|unix_timestamp)\b"
)
"""SQL whose result depends on when it is evaluated. Spark says so of its own plan only after it has set the time."""
ROW_BY_ROW: Final = frozenset({"Filter", "Project", "SubqueryAlias"})
"""Operators of Spark's plans that make at most one row of each."""
_OF_ONE_ROW: Final = ROW_BY_ROW | {"Generate"}
"""Those whose rows are each made of one row."""


def below(plan: Any, operators: frozenset[str]) -> tuple[str, Any]:
    """The first operator that is none of these, and its name."""
    while (name := _name(plan)) in operators:
        plan = plan.children().apply(0)
    return name, plan


def is_traced(shaped: DataFrame, sql: Iterable[str]) -> bool:
    """Whether each of these rows is made of one message, and would be the same again. Nothing is read. `shaped`: of
    good and bad rows, since the filter for good ones counts as different each time.
    """
    plan = _inlined(shaped)
    return below(plan, _OF_ONE_ROW)[0] == "View" and not any(map(NOW.search, sql)) and bool(plan.deterministic())


def traced(decoded: Decoded, table_rows: Callable[[DataFrame], DataFrame]) -> DataFrame:
    """The table's rows and, as the last column, the message of each, for rows of which `is_traced` is true."""
    wide = decoded.good_with_messages()
    plan, _ = _handed_on(_inlined(table_rows(wide.drop(MESSAGE))))
    session: Any = wide.sparkSession
    there = session._jvm.org.apache.spark.sql.classic.Dataset  # noqa: SLF001 - PySpark has no other way
    return DataFrame(there.ofRows(session._jsparkSession, plan), session)  # noqa: SLF001


def rejected_messages(batches: Iterable[pa.RecordBatch], plan: WritePlan) -> Iterator[pa.RecordBatch]:
    """The messages of those rows that have no place, as the dead-letter table's columns from `reason` on. `batches`:
    rows as `traced` makes them.
    """
    for batch in batches:
        messages: pa.StructArray = batch.column(batch.num_columns - 1)
        of_table = batch.select(batch.schema.names[:-1])
        for rows in chunks_of([of_table], plan, ChunkSize.of(plan)):
            if (rejected := rejected_rows(rows, plan)) is None:
                continue
            of_rejected = messages.take(pa.array(rejected.rows))
            columns: dict[str, pa.Array] = {
                "reason": pa.array([reason for reason, _ in rejected.reasons]),
                "detail": pa.array([detail for _, detail in rejected.reasons]),
            }
            columns |= dict(zip(of_rejected.type.names, of_rejected.flatten(), strict=True))
            yield pa.RecordBatch.from_pydict(columns)


def analyzed(rows: DataFrame) -> Any:
    """Spark's plan, with types and columns."""
    return rows._jdf.queryExecution().analyzed()  # noqa: SLF001 - PySpark has no other way


def numbers_of(plan: Any) -> dict[str, int]:
    """Spark's numbers of the columns. A column that is handed on keeps its own."""
    return {str(each.name()): int(each.exprId().id()) for each in _outputs(plan)}


def _inlined(shaped: DataFrame) -> Any:
    """Spark's plan, with what WITH names in the place where it is used."""
    session: Any = shaped.sparkSession
    rules = session._jvm.org.apache.spark.sql.catalyst.optimizer  # noqa: SLF001 - PySpark has no other way
    return rules.InlineCTE(True, False).apply(analyzed(shaped))  # noqa: FBT003 - always, and nothing that is not used


def _handed_on(plan: Any) -> tuple[Any, Any]:
    """The plan with the column of messages, which comes from below the view, and that column."""
    name, child = _name(plan), plan.children().apply(0)
    if name == "View":
        column = next(each for each in _outputs(child.child()) if str(each.name()) == MESSAGE)
        return child.copy(child.projectList().appended(column), child.child()), column
    child, column = _handed_on(child)
    if name == "Project":
        return plan.copy(plan.projectList().appended(column), child), column
    return plan.withNewChildren(plan.children().updated(0, child)), column


def _name(plan: Any) -> str:
    return str(plan.getClass().getSimpleName())


def _outputs(plan: Any) -> list[Any]:
    output = plan.output()
    return [output.apply(at) for at in range(output.size())]
