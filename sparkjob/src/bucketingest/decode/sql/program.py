"""A SELECT, with its WHERE and its inner SELECTs, as steps from a batch of rows to another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from bucketingest.decode.sql.evaluation import Places, Rows, evaluate, true_at
from bucketingest.decode.sql.kernels import CHOICES, KERNELS
from bucketingest.decode.sql.nodes import Node, RowsInDoubt


@dataclass(frozen=True, slots=True)
class Where:
    """Keeps the rows for which it is true."""

    condition: Node


@dataclass(frozen=True, slots=True)
class Select:
    """Makes all columns anew."""

    columns: tuple[Node, ...]


Step = Where | Select


@dataclass(frozen=True, slots=True)
class Program:
    """What is done with decoded rows, in this order. Picklable."""

    steps: tuple[Step, ...]
    schema: pa.Schema
    """Of the result, as Spark has it."""

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The table's rows. Raises RowsInDoubt, also for whatever Arrow refuses: Spark may do it."""
        return self.apply_numbered(batch)[0]

    def apply_numbered(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Places]:
        """The table's rows, and of each from which row it is made. Raises RowsInDoubt."""
        try:
            return self._applied(batch)
        except pa.ArrowException as error:
            raise RowsInDoubt(f"Arrow refuses a value: {type(error).__name__}") from None

    def _applied(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Places]:
        numbers: Places = np.arange(batch.num_rows)
        rows = Rows(batch.columns, batch.num_rows)
        width = batch.num_columns
        for step in self.steps:
            if isinstance(step, Where):
                places = true_at(evaluate(step.condition, rows))
                rows, numbers = rows.at(places), numbers[places]
            else:
                rows = Rows([evaluate(each, rows) for each in step.columns], rows.length)
                width = len(step.columns)
        columns = [rows.column(number) for number in range(width)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema), numbers

    def with_types_of(self, source: pa.Schema) -> pa.Schema:
        """What is made of no rows at all: its types are those of the columns, whatever `schema` says."""
        columns = [pa.nulls(0, field.type) for field in source]
        for step in self.steps:
            rows = Rows(columns, 0)
            if isinstance(step, Select):
                columns = [evaluate(each, rows) for each in step.columns]
        return pa.schema([field.with_type(each.type) for field, each in zip(self.schema, columns, strict=True)])


def over_source(node: Node, columns: Sequence[Node] | None) -> Node:
    """The expression with those of an inner SELECT in place of its columns, as Spark may join both. None: no SELECT."""
    if columns is None:
        return node
    if node.kind == "AttributeReference":
        return columns[node.value]
    return replace(node, nodes=tuple(over_source(each, columns) for each in node.nodes))


def reordered_in(node: Node) -> Node | None:
    """The first expression in this one that Spark may compute in another order."""
    return next((each for each, _ in _all(node, is_sure=True) if is_reordered(each)), None)


def is_reordered(node: Node) -> bool:
    """Whether Spark may add (or multiply) whole numbers in another order, the constants together, and so overflow where
    this order does not.
    """
    if node.kind not in {"Add", "Multiply"} or not pa.types.is_integer(node.type):
        return False
    operands = list(_operands_of(node, node.kind))
    return len(operands) > 2 and any(_is_fixed(each) for each in operands)


def _operands_of(node: Node, kind: str) -> Iterator[Node]:
    for each in node.nodes if node.kind == kind else ():
        yield from _operands_of(each, kind) if each.kind == kind else (each,)


def _is_fixed(node: Node) -> bool:
    return node.kind != "AttributeReference" and all(_is_fixed(each) for each in node.nodes)


def failing_twice(step: Step) -> Node | None:
    """An expression that can fail and that Spark may evaluate before it is sure to be needed, because it stands more
    than once where it is not always needed. None if there is none.
    """
    sure: set[Node] = set()
    unsure: Counter[Node] = Counter()
    for root in (step.condition,) if isinstance(step, Where) else step.columns:
        for node, is_sure in _all(root, is_sure=True):
            kernel = KERNELS.get(node.kind)
            if kernel is None or not kernel.fails(node):
                continue
            if is_sure:
                sure.add(node)
            else:
                unsure[node] += 1
    return next((node for node, count in unsure.items() if count > 1 and node not in sure), None)


def _all(node: Node, *, is_sure: bool) -> Iterator[tuple[Node, bool]]:
    """The expression and those in it, and of each whether it is needed in all rows."""
    yield node, is_sure
    is_choice = node.kind in CHOICES
    for number, each in enumerate(node.nodes):
        yield from _all(each, is_sure=is_sure and not (is_choice and number))
