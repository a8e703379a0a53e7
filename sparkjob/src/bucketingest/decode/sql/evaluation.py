"""Evaluates expressions for the rows of a batch.

An operand that may fail is evaluated only for the rows whose value it decides, as Spark does: `CASE WHEN n <> 0 THEN
a / n END` does not fail. All others are evaluated for all rows, which is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.decode.sql.kernels import KERNELS
from bucketingest.decode.sql.nodes import Node, Operand, as_array

Places = npt.NDArray[np.int64]


class Rows:
    """Some rows of a batch. A column's values are picked when it is asked for."""

    def __init__(self, columns: Sequence[pa.Array], length: int, picked: Places | None = None) -> None:
        self._columns = columns
        self._picked = picked
        self.length = length if picked is None else len(picked)

    def column(self, number: int) -> pa.Array:
        """The values of these rows."""
        column = self._columns[number]
        return column if self._picked is None else column.take(pa.array(self._picked))

    def at(self, places: Places) -> Rows:
        """Those of these rows that are at the places."""
        if len(places) == self.length:
            return self
        return Rows(self._columns, 0, places if self._picked is None else self._picked[places])


def evaluate(node: Node, rows: Rows) -> pa.Array:
    """The values. Raises RowsInDoubt."""
    return as_array(_operand(node, rows), rows.length)


def literal(node: Node) -> pa.Scalar:
    """A literal's value."""
    value: Any = node.value
    if value is not None and pa.types.is_temporal(node.type):
        whole = pa.array([value], pa.int32() if pa.types.is_date32(node.type) else pa.int64())
        return whole.view(node.type)[0]
    return pa.scalar(value, node.type)


def may_stop(node: Node) -> bool:
    """Whether RowsInDoubt may be raised for it."""
    kernel = KERNELS.get(node.kind)
    if kernel is not None and (kernel.fails(node) or kernel.doubts(node)):
        return True
    return any(may_stop(each) for each in node.nodes)


def true_at(conditions: pa.BooleanArray) -> Places:
    """Where it is true: neither false nor null."""
    return np.flatnonzero(pc.fill_null(conditions, False).to_numpy(zero_copy_only=False))  # noqa: FBT003


def _operand(node: Node, rows: Rows) -> Operand:
    if node.is_literal:
        return literal(node)
    if node.kind == "AttributeReference":
        return rows.column(node.value)
    if (choose := _CHOICES.get(node.kind)) is not None:
        return choose(node, rows)
    operands = [_operand(each, rows) for each in node.nodes]
    if all(isinstance(each, pa.Scalar) for each in operands):
        operands = [as_array(each, rows.length) for each in operands]
    return KERNELS[node.kind].run(node, operands)


def _and(node: Node, rows: Rows) -> pa.Array:
    return _either(node, rows, pc.and_kleene, decided_by=False)


def _or(node: Node, rows: Rows) -> pa.Array:
    return _either(node, rows, pc.or_kleene, decided_by=True)


def _either(node: Node, rows: Rows, join: Callable[[pa.Array, pa.Array], pa.Array], *, decided_by: bool) -> pa.Array:
    first, second = node.nodes
    ours = evaluate(first, rows)
    if not may_stop(second):
        return join(ours, evaluate(second, rows))
    left = true_at(pc.fill_null(pc.not_equal(ours, pa.scalar(decided_by)), True))  # noqa: FBT003
    return join(ours, _joined([evaluate(second, rows.at(left))], [left], rows.length, node.type))


def _case(node: Node, rows: Rows) -> pa.Array:
    branches = node.nodes[: len(node.nodes) // 2 * 2]
    otherwise = node.nodes[-1] if len(node.nodes) % 2 else None
    pairs = list(zip(branches[::2], branches[1::2], strict=True))
    if not any(may_stop(each) for each in node.nodes):
        value: Operand = pa.scalar(None, node.type) if otherwise is None else evaluate(otherwise, rows)
        for condition, chosen in reversed(pairs):
            is_true = pc.fill_null(evaluate(condition, rows), False)  # noqa: FBT003
            value = pc.if_else(is_true, evaluate(chosen, rows), value)
        return as_array(value, rows.length)
    left = np.arange(rows.length)
    values, places = [], []
    for condition, chosen in pairs:
        true = true_at(evaluate(condition, rows.at(left)))
        values.append(evaluate(chosen, rows.at(left).at(true)) if len(true) else pa.nulls(0, node.type))
        places.append(left[true])
        left = np.delete(left, true)
    if otherwise is not None and len(left):
        values.append(evaluate(otherwise, rows.at(left)))
        places.append(left)
    return _joined(values, places, rows.length, node.type)


def _coalesce(node: Node, rows: Rows) -> pa.Array:
    value = evaluate(node.nodes[0], rows)
    for other in node.nodes[1:]:
        if not value.null_count:
            break
        if may_stop(other):
            left = np.flatnonzero(value.is_null().to_numpy(zero_copy_only=False))
            others = _joined([evaluate(other, rows.at(left))], [left], rows.length, node.type)
        else:
            others = evaluate(other, rows)
        value = pc.if_else(value.is_valid(), value, others)
    return value


def _joined(values: list[pa.Array], places: list[Places], length: int, kind: pa.DataType) -> pa.Array:
    """The values at their places, null at the others."""
    joined = pa.concat_arrays([pa.nulls(0, kind), *values])
    order = np.full(length, -1)
    order[np.concatenate(places)] = np.arange(len(joined))
    return joined.take(pa.array(order, mask=order < 0))


_CHOICES: Final = {"And": _and, "Or": _or, "CaseWhen": _case, "If": _case, "Coalesce": _coalesce}
