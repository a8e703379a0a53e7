"""What an expression is here, and what a function that evaluates one looks like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


class RowsInDoubt(Exception):
    """Spark would fail with one of these rows, or it is not sure what Spark makes of it: the rows are Spark's to do."""


@dataclass(frozen=True, slots=True)
class Node:
    """One of Spark's resolved expressions. Picklable, hashable."""

    kind: str
    """Name of Spark's class."""
    type: pa.DataType
    nodes: tuple[Node, ...] = ()
    value: Any = None
    """Of a literal, a column (its number), a field (likewise); of others what they are called with."""
    text: str = field(default="", compare=False)
    """As SQL, for messages."""

    @property
    def is_literal(self) -> bool:
        """Whether it has the same value in all rows."""
        return self.kind == "Literal"


Operand: TypeAlias = pa.Array | pa.Scalar
"""A scalar is a literal's value. Not all operands of a function are scalars."""
Run: TypeAlias = Callable[[Node, Sequence[Operand]], pa.Array]


@dataclass(frozen=True, slots=True)
class Kernel:
    """How expressions of one kind are evaluated."""

    run: Run
    takes: Callable[[Node], bool]
    """Whether the operands' types and the call are among those that are proven."""
    fails: Callable[[Node], bool] = lambda _: False
    """Whether Spark may fail with a value."""
    doubts: Callable[[Node], bool] = lambda _: False
    """Whether RowsInDoubt may be raised without a failure of Spark's."""


def never(_: Node) -> bool:
    """No expression of the kind."""
    return False


def always(_: Node) -> bool:
    """Every expression of the kind."""
    return True


def types_of(node: Node) -> tuple[pa.DataType, ...]:
    """The operands' types."""
    return tuple(each.type for each in node.nodes)


def checked(node: Node, run: Callable[[], pa.Array]) -> pa.Array:
    """What a function of Arrow gives that refuses values. Raises RowsInDoubt, which is logged: it names no value."""
    try:
        return run()
    except pa.ArrowInvalid:
        raise RowsInDoubt(f"{node.text}: not for all of the values") from None


def demand(node: Node, good: pa.BooleanArray) -> None:
    """Raises RowsInDoubt unless each is true or null."""
    if pc.all(good).as_py() is False:
        raise RowsInDoubt(f"{node.text}: not for all of the values")


def as_array(operand: Operand, length: int) -> pa.Array:
    """A literal's value as often as there are rows."""
    return pa.repeat(operand, length) if isinstance(operand, pa.Scalar) else operand


def arrays(operands: Sequence[Operand]) -> list[pa.Array]:
    """All operands as arrays."""
    length = next(len(each) for each in operands if not isinstance(each, pa.Scalar))
    return [as_array(each, length) for each in operands]


def numbers(array: pa.Array, null: float = 0) -> npt.NDArray[Any]:
    """The values, a null as the number given."""
    return pc.fill_null(array, pa.scalar(null, array.type)).to_numpy(zero_copy_only=False)


def from_numbers(values: npt.NDArray[Any], kind: pa.DataType, *nullable: pa.Array) -> pa.Array:
    """An array that is null where one of the arrays is."""
    mask = np.zeros(len(values), np.bool_)
    for each in nullable:
        if each.null_count:
            mask |= each.is_null().to_numpy(zero_copy_only=False)
    return pa.array(values, kind, mask=mask)


def is_text(kind: pa.DataType) -> bool:
    """Whether it is Spark's STRING, which the reader lets through with the default collation only."""
    return pa.types.is_string(kind)
