"""Items of arrays and maps: the first of every row at once, then the second of every row that has one, and so on."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketingest.avro.cursors import Cursors, Mask, Places

T = TypeVar("T")
C = TypeVar("C", bound=Cursors)

_STEPS: Final = 64
"""Items of a row that are read one after the other, whatever the number of rows."""
_STEPS_OF_FEW: Final = 16
"""Items of few rows. Arrays in arrays in arrays take the product of their lengths."""
_ROWS_PER_STEP: Final = 16
"""So many rows allow one more: with fewer, an item costs more than by a decoder of single values."""


def read_items(cursors: C, present: Mask, read: Callable[[C], T]) -> tuple[list[Places], list[T]]:
    """What `read` makes of the first item of every row, then of the second of those that have one, and so on; and which
    rows these are.
    """
    left = np.zeros(len(cursors), np.int64)
    owners: list[Places] = []
    steps: list[T] = []
    going = np.arange(len(cursors)) if present is None else np.flatnonzero(present)
    while len(going := _with_items(cursors, cursors.trusted(going), left)):
        too_many = len(steps) > _STEPS + len(cursors) // _ROWS_PER_STEP
        if too_many or (len(going) < cursors.few and len(steps) > _STEPS_OF_FEW):
            cursors.leave(going, f"arrays or maps of more than {len(steps)} items")
            break
        step = cursors.of(going)
        steps.append(read(step))
        cursors.put(going, step)
        owners.append(going)
        left[going] -= 1
    return owners, steps


def _with_items(cursors: Cursors, rows: Places, left: npt.NDArray[np.int64]) -> Places:
    """Those of the rows that have another item. Where a block of items has ended, the next one's head is read."""
    ended = rows[left[rows] == 0]
    if not len(ended):
        return rows
    heads = cursors.of(ended)
    counts = heads.varints(None)
    has_size = counts < 0  # then the block's size in bytes follows, for readers that skip it
    if has_size.any():
        heads.varints(has_size)
    cursors.put(ended, heads)
    left[ended] = np.abs(counts)
    beyond = ended[left[ended] < 0]
    if len(beyond):
        cursors.refuse(beyond, "a block has a count of items beyond 64 bits")
    return cursors.trusted(rows[left[rows] > 0])


def in_order(
    owners: Collection[Places], steps: Collection[pa.Array], kind: pa.DataType, count: int
) -> tuple[pa.Array, pa.Buffer]:
    """The items of each step as those of one row after the other, and where each row's begin and end."""
    if not owners:
        return pa.array([], kind), pa.py_buffer(np.zeros(count + 1, np.int32))
    rows = np.concatenate(list(owners))
    order = pa.array(np.argsort(rows, kind="stable"))
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(rows, minlength=count), out=offsets[1:])
    return pa.concat_arrays(list(steps)).take(order), pa.py_buffer(offsets)
