"""Functions of text. Spark counts characters as code points, which Arrow does too."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.decode.sql.nodes import Kernel, Node, Operand, always, arrays, checked, demand, is_text, types_of

_LENGTH_MAX: Final = 2**31 - 1
_SIMPLE: Final = (
    "\\x00-\\x7f\u00a0-\u00b4\u00b6-\u00de\u00e0-\u00ff\u0400-\u045f\u2010-\u2027\u20ac\u3040-\u9fff\uac00-\ud7a3"
)
"""Characters whose upper and lower case is one character whatever is beside it, the same in all versions of Unicode."""
SIMPLE_TEXT: Final = f"^[{_SIMPLE}]*$"
"""All of them."""
_PERCENTS: Final = re.compile(r"(%?)([^%_\\]*)(%?)", re.DOTALL)


def _all_text(node: Node) -> bool:
    return all(is_text(kind) for kind in types_of(node))


def _cased(ascii_only: Callable[[pa.Array], pa.Array], simple: Callable[[pa.Array], pa.Array]) -> Kernel:
    def run(node: Node, operands: Sequence[Operand]) -> pa.Array:
        (array,) = arrays(operands)
        if pc.all(pc.string_is_ascii(array)).as_py() is not False:
            return ascii_only(array)
        demand(node, pc.match_substring_regex(array, SIMPLE_TEXT))
        return simple(array)

    return Kernel(run, _all_text, doubts=always)


def _trimmed(trim: Callable[..., pa.Array]) -> Kernel:
    """Spaces only. With a second operand they are other characters, which is not done here."""
    return Kernel(
        lambda _, operands: trim(arrays(operands)[0], characters=" "),
        lambda node: len(node.nodes) == 1 and _all_text(node),
    )


def _concat(node: Node, operands: Sequence[Operand]) -> pa.Array:
    return _joined(node, operands, "", "emit_null")


def _concat_with(node: Node, operands: Sequence[Operand]) -> pa.Array:
    """Nulls are left out, with their separator."""
    return _joined(node, operands[1:], operands[0], "skip")


def _joined(node: Node, parts: Sequence[Operand], separator: Operand | str, null_handling: str) -> pa.Array:
    if any(isinstance(each, pa.Scalar) for each in parts):
        parts = list(parts) if any(isinstance(each, pa.Array) for each in parts) else arrays(parts)
    return checked(node, lambda: pc.binary_join_element_wise(*parts, separator, null_handling=null_handling))


def _has_separator(node: Node) -> bool:
    separator, *parts = node.nodes
    some = any(not each.is_literal for each in parts)
    return _all_text(node) and separator.is_literal and separator.value is not None and some


def _substring(node: Node, operands: Sequence[Operand]) -> pa.Array:
    start, length = (each.value for each in node.nodes[1:])
    first = max(0, start - 1)
    return pc.utf8_slice_codeunits(arrays(operands)[0], start=first, stop=min(first + length, _LENGTH_MAX))


def _is_from_the_left(node: Node) -> bool:
    text, start, length = node.nodes
    return (
        is_text(text.type)
        and start.is_literal
        and length.is_literal
        and None not in {start.value, length.value}
        and start.value >= 0
        and length.value >= 0
    )


def _found(find: Callable[..., pa.Array]) -> Kernel:
    return Kernel(
        lambda node, operands: find(operands[0], pattern=node.nodes[1].value),
        lambda node: _all_text(node) and node.nodes[1].is_literal and node.nodes[1].value is not None,
    )


def _like(node: Node, operands: Sequence[Operand]) -> pa.Array:
    found = _PERCENTS.fullmatch(node.nodes[1].value)
    assert found is not None, "others are not taken"
    before, text, after = found.groups()
    if not before and not after:
        return pc.equal(operands[0], pa.scalar(text))
    find = pc.match_substring if before and after else pc.ends_with if before else pc.starts_with
    return find(operands[0], pattern=text)


def _has_simple_pattern(node: Node) -> bool:
    """Text with a percent sign before or after it, and no other sign."""
    pattern = node.nodes[1]
    return (
        _all_text(node)
        and pattern.is_literal
        and pattern.value is not None
        and _PERCENTS.fullmatch(pattern.value) is not None
    )


KERNELS: Final = {
    "Lower": _cased(pc.ascii_lower, pc.utf8_lower),
    "Upper": _cased(pc.ascii_upper, pc.utf8_upper),
    "StringTrim": _trimmed(pc.ascii_trim),
    "StringTrimLeft": _trimmed(pc.ascii_ltrim),
    "StringTrimRight": _trimmed(pc.ascii_rtrim),
    "Length": Kernel(lambda _, operands: pc.utf8_length(operands[0]), _all_text),
    "Concat": Kernel(_concat, lambda node: _all_text(node) and any(not each.is_literal for each in node.nodes)),
    "ConcatWs": Kernel(_concat_with, _has_separator),
    "Substring": Kernel(_substring, _is_from_the_left),
    "StartsWith": _found(pc.starts_with),
    "EndsWith": _found(pc.ends_with),
    "Contains": _found(pc.match_substring),
    "Like": Kernel(_like, _has_simple_pattern),
}
