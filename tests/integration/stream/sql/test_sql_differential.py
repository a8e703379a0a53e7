"""What SQL gives on Arrow is what it gives in Spark, whatever the expression and the values.

FUZZED_QUERIES says how many (3, of 12 expressions each), FUZZED_SEED which (1).
"""

from __future__ import annotations

import os
import re
from collections import Counter

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from bucketingest.decode.sql.nodes import RowsInDoubt
from bucketingest.decode.sql.program import Program
from bucketingest.decode.sql.strings import SIMPLE_TEXT
from bucketingest.decode.sql.words import why_spark
from bucketingest.stream.source.spark_plan import NotOnArrow, read_program
from bucketingest.stream.spark.session import prepared
from support.decoding.sql_queries import SqlCases

ROWS = 40
EXPRESSIONS = 12
SHOWN = 10


@pytest.fixture
def count() -> int:
    return int(os.environ.get("FUZZED_QUERIES", "3"))


def texts(values: pa.Array) -> list[str]:
    """Each value, so that all different ones differ: -0.0 and 0.0, too."""
    if pa.types.is_timestamp(values.type):
        values = values.view(pa.int64())
    if pa.types.is_date32(values.type):
        values = values.view(pa.int32())
    if pa.types.is_struct(values.type):  # its times, too, may be ones that Python has not
        fields = zip(*map(texts, values.flatten()), strict=True)
        return [
            str(found) if valid else "None" for found, valid in zip(fields, values.is_valid().to_pylist(), strict=True)
        ]
    return [repr(value) for value in values.to_pylist()]


def shown(row: pa.RecordBatch) -> dict[str, str]:
    return {name: texts(column)[0] for name, column in zip(row.schema.names, row.columns, strict=True)}


def program_of(spark: SparkSession, sql: str, source: pa.Schema) -> Program:
    return read_program(spark.sql(sql), source)


def decided(program: Program, rows: pa.RecordBatch) -> tuple[list[int], pa.RecordBatch]:
    """The rows that are not in doubt, and what they give."""
    try:
        return list(range(len(rows))), program.apply(rows)
    except RowsInDoubt:
        pass
    sure, found = [], []
    for at in range(len(rows)):
        try:
            found.append(program.apply(rows.slice(at, 1)))
        except RowsInDoubt:
            continue
        sure.append(at)
    made = pa.Table.from_batches(found, program.schema).combine_chunks()
    (batch,) = made.to_batches() or [pa.RecordBatch.from_pylist([], program.schema)]
    return sure, batch


def source_view(spark: SparkSession, rows: pa.RecordBatch, *, compiled: bool) -> None:
    """The rows as the view that SQL reads; Spark evaluates it as it does everywhere, or without compiling it."""
    limit = "spark.sql.execution.arrow.localRelationThreshold"
    before = spark.conf.get(limit)
    spark.conf.set(limit, "0" if compiled else "48MB")
    spark.createDataFrame(pa.Table.from_batches([rows])).createOrReplaceTempView("source")
    spark.conf.set(limit, before or "48MB")


def test_every_value_of_every_expression_is_sparks(spark: SparkSession, count: int) -> None:
    """A row in doubt has no value here. Spark evaluates all others at once: it must not fail."""
    cases = SqlCases(int(os.environ.get("FUZZED_SEED", "1")))
    seen: Counter[str] = Counter()
    wrong: list[str] = []
    with prepared(spark):
        for number in range(count):
            rows = cases.rows(ROWS)
            source_view(spark, rows, compiled=bool(number % 2))
            wrong += differences(spark, rows, cases.select(EXPRESSIONS), seen, compiled=bool(number % 2))
    assert not wrong, f"{len(wrong)} of {seen}:\n" + "\n".join(wrong[:SHOWN])
    assert seen["on Arrow"] > seen["in Spark"], seen
    assert seen["values"] > 2 * seen["in doubt"], seen


