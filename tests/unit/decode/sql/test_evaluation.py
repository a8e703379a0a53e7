"""Expressions are evaluated where their value counts, and raise where Spark would fail or may give something else."""

from __future__ import annotations

import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from bucketingest.decode.sql.evaluation import Rows, evaluate
from bucketingest.decode.sql.kernels import KERNELS
from bucketingest.decode.sql.nodes import Node, RowsInDoubt
from bucketingest.decode.sql.program import Program, Select, Where, failing_twice, is_reordered

BATCH = pa.RecordBatch.from_pydict(
    {
        "n": pa.array([4, 0, None, -7], pa.int64()),
        "m": pa.array([2, 5, 0, -2], pa.int64()),
        "a": pa.array(["x", None, "z", "12"]),
        "d": pa.array([0.5, float("nan"), -0.0, None]),
    }
)
N, M, A, D = (Node("AttributeReference", field.type, value=at) for at, field in enumerate(BATCH.schema))
FLAG = pa.bool_()


def number(value: int | None) -> Node:
    return Node("Literal", pa.int64(), value=value)


def call(kind: str, type_: pa.DataType, *nodes: Node, value: Any = None) -> Node:
    return Node(kind, type_, nodes, value, text=kind)


def values(node: Node) -> list[Any]:
    return evaluate(node, Rows(BATCH.columns, BATCH.num_rows)).to_pylist()


NOT_ZERO = call("Not", FLAG, call("EqualTo", FLAG, N, number(0)))
DIVIDED = call("IntegralDivide", pa.int64(), number(9), N)


def test_a_division_by_zero_is_in_doubt() -> None:
    with pytest.raises(RowsInDoubt, match="IntegralDivide"):
        values(DIVIDED)


@pytest.mark.parametrize(
    ("node", "wanted"),
    [
        (call("CaseWhen", pa.int64(), NOT_ZERO, DIVIDED), [2, None, None, -1]),
        (call("CaseWhen", pa.int64(), NOT_ZERO, DIVIDED, number(5)), [2, 5, 5, -1]),
        (call("If", pa.int64(), call("EqualTo", FLAG, N, number(0)), M, DIVIDED), [2, 5, None, -1]),
        (call("And", FLAG, NOT_ZERO, call("GreaterThan", FLAG, DIVIDED, number(0))), [True, False, None, False]),
        (
            call("Or", FLAG, call("EqualTo", FLAG, N, number(0)), call("LessThan", FLAG, DIVIDED, number(0))),
            [False, True, None, True],
        ),
        (call("Coalesce", pa.int64(), call("CaseWhen", pa.int64(), NOT_ZERO, N), M), [4, 5, 0, -7]),
        (
            call("Coalesce", pa.int64(), call("CaseWhen", pa.int64(), call("IsNotNull", FLAG, N), number(1)), DIVIDED),
            [1, 1, None, 1],
        ),
    ],
)
def test_what_can_fail_is_evaluated_only_where_it_counts(node: Node, wanted: list[Any]) -> None:
    assert values(node) == wanted


