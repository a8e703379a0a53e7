"""Columns of rows that hold what their message is beside its value: `source.kafka.columns`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import pyarrow as pa

from bucketingest.decode.kafka.message import KEY, MESSAGE
from bucketingest.decode.rows import Decoded


class ClashingColumns(Exception):
    """A column of the value has the name too. The text follows "spec.format.schema"."""


class _Part(NamedTuple):
    """What a column is made of, and its type."""

    source: str
    type: pa.DataType


_PARTS: Final[Mapping[str, _Part]] = {
    **{each.name: _Part(each.name, each.type) for each in MESSAGE},
    "key": _Part(KEY, pa.string()),
    "keyBytes": _Part(KEY, pa.binary()),
}


@dataclass(frozen=True, slots=True)
class MessageColumns:
    """The columns that a spec names. Picklable."""

    names: Mapping[str, str] = field(default_factory=dict)
    """Of the columns, by what they hold, in their order."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Which of `MESSAGE`'s columns they are made of."""
        return tuple(dict.fromkeys(_PARTS[part].source for part in self.names))

    @property
    def fields(self) -> list[pa.Field]:
        """The columns."""
        return [pa.field(name, _PARTS[part].type) for part, name in self.names.items()]

    def behind(self, columns: pa.Schema) -> pa.Schema:
        """The source's columns: those of the value, and behind them these. Raises ClashingColumns."""
        known = {name.lower() for name in columns.names}
        for part, name in self.names.items():
            if name.lower() in known:
                raise ClashingColumns(
                    f"has a column {name}, and source.kafka.columns.{part} is {name}: name another there"
                )
        return pa.schema([*columns, *self.fields])

    def added_to(self, decoded: Decoded, messages: pa.RecordBatch) -> Decoded:
        """The rows with the columns. `messages`: all of the block, with the columns `needs`. A message whose key is
        wanted as text, and is none, is refused.
        """
        if not self.names:
            return decoded
        numbers = decoded.numbers(messages.num_rows)
        if "key" in self.names and (bad := _no_texts(messages.column(KEY).take(pa.array(numbers)))):
            decoded = decoded.without(dict.fromkeys(bad, "the key is not UTF-8 text"), messages.num_rows)
            numbers = decoded.numbers(messages.num_rows)
        if len(numbers) < messages.num_rows or decoded.made_of is not None:
            messages = messages.take(pa.array(numbers))
        # The timestamp is in the session's time zone if Spark reads.
        columns = [messages.column(_PARTS[part].source).cast(_PARTS[part].type) for part in self.names]
        schema = pa.schema([*decoded.rows.schema, *self.fields])
        return replace(decoded, rows=pa.RecordBatch.from_arrays([*decoded.rows.columns, *columns], schema=schema))


def _no_texts(keys: pa.BinaryArray) -> list[int]:
    """The places of keys that are not UTF-8."""
    try:
        keys.cast(pa.string())
    except pa.ArrowInvalid:
        return [at for at, key in enumerate(keys.to_pylist()) if key is not None and not _is_text(key)]
    return []


def _is_text(key: bytes) -> bool:
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True
