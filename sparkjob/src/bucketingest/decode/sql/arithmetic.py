"""Arithmetic in ANSI mode: where Spark fails, for an overflow or a division by zero, the rows are in doubt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.decode.sql.nodes import (
    Kernel,
    Node,
    Operand,
    always,
    arrays,
    checked,
    demand,
    from_numbers,
    numbers,
    types_of,
)


def _is_integral(node: Node) -> bool:
    return pa.types.is_integer(node.type)


def _alike(node: Node) -> bool:
    """Numbers of one type that is also the result's; decimals may differ, their result is checked against Spark's."""
    kinds = types_of(node)
    if all(pa.types.is_decimal(kind) for kind in kinds):
        return _is_exact(node)
    return all(kind == node.type for kind in kinds) and (_is_integral(node) or pa.types.is_floating(node.type))


def _is_exact(node: Node) -> bool:
    """Whether the result has all digits. Otherwise Spark rounds it, or fails with it."""
    (one, *others) = types_of(node)
    if not others:
        return node.type == one
    (other,) = others
    if node.kind == "Multiply":
        digits, scale = one.precision + other.precision + 1, one.scale + other.scale
    else:
        scale = max(one.scale, other.scale)
        digits = scale + max(one.precision - one.scale, other.precision - other.scale) + 1
    return digits <= 38 and (node.type.precision, node.type.scale) == (digits, scale)


def _plain_or_checked(plain: Callable[..., pa.Array], check: Callable[..., pa.Array]) -> Kernel:
    def run(node: Node, operands: Sequence[Operand]) -> pa.Array:
        if _is_integral(node):
            return checked(node, lambda: check(*operands))
        return plain(*operands)

    return Kernel(run, _alike, fails=_is_integral)


def _divide(node: Node, operands: Sequence[Operand]) -> pa.Array:
    one, other = arrays(operands)
    demand(node, pc.not_equal(other, pa.scalar(0, other.type)))
    return pc.divide(one, other)


def _divide_whole(node: Node, operands: Sequence[Operand]) -> pa.Array:
    """The quotient, cut towards zero."""
    one, other = arrays(operands)
    demand(node, pc.not_equal(other, pa.scalar(0, other.type)))
    return checked(node, lambda: pc.divide_checked(one, other))


def _remainder(node: Node, operands: Sequence[Operand]) -> pa.Array:
    """The remainder, with the sign of the first operand."""
    one, other = arrays(operands)
    demand(node, pc.not_equal(other, pa.scalar(0, other.type)))
    divisors = numbers(other, 1)
    if _is_integral(node):
        divisors = np.where(divisors == -1, 1, divisors)  # the smallest number has no quotient by -1
    with np.errstate(invalid="ignore"):  # that of an infinity is NaN
        left = np.fmod(numbers(one), divisors)
    return from_numbers(left, node.type, one, other)


def _divisible(node: Node) -> bool:
    return all(kind == node.type for kind in types_of(node)) and (_is_integral(node) or pa.types.is_floating(node.type))


KERNELS: Final = {
    "Add": _plain_or_checked(pc.add, pc.add_checked),
    "Subtract": _plain_or_checked(pc.subtract, pc.subtract_checked),
    "Multiply": _plain_or_checked(pc.multiply, pc.multiply_checked),
    "UnaryMinus": _plain_or_checked(pc.negate, pc.negate_checked),
    "Abs": _plain_or_checked(pc.abs, pc.abs_checked),
    "Divide": Kernel(_divide, lambda node: _divisible(node) and pa.types.is_floating(node.type), fails=always),
    "IntegralDivide": Kernel(
        _divide_whole, lambda node: _divisible(node) and pa.types.is_int64(node.type), fails=always
    ),
    "Remainder": Kernel(_remainder, _divisible, fails=always),
}
