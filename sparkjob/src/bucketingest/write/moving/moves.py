"""Which row of a key lives if its rows are of several partitions. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketingest.hudi.merge.current_rows import CurrentRows
from bucketingest.hudi.merge.winners import ranks_with_nulls
from bucketingest.hudi.table.ordering import comparable
from bucketingest.write.rows.merging import surviving_rows

Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Settled:
    """What becomes of n rows; those that are neither kept nor move lose to another row of their key."""

    kept: Mask
    """Which rows are written to the file group that has their key; if none has it, in their own partition."""
    moving: Rows
    """Rows that leave the partition of the file group that has their key, unless its row is newer."""


def settle(keys: pa.Array, partitions: Rows, home: int | None, ordering: pa.Array | None, deleted: Mask) -> Settled:
    """Decide for all rows of some keys, in order of arrival; of each key all rows of the micro-batch are among them.

    partitions: a number for each row's partition. home: that of the file group which has all of these keys; None: they
    are in no file group. Where all rows of a key belong there, or to one partition, none is lost here: the write tasks
    merge them. Else only the winner stays: that with the greatest ordering value, of equal ones the latest. A delete
    deletes its key wherever that is.
    """
    encoded = keys.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    expected = np.full(len(encoded.dictionary), -1 if home is None else home, np.int64)
    if home is None:
        expected[codes[::-1]] = partitions[::-1]  # of several values for one index, numpy keeps the last
    strays = partitions != expected[codes]
    nothing = np.zeros(0, np.int64)
    if not strays.any():
        return Settled(np.ones(len(keys), np.bool_), nothing)
    contested = np.zeros(len(encoded.dictionary), np.bool_)
    contested[codes[strays]] = True
    rows = np.flatnonzero(contested[codes])
    among = pa.array(rows)
    survivors = surviving_rows(keys.take(among), None if ordering is None else ordering.take(among))
    winners = rows if survivors is None else rows[survivors]
    kept = ~contested[codes]
    if home is None:
        kept[winners] = True
        return Settled(kept, nothing)
    stays = (partitions[winners] == home) | deleted[winners]
    kept[winners[stays]] = True
    return Settled(kept, winners[~stays])


def older_than_current(keys: pa.Array, ordering: pa.Array, current: CurrentRows) -> Mask:
    """Which of these rows, each of another key, are older than what the table has of their key, bool[n]. Of equal
    ordering values the later one wins, and a row that arrives is later than the table's.
    """
    older = np.zeros(len(keys), np.bool_)
    if not len(current) or current.ordering is None:
        return older
    numbers = {key: number for number, key in enumerate(current.keys.to_pylist())}
    rows, theirs = [], []
    for row, key in enumerate(keys.to_pylist()):
        if key in numbers:
            rows.append(row)
            theirs.append(numbers[key])
    mine = comparable(ordering.take(pa.array(rows, pa.int64())))
    both = pa.concat_arrays([mine, current.ordering.take(pa.array(theirs, pa.int64()))])
    ranks = ranks_with_nulls(both)
    older[rows] = ranks[: len(rows)] < ranks[len(rows) :]
    return older
