"""All expressions that are evaluated here, by the names of Spark's classes; among them comparisons: NaN equals itself
and is the greatest number, -0.0 equals 0.0, text is compared byte by byte.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.decode.sql import arithmetic, casts, strings, times
from bucketingest.decode.sql.nodes import Kernel, Node, Operand, arrays, types_of


def _comparable(node: Node) -> bool:
    first, *others = types_of(node)
    if any(other != first for other in others):
        return False
    return (
        pa.types.is_integer(first)
        or pa.types.is_floating(first)
        or pa.types.is_decimal(first)
        or pa.types.is_boolean(first)
        or pa.types.is_string(first)
        or pa.types.is_date32(first)
        or (pa.types.is_timestamp(first) and first.tz is not None)
    )


def equal(one: Operand, other: Operand) -> pa.Array:
    """Null if one of them is."""
    same = pc.equal(one, other)
    if pa.types.is_floating(one.type):
        same = pc.or_(same, pc.and_(pc.is_nan(one), pc.is_nan(other)))
    return same


def less(one: Operand, other: Operand) -> pa.Array:
    """Null if one of them is."""
    found = pc.less(one, other)
    if pa.types.is_floating(one.type):
        found = pc.or_(found, pc.and_(pc.invert(pc.is_nan(one)), pc.is_nan(other)))
    return found


def _equal_or_both_null(one: Operand, other: Operand) -> pa.Array:
    both = pc.and_(pc.is_null(one), pc.is_null(other))
    return pc.or_(pc.fill_null(equal(one, other), False), both)  # noqa: FBT003


def _in(_: Node, operands: Sequence[Operand]) -> pa.Array:
    """Null if none is equal and one is null."""
    value, *others = operands
    return functools.reduce(pc.or_kleene, (equal(value, other) for other in others))


def _compared(compare: Callable[[Operand, Operand], pa.Array]) -> Kernel:
    return Kernel(lambda _, operands: compare(operands[0], operands[1]), _comparable)


def _of_one(run: Callable[[pa.Array], pa.Array], takes: Callable[[pa.DataType], bool]) -> Kernel:
    return Kernel(lambda _, operands: run(arrays(operands)[0]), lambda node: takes(types_of(node)[0]))


_COMPARISONS: Final = {
    "EqualTo": _compared(equal),
    "EqualNullSafe": _compared(_equal_or_both_null),
    "LessThan": _compared(less),
    "GreaterThan": _compared(lambda one, other: less(other, one)),
    "LessThanOrEqual": _compared(lambda one, other: pc.invert(less(other, one))),
    "GreaterThanOrEqual": _compared(lambda one, other: pc.invert(less(one, other))),
    "In": Kernel(_in, _comparable),
    "Not": _of_one(pc.invert, pa.types.is_boolean),
    "IsNull": _of_one(pc.is_null, lambda _: True),
    "IsNotNull": _of_one(pc.is_valid, lambda _: True),
    "IsNaN": _of_one(lambda array: pc.fill_null(pc.is_nan(array), False), pa.types.is_floating),  # noqa: FBT003
}


def _field(node: Node, operands: Sequence[Operand]) -> pa.Array:
    return pc.struct_field(arrays(operands)[0], [node.value])


def _struct(node: Node, operands: Sequence[Operand]) -> pa.Array:
    """The operands are names and values in turns."""
    return pa.StructArray.from_arrays(arrays(operands)[1::2], fields=list(node.type))


_NESTED: Final = {
    "GetStructField": Kernel(_field, lambda node: pa.types.is_struct(types_of(node)[0])),
    "CreateNamedStruct": Kernel(_struct, lambda node: any(not each.is_literal for each in node.nodes)),
}
KERNELS: Final[Mapping[str, Kernel]] = {
    **arithmetic.KERNELS,
    **casts.KERNELS,
    **_COMPARISONS,
    **strings.KERNELS,
    **times.KERNELS,
    **_NESTED,
}
CHOICES: Final = frozenset({"And", "Or", "CaseWhen", "If", "Coalesce"})
"""Those that do not need all of their operands in all rows: they are evaluated otherwise."""