@pytest.mark.parametrize(
    "node",
    [
        call("Add", pa.int64(), N, number(2**63 - 1)),
        call("UnaryMinus", pa.int64(), call("Add", pa.int64(), N, number(-(2**63) + 7))),
        call("Divide", pa.float64(), D, D),
        call("Remainder", pa.int64(), number(1), M),
        call("Cast", pa.int64(), A),
        call("Cast", pa.int64(), D),
        call("Cast", pa.int16(), call("Multiply", pa.int64(), N, number(10_000))),
        call("Cast", pa.decimal128(2, 2), N),
        call("Cast", pa.date32(), A),
        call("Cast", pa.timestamp("us", "UTC"), call("Multiply", pa.int64(), M, number(10**18 // 2))),
        call("Lower", pa.string(), call("Concat", pa.string(), A, Node("Literal", pa.string(), value="Σ"))),
        call(
            "DateFormatClass",
            pa.string(),
            call("SecondsToTimestamp", pa.timestamp("us", "UTC"), call("Multiply", pa.int64(), M, number(-(10**11)))),
            Node("Literal", pa.string(), value="yyyy"),
        ),
    ],
)
def test_where_spark_fails_or_is_not_known_rows_are_in_doubt(node: Node) -> None:
    assert KERNELS[node.kind].takes(node)
    with pytest.raises(RowsInDoubt):
        values(node)


@pytest.mark.parametrize(
    "node",
    [
        call("Divide", pa.decimal128(11, 6), *(Node("Literal", pa.decimal128(5, 2), value=Decimal(1)) for _ in "ab")),
        call("Multiply", pa.decimal128(38, 6), *(Node("AttributeReference", pa.decimal128(20, 4)) for _ in "ab")),
        call("Add", pa.decimal128(10, 2), *(Node("AttributeReference", pa.decimal128(10, 2)) for _ in "ab")),
        call("Cast", pa.string(), D),
        call("Cast", pa.decimal128(10, 2), D),
        call("Cast", pa.string(), Node("AttributeReference", pa.decimal128(10, 7))),
        call("Cast", pa.binary(), A),
        call("EqualTo", FLAG, *(Node("AttributeReference", pa.list_(pa.int32())) for _ in "ab")),
        call("EqualTo", FLAG, N, D),
        call("Concat", pa.list_(pa.int32()), *(Node("AttributeReference", pa.list_(pa.int32())) for _ in "ab")),
        call("StringTrim", pa.string(), A, A),
        call("Substring", pa.string(), A, number(-1), number(2)),
        call("Like", FLAG, A, Node("Literal", pa.string(), value="a_b")),
        call("Like", FLAG, A, A),
        call(
            "DateFormatClass",
            pa.string(),
            *(
                Node("Literal", kind, value=value)
                for kind, value in ((pa.timestamp("us", "UTC"), 0), (pa.string(), "dd.MMMM.yyyy"))
            ),
        ),
    ],
)
def test_what_is_not_proven_is_not_taken(node: Node) -> None:
    assert not KERNELS[node.kind].takes(node)


def test_nan_equals_itself_and_is_the_greatest() -> None:
    one = Node("Literal", pa.float64(), value=float("nan"))
    assert values(call("EqualTo", FLAG, D, one)) == [False, True, False, None]
    assert values(call("LessThan", FLAG, D, one)) == [True, False, True, None]
    assert values(call("GreaterThanOrEqual", FLAG, D, one)) == [False, True, False, None]


def test_a_null_in_a_list_is_null_unless_another_is_equal() -> None:
    assert values(call("In", FLAG, N, number(4), number(None))) == [True, None, None, None]


def test_a_program_selects_and_filters_in_its_order() -> None:
    schema = pa.schema([("q", pa.int64()), ("a", pa.string())])
    program = Program(
        (
            Where(NOT_ZERO),
            Select((DIVIDED, A)),
            Where(call("LessThan", FLAG, Node("AttributeReference", pa.int64(), value=0), number(2))),
        ),
        schema,
    )
    made = pickle.loads(pickle.dumps(program)).apply(BATCH)
    assert made.schema == schema
    assert made.to_pylist() == [{"q": -1, "a": "12"}]
    assert program.apply(BATCH.slice(0, 0)).num_rows == 0


def test_sums_that_spark_may_reorder_are_known() -> None:
    added = call("Add", pa.int64(), N, number(1))
    assert not is_reordered(added)
    assert not is_reordered(call("Add", pa.int64(), call("Add", pa.int64(), N, M), M)), "there is no constant"
    assert not is_reordered(call("Add", pa.int64(), call("Multiply", pa.int64(), N, number(2)), number(1)))
    assert is_reordered(call("Add", pa.int64(), added, number(1)))
    assert is_reordered(call("Add", pa.int64(), M, added))
    assert is_reordered(call("Multiply", pa.int64(), number(3), call("Multiply", pa.int64(), N, number(3))))


def test_what_can_fail_and_is_needed_in_some_rows_only_may_not_stand_twice() -> None:
    guarded = call("CaseWhen", pa.int64(), NOT_ZERO, DIVIDED)
    other = call("If", pa.int64(), NOT_ZERO, DIVIDED, M)
    assert failing_twice(Select((guarded, M))) is None
    assert failing_twice(Select((guarded, other))) == DIVIDED
    assert failing_twice(Select((guarded, other, DIVIDED))) is None, "Spark fails with it anyway"
    assert failing_twice(Where(call("Or", FLAG, call("IsNull", FLAG, guarded), call("IsNull", FLAG, other)))) == DIVIDED
