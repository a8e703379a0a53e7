"""Puts older values in the place of placeholders while log files become a base file: in it there are none, so that
readers of base files alone are right. Where no older value is known it is null.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketingest.hudi.merge.base_reader import batches, open_base
from bucketingest.hudi.merge.log_records import KEY, LogRecords
from bucketingest.hudi.merge.unavailable import Donors, lacks_values
from bucketingest.services.merge.outcome import Limits
from bucketingest.storage.interface import Storage

Positions = npt.NDArray[np.int64]


def filled_rows(
    storage: Storage, base_file: str | None, logs: LogRecords, positions: Positions, limits: Limits
) -> Iterator[pa.Table]:
    """The log files' rows at these ascending positions, in any order. Memory: `limits.fold_bytes` of values; if the
    older ones are more, the files are read once for each part of the keys.
    """
    if not logs.rules.fills:
        yield from logs.rows(positions)
        return
    lacking, keys = _lacking(logs, positions)
    yield from logs.rows(positions[~lacking])
    left, count = positions[lacking], len(keys)
    while len(left):
        donors = _donors(storage, base_file, logs, keys[:count], limits)
        if donors is None:
            count //= 2
            continue
        for rows in logs.rows(left[:count]):
            batch = _batch(rows)
            yield pa.Table.from_batches([donors.filled(_keys(batch), batch, last=True)])
        left, keys = left[count:], keys[count:]


def _lacking(logs: LogRecords, positions: Positions) -> tuple[npt.NDArray[np.bool_], pa.Array]:
    """Which of the rows have a placeholder, and the keys of those."""
    found, keys = [np.zeros(0, np.bool_)], [pa.array([], pa.string())]
    for rows in logs.rows(positions, [KEY, *logs.rules.fills]):
        batch = _batch(rows)
        lacking = lacks_values(batch, [name for name in logs.rules.fills if name in batch.schema.names])
        found.append(lacking)
        keys.append(_keys(batch).filter(pa.array(lacking)))
    return np.concatenate(found), pa.concat_arrays(keys)


def _donors(storage: Storage, base_file: str | None, logs: LogRecords, keys: pa.Array, limits: Limits) -> Donors | None:
    """The newest values of the keys; None if they are too large, and of several keys."""
    names = logs.rules.fills
    donors = Donors(keys, [logs.rules.schema.field(name) for name in names])
    for found, rows in _records(storage, base_file, logs, limits):
        if rows is None:
            donors.forget(found)
        else:
            donors.see(found, rows)
        if donors.size_bytes > limits.fold_bytes and len(keys) > 1:
            return None
    return donors


def _records(
    storage: Storage, base_file: str | None, logs: LogRecords, limits: Limits
) -> Iterator[tuple[pa.Array, pa.RecordBatch | None]]:
    if base_file is not None:
        with open_base(storage, base_file) as base:
            wanted = [name for name in (KEY, *logs.rules.fills) if name in base.schema_arrow.names]
            for batch in batches(base, wanted, rows=limits.batch_rows, size_bytes=limits.batch_bytes):
                yield _keys(batch), batch
    yield from logs.values(logs.rules.fills)


def _keys(rows: pa.RecordBatch) -> pa.Array:
    keys = rows.column(KEY)
    return keys.dictionary_decode() if pa.types.is_dictionary(keys.type) else keys


def _batch(rows: pa.Table) -> pa.RecordBatch:
    found = rows.combine_chunks().to_batches()
    return found[0] if found else pa.RecordBatch.from_pylist([], rows.schema)