def differences(
    spark: SparkSession, rows: pa.RecordBatch, expressions: list[str], seen: Counter[str], *, compiled: bool
) -> list[str]:
    """In words, what is not the same."""
    wrong: list[str] = []
    ours: list[tuple[str, list[int], pa.Array]] = []
    for sql in expressions:
        try:
            program = program_of(spark, f"SELECT {sql} AS made FROM source", rows.schema)
        except AnalysisException:
            seen["no SQL"] += 1
            continue
        except NotOnArrow:
            seen["in Spark"] += 1
            continue
        if (why := why_spark(sql)) is not None:
            wrong.append(f"{sql}: its text is refused, it {why}")
        sure, found = decided(program, rows)
        seen["on Arrow"] += 1
        seen["values"] += len(sure)
        seen["in doubt"] += len(rows) - len(sure)
        ours.append((sql, sure, found.column(0)))
    if not ours:
        return wrong
    flags = [pa.array([at in set(sure) for at in range(len(rows))]) for _, sure, _ in ours]
    marked = pa.RecordBatch.from_arrays(
        [*rows.columns, *flags, pa.array(range(len(rows)))],
        names=[*rows.schema.names, *(f"sure{at}" for at in range(len(ours))), "number"],
    )
    source_view(spark, marked, compiled=compiled)
    parts = [
        sql if len(sure) == len(rows) else f"CASE WHEN sure{at} THEN {sql} END"
        for at, (sql, sure, _) in enumerate(ours)
    ]
    theirs = answers(spark, parts)
    for at, (sql, sure, found) in enumerate(ours):
        column = theirs[at] if theirs is not None else (answers(spark, [parts[at]]) or [None])[0]
        if column is None:
            wrong.append(f"{sql}: Spark fails, we do not")
            continue
        values = column.take(pa.array(sure, pa.int64()))
        if values.type != found.type:
            wrong.append(f"{sql}: {values.type} for Spark, {found.type} for us")
        wrong += [
            f"{sql}: Spark has {one}, we have {other}: {shown(rows.slice(row, 1))}"
            for row, one, other in zip(sure, texts(values), texts(found), strict=True)
            if one != other
        ][:1]
    return wrong


def test_whole_queries_give_sparks_rows_or_are_in_doubt(spark: SparkSession, count: int) -> None:
    """Where Spark fails with a row, the rows are in doubt."""
    cases = SqlCases(int(os.environ.get("FUZZED_SEED", "1")) + 1_000_000)
    seen: Counter[str] = Counter()
    with prepared(spark):
        for number in range(count):
            rows = cases.rows(ROWS).append_column("number", pa.array(range(ROWS)))
            source_view(spark, rows, compiled=bool(number % 2))
            for _ in range(3):
                sql = cases.query(2)
                seen[verdict(spark, rows, sql)] += 1
    assert seen["same"], seen
    if count > 20:
        assert seen["in doubt"], seen


def verdict(spark: SparkSession, rows: pa.RecordBatch, sql: str) -> str:
    """What a query turned out to be. Fails if it is not the same."""
    try:
        program = program_of(spark, sql, rows.schema)
        ours = program.apply(rows)
    except AnalysisException:
        return "no SQL"
    except NotOnArrow:
        return "in Spark"
    except RowsInDoubt:
        return "in doubt"
    theirs = spark.sql(sql).toArrow().sort_by("number").combine_chunks()
    assert theirs.schema.equals(ours.schema), sql
    for name in ours.schema.names:
        column = pa.concat_arrays(theirs.column(name).chunks or [pa.nulls(0, theirs.column(name).type)])
        assert texts(column) == texts(ours.column(name)), f"{name} of {sql}"
    return "same"


def test_letters_that_change_their_case_here_change_it_as_in_spark(spark: SparkSession) -> None:
    """All of them, each alone and between others."""
    letters = [chr(number) for number in range(1, 0x10000) if re.fullmatch(SIMPLE_TEXT, chr(number))]
    assert len(letters) > 10_000
    rows = pa.RecordBatch.from_pydict({"a": [text for each in letters for text in (each, f"a{each}", f"B{each}c")]})
    with prepared(spark):
        source_view(spark, rows, compiled=False)
        for name in ("lower", "upper"):
            sql = f"SELECT {name}(a) AS made, length(a) AS long FROM source"
            made = program_of(spark, sql, rows.schema).apply(rows)
            found = spark.sql(sql).toArrow().combine_chunks()
            for column in ("made", "long"):
                assert pa.concat_arrays(found.column(column).chunks).equals(made.column(column))


def answers(spark: SparkSession, parts: list[str]) -> list[pa.Array] | None:
    """Spark's columns; None if it fails."""
    made = ", ".join(f"{sql} AS made{at}" for at, sql in enumerate(parts))
    try:
        found = spark.sql(f"SELECT number, {made} FROM source").toArrow().sort_by("number").combine_chunks()
    except PySparkException:
        return None
    return [pa.concat_arrays(column.chunks) for column in found.columns[1:]]
