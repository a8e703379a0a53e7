"""All expressions that are evaluated here, by the names of Spark's classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.decode.sql import arithmetic, casts, comparisons, strings, times
from bucketingest.decode.sql.nodes import Kernel, Node, Operand, arrays, types_of


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
    **comparisons.KERNELS,
    **strings.KERNELS,
    **times.KERNELS,
    **_NESTED,
}
CHOICES: Final = frozenset({"And", "Or", "CaseWhen", "If", "Coalesce"})
"""Those that do not need all of their operands in all rows: they are evaluated otherwise."""
