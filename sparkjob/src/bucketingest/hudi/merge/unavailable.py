"""Values that a source did not send, because they are as before: a placeholder stands for them, and a reader shows the
newest older value of the key in this column (Hudi 1.2.0: PartialUpdateMode.FILL_UNAVAILABLE). Of columns of text only:
in those of bytes hudi-rs 0.5.0 fills it, and Hudi 1.2.0 on Spark shows it (seen).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

PLACEHOLDER: Final = "__debezium_unavailable_value"
FILL_PROPERTIES: Final[Mapping[str, str]] = {
    "hoodie.table.partial.update.mode": "FILL_UNAVAILABLE",
    "hoodie.record.merge.property.hoodie.write.partial.update.unavailable.value": PLACEHOLDER,
    "hoodie.record.merge.property.partial.update.unavailable.value": PLACEHOLDER,
}
"""Hudi's Java reads the second, hudi-rs 0.5.0 the third (seen): without it it shows placeholders as data."""
_UNKNOWN: Final = -1
_NOTHING: Final = -2
"""The key was deleted: there is no older value."""


def fills_unavailable(properties: Mapping[str, str]) -> bool:
    """Whether readers of a table with these properties put older values in the place of placeholders."""
    return FILL_PROPERTIES.items() <= properties.items()


def fillable(schema: pa.Schema) -> tuple[str, ...]:
    """The columns that may have placeholders."""
    return tuple(each.name for each in schema if pa.types.is_string(each.type) and not each.name.startswith("_hoodie_"))


def unavailable(column: pa.Array) -> npt.NDArray[np.bool_]:
    """Where a column has the placeholder."""
    found: npt.NDArray[np.bool_] = pc.fill_null(pc.equal(column, PLACEHOLDER), False).to_numpy(zero_copy_only=False)  # noqa: FBT003
    return found


def lacks_values(rows: pa.RecordBatch, columns: Iterable[str]) -> npt.NDArray[np.bool_]:
    """Which rows have a placeholder in one of the columns."""
    found = np.zeros(rows.num_rows, np.bool_)
    for name in columns:
        found |= unavailable(rows.column(name))
    return found


class Donors:
    """The newest values of some keys, from records in the order in which readers merge them. Memory grows with these
    values.
    """

    def __init__(self, keys: pa.Array, columns: Iterable[pa.Field]) -> None:
        """`keys`: strings without null, each once."""
        self._keys = keys
        self._values = {each.name: pa.nulls(0, each.type) for each in columns}
        self._places = {name: np.full(len(keys), _UNKNOWN) for name in self._values}

    @property
    def size_bytes(self) -> int:
        """Of the values."""
        return sum(each.nbytes for each in self._values.values())

    def see(self, keys: pa.Array, rows: pa.RecordBatch) -> None:
        """Take the next rows, and their keys. A column that they lack was null."""
        at, numbers = self._numbers(keys)
        if not len(at):
            return
        for name, held in self._values.items():
            given = rows.column(name).take(pa.array(at)) if name in rows.schema.names else pa.nulls(len(at), held.type)
            given = given.cast(held.type)
            real = np.flatnonzero(~unavailable(given))
            places = self._places[name]
            places[numbers[real]] = len(held) + np.arange(len(real))  # of several for one index, numpy keeps the last
            is_held = places >= 0
            self._values[name] = pa.concat_arrays([held, given.take(pa.array(real))]).take(pa.array(places[is_held]))
            places[is_held] = np.arange(int(is_held.sum()))

    def forget(self, keys: pa.Array) -> None:
        """Take the next deletes."""
        _, numbers = self._numbers(keys)
        for places in self._places.values():
            places[numbers] = _NOTHING

    def filled(self, keys: pa.Array, rows: pa.RecordBatch, *, last: bool) -> pa.RecordBatch:
        """Rows, which came behind all that was seen, with values in the place of placeholders. `last`: there are no
        older records, so that where none is known the value is null; else the placeholder stays.
        """
        at, numbers = self._numbers(keys)
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        for name, held in self._values.items():
            if name not in columns:
                continue
            lacks = np.zeros(rows.num_rows, np.bool_)
            lacks[at] = unavailable(columns[name])[at]
            places = np.full(rows.num_rows, _UNKNOWN)
            places[at] = self._places[name][numbers]
            if not last:
                lacks &= places != _UNKNOWN
            if lacks.any():
                chosen = places[lacks]
                given = held.take(pa.array(chosen, mask=chosen < 0))
                columns[name] = pc.replace_with_mask(columns[name], pa.array(lacks), given.cast(columns[name].type))
        return pa.RecordBatch.from_arrays(list(columns.values()), schema=rows.schema)

    def _numbers(self, keys: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Places of those keys that are asked for, and the number of each."""
        found = pc.index_in(keys, value_set=self._keys)
        return np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False)), found.drop_null().to_numpy()
