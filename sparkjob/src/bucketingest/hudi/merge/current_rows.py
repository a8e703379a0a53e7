"""What a file slice says of some keys: whether a reader shows a row of each, and with which ordering value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.hudi.merge.base_reader import batches, open_base
from bucketingest.hudi.merge.log_records import KEY, LogRecords, ordering_values
from bucketingest.hudi.merge.merge_rules import MergeRules
from bucketingest.hudi.merge.winners import EMPTY, Kind, Records, WinnerFold, not_less
from bucketingest.hudi.table.file_view import FileSlice
from bucketingest.storage.interface import Storage

Wanted = Callable[[pa.Array], npt.NDArray[np.bool_]]
"""Which of these keys are asked for."""

_FOLD_RECORDS: Final = 1_000_000
_FOLD_BYTES: Final = 128 * 1024**2
_BASE_ROWS: Final = 256 * 1024
_BASE_BYTES: Final = 64 * 1024**2
_LAST: Final = "9" * 17
"""After every instant."""


@dataclass(frozen=True, slots=True)
class CurrentRows:
    """What is known of the keys that the slice has, each once, in no order."""

    keys: pa.Array
    ordering: pa.Array | None
    """Of the row, or of the delete, that wins; null, also of a delete without one: lower than every value. None: the
    later one wins."""
    alive: npt.NDArray[np.bool_]
    """Whether a row wins, and no delete."""

    def __len__(self) -> int:
        return len(self.keys)


def current_rows(storage: Storage, files: FileSlice, rules: MergeRules, wanted: Wanted) -> CurrentRows:
    """The wanted keys that are in the slice. Memory grows with these keys, and with a batch of the others.

    Raises CorruptLog, NotFound, and UnsupportedTable for blocks that only Hudi can merge.
    """
    fold = WinnerFold(_FOLD_RECORDS, _FOLD_BYTES)
    for records in LogRecords(storage, [log.path for log in files.log_files], rules, _LAST).records():
        fold.add(records.take(np.flatnonzero(wanted(records.keys))))
    winners = fold.winners()
    if len(winners) == 0:
        winners = EMPTY
    lost = np.zeros(len(winners), np.bool_)
    parts = []
    for keys, ordering in _of_base(storage, files, rules, wanted):
        found = pc.index_in(keys, value_set=winners.keys)
        met = _numpy(found.is_valid())
        rows, numbers = np.flatnonzero(met), found.drop_null().to_numpy()
        wins = _wins(winners, numbers, None if ordering is None else ordering.take(pa.array(rows)))
        lost[numbers[~wins]] = True
        stays = ~met
        stays[rows[~wins]] = True
        parts.append((keys.filter(pa.array(stays)), None if ordering is None else ordering.filter(pa.array(stays))))
    left = winners.take(np.flatnonzero(~lost))
    alive = [np.ones(len(keys), np.bool_) for keys, _ in parts] + [(left.kinds & Kind.DELETE) == 0]
    by_commit_time = pa.array((left.kinds & Kind.COMMIT_TIME) != 0)
    parts.append((left.keys, None if left.ordering is None else pc.if_else(by_commit_time, None, left.ordering)))
    orderings = [ordering for keys, ordering in parts if ordering is not None and len(keys)]
    return CurrentRows(
        pa.concat_arrays([keys for keys, _ in parts]),
        None if rules.ordering_field is None else _joined(orderings),
        np.concatenate(alive),
    )


def _of_base(
    storage: Storage, files: FileSlice, rules: MergeRules, wanted: Wanted
) -> Iterator[tuple[pa.Array, pa.Array | None]]:
    """Wanted keys of the base file, and their ordering values."""
    if files.base_file is None:
        return
    with open_base(storage, files.base_file.path) as base:
        columns = [KEY, rules.ordering_field or KEY]
        for batch in batches(base, columns, rows=_BASE_ROWS, size_bytes=_BASE_BYTES):
            keys = batch.column(KEY)
            keys = keys.dictionary_decode() if pa.types.is_dictionary(keys.type) else keys
            rows = pa.array(wanted(keys))
            ordering = None
            if rules.ordering_field is not None:
                kind = rules.schema.field(rules.ordering_field).type
                has = rules.ordering_field in batch.schema.names
                values = batch.column(rules.ordering_field).cast(kind) if has else pa.nulls(len(batch), kind)
                ordering = ordering_values(values.filter(rows))
            yield keys.filter(rows), ordering


def _wins(winners: Records, numbers: npt.NDArray[Any], older: pa.Array | None) -> npt.NDArray[np.bool_]:
    """Which of these records of the log files win over the base file's rows."""
    if older is None or winners.ordering is None:
        return np.ones(len(numbers), np.bool_)
    by_commit_time = (winners.kinds[numbers] & Kind.COMMIT_TIME) != 0
    return by_commit_time | not_less(winners.ordering.take(pa.array(numbers)), older)


def _joined(orderings: list[pa.Array]) -> pa.Array:
    return pa.concat_arrays(orderings) if orderings else pa.array([], pa.int64())


def _numpy(array: pa.Array) -> npt.NDArray[Any]:
    return array.to_numpy(zero_copy_only=False)
