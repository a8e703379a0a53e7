"""Which row of a key survives inside one flush, by the rule that Hudi's readers apply between blocks.

A block may hold a key twice, but the delete block of a flush is read after its data block: "deleted, then inserted
again" inside one flush would read as deleted. So a flush holds each key once: the row with the greatest ordering value,
and the later row if values are equal.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketingest.hudi.table.ordering import ranks


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


def _numpy(array: pa.Array) -> npt.NDArray[Any]:
    return array.to_numpy(zero_copy_only=False)
