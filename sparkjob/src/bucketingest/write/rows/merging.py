"""Which row of a key survives inside one flush, by the rule that Hudi's readers apply between blocks.

A block may hold a key twice, but the delete block of a flush is read after its data block: "deleted, then inserted
again" inside one flush would read as deleted. So a flush holds each key once: the row with the greatest ordering value,
and the later row if values are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.hudi.merge.unavailable import Donors, fillable, lacks_values
from bucketingest.hudi.table.ordering import ranks
from bucketingest.write.plan import DELETE_COLUMN

_PACKED_MAX: Final = 1 << 63


def surviving_rows(record_key: pa.Array, ordering: pa.Array | None) -> npt.NDArray[np.int64] | None:
    """Indices of the rows that survive, in arrival order; None when all do.

    `record_key`: string, no nulls, in arrival order. `ordering`: any comparable type, no nulls, same length; None
    lets the later row win.
    """
    encoded = record_key.dictionary_encode()
    if len(encoded.dictionary) == len(record_key):
        return None
    codes = _numpy(encoded.indices)
    arrival = np.arange(len(codes))
    sort_keys = (arrival, codes) if ordering is None else (arrival, ranks(ordering), codes)
    order = np.lexsort(sort_keys)
    is_last_of_key = np.append(np.diff(codes[order]) != 0, True)
    return np.sort(order[is_last_of_key])


def surely_distinct(key: Sequence[pa.Array]) -> bool:
    """Whether it is plain to see that rows have different keys: of integers and of one text, as events have that are
    known by their place in a topic. To sort numbers is several times faster than to look up their texts.
    """
    packed, size = np.zeros(len(key[0]), np.int64), 1
    for column in key:
        if pa.types.is_integer(column.type) and not column.null_count and column.type != pa.uint64():
            low, high = (int(each.as_py()) for each in pc.min_max(column).values())
            if (size := size * (high - low + 1)) >= _PACKED_MAX:
                return False
            packed = packed * (high - low + 1) + (_numpy(column).astype(np.int64) - low)
        elif not pa.types.is_string(column.type) or not pc.all(pc.equal(column, column[0]), skip_nulls=False).as_py():
            return False
    packed.sort()
    return bool((packed[1:] != packed[:-1]).all())


def filled_by(
    rows: pa.RecordBatch, keys: pa.Array, older: Iterable[tuple[pa.Array, pa.RecordBatch]], *, last: bool
) -> pa.RecordBatch:
    """Rows with values in the place of placeholders, from all rows of their keys in arrival order; to a delete nothing
    is older. `last`: see `Donors.filled`.
    """
    columns = fillable(rows.schema)
    lacking = pa.array(lacks_values(rows, columns))
    if not lacking.true_count:
        return rows
    wanted = keys.filter(lacking)
    donors = Donors(wanted, [rows.schema.field(name) for name in columns])
    for all_keys, all_rows in older:
        asked = pc.is_in(all_keys, value_set=wanted)
        of_older, each = all_keys.filter(asked), all_rows.filter(asked)
        if DELETE_COLUMN not in each.schema.names:
            donors.see(of_older, each)
            continue
        deleted = each.column(DELETE_COLUMN).fill_null(False)  # noqa: FBT003 - Arrow's signature
        for start, end, is_delete in _runs(_numpy(deleted)):
            if is_delete:
                donors.forget(of_older.slice(start, end - start))
            else:
                donors.see(of_older.slice(start, end - start), each.slice(start, end - start))
    return donors.filled(keys, rows, last=last)


def _runs(marks: npt.NDArray[np.bool_]) -> Iterator[tuple[int, int, bool]]:
    """Where the marks are the same: start, end, and the mark."""
    edges = [0, *(np.flatnonzero(np.diff(marks)) + 1).tolist(), len(marks)]
    for start, end in pairwise(edges):
        if end > start:
            yield start, end, bool(marks[start])


def _numpy(array: pa.Array) -> npt.NDArray[Any]:
    return array.to_numpy(zero_copy_only=False)
